package sharetask

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// Written remembers records that were written, or dead-lettered and confirmed,
// after their lock was lost: delivered again, they are accepted without a
// second put. It is bounded, shared by the tasks of a connector in a worker,
// and safe for concurrent use. What is remembered is told from what took an
// offset's place by its timestamp and content.
type Written struct {
	seed maphash.Seed

	mu      sync.Mutex
	entries map[writtenKey]writtenEntry // Guarded by mu.
	order   []writtenKey                // Guarded by mu: in which they came.
}

type writtenKey struct {
	topic     string
	id        pluginapi.TopicID
	partition int32
	offset    int64
}

type writtenEntry struct {
	content uint64
	until   time.Time
}

// Bounds of the memory. A record is delivered again when its lock has run out,
// or soon after.
const (
	maxWritten   = 100_000
	writtenLocks = 10
)

// NewWritten returns an empty memory.
func NewWritten() *Written {
	return &Written{seed: maphash.MakeSeed(), entries: map[writtenKey]writtenEntry{}}
}

func keyOf(r *pluginapi.Record) writtenKey {
	return writtenKey{topic: r.Topic, id: r.TopicID, partition: r.Partition, offset: r.Offset}
}

// content is what a record is told from others of its offset by.
func (w *Written) content(r *pluginapi.Record) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	key, _ := r.Key.Bytes()
	value, _ := r.Value.Bytes()
	_, _ = h.Write(key)
	_ = h.WriteByte(0)
	_, _ = h.Write(value)
	return h.Sum64() ^ uint64(r.Timestamp.UnixNano()) //nolint:gosec // Bits.
}

// remember enters r for as long as it may be delivered again, with locks that
// last lock.
func (w *Written) remember(r *pluginapi.Record, lock time.Duration, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := keyOf(r)
	if _, ok := w.entries[key]; !ok {
		if len(w.order) == maxWritten {
			delete(w.entries, w.order[0])
			w.order = w.order[1:]
		}
		w.order = append(w.order, key)
	}
	w.entries[key] = writtenEntry{content: w.content(r), until: now.Add(writtenLocks * lock)}
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

// has reports whether r is remembered.
func (w *Written) has(r *pluginapi.Record, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.entries[keyOf(r)]
	return ok && now.Before(e.until) && e.content == w.content(r)
}
