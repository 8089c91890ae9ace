package sharetask

import (
	"sync"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// memory keeps something of records that may be delivered again. It is bounded,
// and safe for concurrent use. A record is told from what took its offset, after
// a log was cut, by its timestamp.
type memory[V any] struct {
	mu      sync.Mutex
	entries map[recordKey]entry[V] // Guarded by mu.
	order   []recordKey            // Guarded by mu: in which they came.
}

type recordKey struct {
	TopicPartition
	offset int64
}

type entry[V any] struct {
	stamp int64
	until time.Time
	value V
}

// maxRemembered bounds a memory.
const maxRemembered = 100_000

func newMemory[V any]() *memory[V] { return &memory[V]{entries: map[recordKey]entry[V]{}} }

// remember keeps value of a record until a time.
func (m *memory[V]) remember(tp TopicPartition, offset, stamp int64, until time.Time, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := recordKey{TopicPartition: tp, offset: offset}
	if _, ok := m.entries[key]; !ok {
		if len(m.order) == maxRemembered {
			delete(m.entries, m.order[0])
			m.order = m.order[1:]
		}
		m.order = append(m.order, key)
	}
	m.entries[key] = entry[V]{stamp: stamp, until: until, value: value}
}

// empty reports whether nothing is remembered, and forgets what was remembered
// for long enough.
func (m *memory[V]) empty(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.order) > 0 && !now.Before(m.entries[m.order[0]].until) {
		delete(m.entries, m.order[0])
		m.order = m.order[1:]
	}
	return len(m.order) == 0
}

// of returns what is remembered of record r of tp.
func (m *memory[V]) of(tp TopicPartition, r *pluginapi.Record, now time.Time) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[recordKey{TopicPartition: tp, offset: r.Offset}]
	if !ok || !now.Before(e.until) || e.stamp != r.Timestamp.UnixNano() {
		return value, false
	}
	return e.value, true
}
