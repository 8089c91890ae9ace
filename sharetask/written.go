package sharetask

import (
	"sync"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// Written remembers records that were written, or dead-lettered and confirmed,
// while their lock or its acknowledgement was lost: delivered again, they are
// accepted without a second put. It is bounded, shared by the tasks of a
// connector in a worker, and safe for concurrent use. What is remembered is told
// from what took an offset's place, after a log was cut, by its timestamp.
type Written struct {
	mu      sync.Mutex
	entries map[writtenKey]writtenEntry // Guarded by mu.
	order   []writtenKey                // Guarded by mu: in which they came.
}

type writtenKey struct {
	TopicPartition
	offset int64
}

type writtenEntry struct {
	stamp int64
	until time.Time
}

// Bounds of the memory. A record is delivered again when its lock has run out,
// or soon after.
const (
	maxWritten   = 100_000
	writtenLocks = 10
)

// NewWritten returns an empty memory.
func NewWritten() *Written { return &Written{entries: map[writtenKey]writtenEntry{}} }

// remember enters a record for as long as it may be delivered again, with locks
// that last lock.
func (w *Written) remember(tp TopicPartition, offset, stamp int64, lock time.Duration, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := writtenKey{TopicPartition: tp, offset: offset}
	if _, ok := w.entries[key]; !ok {
		if len(w.order) == maxWritten {
			delete(w.entries, w.order[0])
			w.order = w.order[1:]
		}
		w.order = append(w.order, key)
	}
	w.entries[key] = writtenEntry{stamp: stamp, until: now.Add(writtenLocks * lock)}
}

// empty reports whether nothing is remembered, and forgets what was remembered
// for long enough.
func (w *Written) empty(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.order) > 0 && !now.Before(w.entries[w.order[0]].until) {
		delete(w.entries, w.order[0])
		w.order = w.order[1:]
	}
	return len(w.order) == 0
}

// has reports whether record r of tp is remembered.
func (w *Written) has(tp TopicPartition, r *pluginapi.Record, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.entries[writtenKey{TopicPartition: tp, offset: r.Offset}]
	return ok && now.Before(e.until) && e.stamp == r.Timestamp.UnixNano()
}
