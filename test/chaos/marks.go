package chaos

import (
	"math/bits"
	"sync"
)

// marks knows which records have arrived somewhere. Its methods may be called from several goroutines.
type marks struct {
	lock sync.Mutex
	bits []uint64 // Of the ids. Guarded by lock.
}

// Mark notes that a record has arrived.
func (m *marks) Mark(id int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for id/64 >= len(m.bits) {
		m.bits = append(m.bits, make([]uint64, max(1024, len(m.bits)))...)
	}
	m.bits[id/64] |= 1 << (id % 64)
}

// Count returns how many records have arrived.
func (m *marks) Count() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	n := 0
	for _, word := range m.bits {
		n += bits.OnesCount64(word)
	}
	return n
}

// Missing returns how many of the confirmed records were not marked.
func (m *marks) Missing(confirmed []Place) int {
	m.lock.Lock()
	defer m.lock.Unlock()
	n := 0
	for id, p := range confirmed {
		if p.Offset != unconfirmed && (id/64 >= len(m.bits) || m.bits[id/64]&(1<<(id%64)) == 0) {
			n++
		}
	}
	return n
}
