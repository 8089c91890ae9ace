package sharetask

import (
	"slices"
	"sync"
)

// Turn is what the task holds that puts a record at its last chance: one of a
// worker at a time, those that wait in order. It is safe for concurrent use.
type Turn struct {
	mu      sync.Mutex
	holder  *place   // Guarded by mu.
	waiting []*place // Guarded by mu.
}

// NewTurn returns a turn that nobody has.
func NewTurn() *Turn { return &Turn{} }

// place is one task's place in the queue for the turn. Its methods do not block
// and are safe for concurrent use.
type place struct {
	turn *Turn         // Nil for a task alone in its worker.
	came chan struct{} // Capacity 1: the turn has come.
}

// place returns a task's place. A nil turn is for a task alone.
func (t *Turn) place() *place { return &place{turn: t, came: make(chan struct{}, 1)} }

// take reports whether the task has the turn now. If not, came says when it may
// be asked again.
func (p *place) take() bool {
	t := p.turn
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder == nil {
		t.holder = p
	}
	if t.holder == p {
		return true
	}
	if !slices.Contains(t.waiting, p) {
		t.waiting = append(t.waiting, p)
	}
	return false
}

// wanted reports whether others wait for the turn.
func (p *place) wanted() bool {
	if p.turn == nil {
		return false
	}
	p.turn.mu.Lock()
	defer p.turn.mu.Unlock()
	return len(p.turn.waiting) > 0
}

// withdraw gives the turn on if the task has it, and leaves the queue.
func (p *place) withdraw() {
	t := p.turn
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(o *place) bool { return o == p })
	if t.holder != p {
		return
	}
	t.holder = nil
	if len(t.waiting) > 0 {
		t.holder, t.waiting = t.waiting[0], t.waiting[1:]
		select {
		case t.holder.came <- struct{}{}:
		default:
		}
	}
}
