package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much the heap may grow between collections: what is allocated in
// gcInterval, within bounds. Records are in buffers that are used again, so a
// share session makes little garbage and needs little room; a consumer group's
// records are the client's garbage, hundreds of megabytes a second, and with as
// little room a fifth of a worker's CPU went into collecting them.
const (
	gcInterval = 100 * time.Millisecond
	gcLeast    = 4 << 20 // Bytes.
	gcMost     = 16 << 20
	// gcPercent is the most for a heap that is larger than gcMost, in percent of
	// what is in use: Go's default.
	gcPercent = 100
	// gcPercentLeast keeps what collections cost in proportion where the heap is
	// large, gcPercentMost where it is next to nothing.
	gcPercentLeast = 10
	gcPercentMost  = 1000
	// memoryShare is how many times the budget of records the whole process
	// should stay within. "worker.memory" is half of GOMEMLIMIT by default.
	memoryShare = 2
)

// tuneGC sets up garbage collection for a worker whose records may take budget
// bytes. What GOGC and GOMEMLIMIT say goes first.
func tuneGC(budget int64) {
	if os.Getenv("GOGC") == "" {
		current := gcPercent
		growth := float64(gcLeast)
		last := readHeap()
		afterEachGC(func() {
			now := readHeap()
			// Slowly: a worker that fills its buffers for the first time makes no garbage.
			growth += (now.growth(last) - growth) / 4
			p := now.percent(growth)
			last = now
			// Setting it stops the world for a moment: not for a trifle.
			if p < current-current/8 || p > current+current/8 {
				current = p
				debug.SetGCPercent(p)
			}
		})
	}
	if os.Getenv("GOMEMLIMIT") == "" && budget < math.MaxInt64/memoryShare {
		debug.SetMemoryLimit(memoryShare * budget) // Near it, collections come as often as they must.
	}
}

// heap is what is known of the heap after a collection.
type heap struct {
	at        time.Time
	live      uint64 // Bytes that the collection left.
	allocated uint64 // Bytes since the process began.
}

func readHeap() heap {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return heap{time.Now(), samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// growth returns by how many bytes the heap should grow until the next
// collection if as much is allocated as was since last, the one before this.
func (h heap) growth(last heap) float64 {
	took := max(h.at.Sub(last.at), time.Microsecond)
	wanted := float64(h.allocated-last.allocated) * float64(gcInterval) / float64(took)
	return min(max(wanted, gcLeast), max(gcMost, float64(h.live)*gcPercent/100))
}

// percent returns a growth by bytes as debug.SetGCPercent has it.
func (h heap) percent(growth float64) int {
	return int(min(max(growth*100/float64(max(h.live, 1)), gcPercentLeast), gcPercentMost))
}

// afterEachGC calls f after each collection from now on, one call at a time, for
// as long as the process runs.
func afterEachGC(f func()) {
	type garbage struct{ _ [64]byte } // Not so small that it shares its memory.
	runtime.AddCleanup(new(garbage), func(struct{}) {
		f()
		afterEachGC(f)
	}, struct{}{})
}
