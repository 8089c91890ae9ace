package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent is how much the heap may grow between collections, in percent
	// of what is in use. Records come in large buffers that live for
	// milliseconds: collecting less often costs little memory and saves much
	// CPU. On six partitions 100, 200 and 400 measured 1.94, 1.60 and 1.54 s of
	// CPU per million records, in 67, 78 and 101 MB; later 150 and 200 measured
	// 2.00 and 1.92 s in 69 and 77 MB.
	gcPercent = 150
	// gcGrowth is how much it may grow at least, in bytes: a worker of one busy
	// partition has little in use, and would collect dozens of times a second.
	gcGrowth = 16 << 20
	// gcMost bounds the percentage.
	gcMost = 1000
	// memoryShare is how many times the budget of records the whole process
	// should stay within. "worker.memory" is half of GOMEMLIMIT by default.
	memoryShare = 2
)

// tuneGC sets up garbage collection for a worker whose records may take budget
// bytes. What GOGC and GOMEMLIMIT say goes first.
func tuneGC(budget int64) {
	if os.Getenv("GOGC") == "" {
		current := gcPercent
		debug.SetGCPercent(current)
		afterEachGC(func() {
			// Setting it stops the world for a moment: not for a trifle.
			if p := gcPercentFor(liveHeap()); p < current-current/8 || p > current+current/8 {
				current = p
				debug.SetGCPercent(p)
			}
		})
	}
	if os.Getenv("GOMEMLIMIT") == "" && budget < math.MaxInt64/memoryShare {
		debug.SetMemoryLimit(memoryShare * budget) // Near it, collections come as often as they must.
	}
}

// gcPercentFor returns the percentage by which a heap of which live bytes are in
// use may grow.
func gcPercentFor(live uint64) int {
	return int(min(max(gcPercent, gcGrowth*100/max(live, 1)), gcMost)) //nolint:gosec // At most gcMost.
}

// liveHeap returns how many bytes of the heap the last collection left.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
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
