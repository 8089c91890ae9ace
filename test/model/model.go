package model

import (
	"fmt"
	"slices"
)

// Variant is a protocol.
type Variant uint8

// The variants.
const (
	// Ordered is what Sluice does: a claim in the transaction, and before the
	// commit every earlier claim known to be aborted.
	Ordered Variant = iota
	// Unvalidated claims and looks up what is committed before it begins, and
	// commits without another look.
	Unvalidated
	// LookUp waits before it begins until the whole ledger up to its end is decided
	// and does not have the record committed, and commits without another look.
	LookUp
	// AcceptFirst validates, and acknowledges the record before it commits.
	AcceptFirst
)

// Limits of what can be searched.
const (
	maxTasks = 3
	maxLog   = 12 // A claim and its marker for each attempt.
)

// phase is where a task is in its attempt.
type phase uint8

const (
	idle     phase = iota
	lookedUp       // LookUp: the ledger was decided when it looked.
	claimed        // Outputs and claim are written and confirmed.
	ready          // The commit may be sent.
	sent           // The commit was sent, its answer has not come.
	finished       // The task leaves the record alone: it was acknowledged.
)

// coordinator is the state of a task's transaction at the broker.
type coordinator uint8

const (
	none coordinator = iota
	open
	committing // The marker is not in the ledger yet.
	aborting
)

// entry is one record of the ledger.
type entry uint8

func claimOf(task int) entry  { return entry(task) << 2 }
func commitOf(task int) entry { return entry(task)<<2 | 1 }
func abortOf(task int) entry  { return entry(task)<<2 | 2 }

func (e entry) task() int     { return int(e >> 2) }
func (e entry) isClaim() bool { return e&3 == 0 }
func (e entry) commits() bool { return e&3 == 1 }

// state is everything that matters, as a value that can be compared.
//
// How far a task has read the ledger is no part of it. What it concludes from a
// part of the ledger, that an earlier claim is committed, or that all are aborted,
// or how its own ended, is true of the whole: a task that is behind is one that
// takes its step later. It only begins an attempt that it would not have begun, so
// every idle task may.
type state struct {
	log      [maxLog]entry
	length   uint8
	tasks    [maxTasks]task
	accepted bool // The record is acknowledged.
}

type task struct {
	phase    phase
	attempts uint8 // Left.
	own      uint8 // Where its claim is.
	txn      coordinator
	// fenced is that the producer of this attempt is no longer the transaction's:
	// what it sends is refused.
	fenced bool
}

// commits returns how often the record is committed, or will be.
func (s *state) commits() int {
	n := 0
	for _, e := range s.log[:s.length] {
		if e.commits() {
			n++
		}
	}
	for _, t := range s.tasks {
		if t.txn == committing {
			n++
		}
	}
	return n
}

// lost reports whether the record is acknowledged and will not be committed: no
// transaction that could still do it is under way.
func (s *state) lost() bool {
	for _, t := range s.tasks {
		if t.txn == open && !t.fenced {
			return false
		}
	}
	return s.accepted && s.commits() == 0
}

// known returns what the ledger says of the claims below upTo: whether one is
// committed, and whether all are decided.
func (s *state) known(upTo uint8) (committed, decided bool) {
	var open [maxTasks]bool
	for i, e := range s.log[:s.length] {
		switch {
		case e.isClaim():
			if uint8(i) < upTo { //nolint:gosec // At most maxLog.
				open[e.task()] = true
			}
		case open[e.task()]:
			open[e.task()] = false
			committed = committed || e.commits()
		}
	}
	return committed, open == [maxTasks]bool{}
}

// Search walks through all states of a variant with so many tasks and attempts of
// each, which may be 12 / 2 in all. It returns how many states there are, and the
// steps to the first in which the record is committed twice, or acknowledged and
// lost; nil if there is none.
func Search(v Variant, tasks, attempts int) (states int, fault []string) {
	var start state
	for i := range tasks {
		start.tasks[i].attempts = uint8(attempts) //nolint:gosec // A few.
	}
	found, parents, seen := []state{start}, []uint32{0}, map[state]struct{}{start: {}}
	for at := 0; at < len(found); at++ {
		s := found[at]
		if s.commits() > 1 || s.lost() {
			return len(found), path(v, tasks, found, parents, at)
		}
		next(v, s, tasks, func(_ int, _ string, n state) {
			if _, ok := seen[n]; ok {
				return
			}
			seen[n] = struct{}{}
			found, parents = append(found, n), append(parents, uint32(at)) //nolint:gosec // Memory ends before.
		})
	}
	return len(found), nil
}

// path returns the steps to a state.
func path(v Variant, tasks int, found []state, parents []uint32, at int) (steps []string) {
	for at != 0 {
		parent := int(parents[at])
		what := ""
		next(v, found[parent], tasks, func(task int, step string, n state) {
			if n == found[at] && what == "" {
				what = fmt.Sprintf("task %d %s", task+1, step)
			}
		})
		steps = append(steps, what)
		at = parent
	}
	slices.Reverse(steps)
	return steps
}
