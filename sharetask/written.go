package sharetask

import (
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// Written remembers records that were written, or dead-lettered and confirmed,
// while their lock or its acknowledgement was lost: delivered again, they are
// accepted without a second put. It is bounded, shared by the tasks of a
// connector in a worker, and safe for concurrent use.
type Written struct {
	memory *memory[struct{}]
	recent atomic.Int64 // Until when any record may be one of them, in nanoseconds since 1970.
}

// rememberedTime is how long it takes to forget: in an outage a record that was
// lost may come again late.
const rememberedTime = 24 * time.Hour

// recentLocks is for how many lock periods after one was lost any record is
// looked at. Mostly it comes again when its lock has run out or soon after, and
// if its leader moved, as if for the first time. Later its delivery count tells.
const recentLocks = 10

// NewWritten returns an empty memory.
func NewWritten() *Written { return &Written{memory: newMemory[struct{}]()} }

// remember enters a record.
func (w *Written) remember(tp TopicPartition, offset, stamp int64, lock time.Duration, now time.Time) {
	w.memory.remember(tp, offset, stamp, now.Add(rememberedTime), struct{}{})
	w.recent.Store(now.Add(recentLocks * lock).UnixNano())
}

// look reports whether records have to be looked at: all, or those that were
// delivered before.
func (w *Written) look(now time.Time) (all, again bool) {
	again = !w.memory.empty(now)
	return again && now.UnixNano() < w.recent.Load(), again
}

// has reports whether record r of tp is remembered.
func (w *Written) has(tp TopicPartition, r *pluginapi.Record, now time.Time) bool {
	_, ok := w.memory.of(tp, r, now)
	return ok
}

// Survived remembers how many deliveries of a record ended without an
// acknowledgement while this worker lived on: by a lost lock or session, or
// given back. They say nothing against the record, unlike those that ended with
// a worker. It is bounded, shared by the tasks of a connector in a worker, and
// safe for concurrent use.
type Survived struct{ memory *memory[int16] }

// NewSurvived returns an empty memory.
func NewSurvived() *Survived { return &Survived{memory: newMemory[int16]()} }

// enter takes the end of a delivery of record i of d down.
func (s *Survived) enter(d *delivery, i int32, now time.Time) {
	r := &d.Records[i]
	s.memory.remember(d.TopicPartition, r.Offset, r.Timestamp.UnixNano(), now.Add(rememberedTime), 1+d.DeliveryCounts[i]-d.counts[i])
}

// spare takes off a delivery's counts what its records survived, if anything.
func (s *Survived) spare(d *delivery, now time.Time) {
	if s.memory.empty(now) {
		return
	}
	own := false
	for i, count := range d.DeliveryCounts {
		if count < 2 {
			continue
		}
		n, _ := s.memory.of(d.TopicPartition, &d.Records[i], now)
		if n == 0 {
			continue
		}
		if !own {
			d.counts, own = append([]int16(nil), d.DeliveryCounts...), true
		}
		d.counts[i] = max(1, count-n)
	}
}
