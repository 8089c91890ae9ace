package consumergroup

import (
	"sort"

	"github.com/sluicehq/sluice/sharetask"
)

// tracker keeps one partition's position. It is a plain state machine: it knows
// no clock, goroutine or client.
//
// Invariants: committed <= position <= next, if committed is known; every
// delivered record below position was accepted or rejected; position is next or
// the offset of the first delivered record that was not.
type tracker struct {
	position  int64 // What may be committed.
	committed int64 // What the broker confirmed; -1 means nothing.
	next      int64 // The last delivered offset plus one, or the first position.
	open      int   // Delivered and undecided.

	offsets  []int64             // Delivered, from position on, in order.
	verdicts []sharetask.Verdict // Of offsets; 0 is undecided.
	done     []verdictRange      // Below position and not reported, in order.
	released []sharetask.Range   // Released and not reported.
}

// verdictRange is a range of offsets with one verdict.
type verdictRange struct {
	sharetask.Range
	verdict sharetask.Verdict
}

// newTracker starts at an offset. committed is what the broker has, -1 if nothing.
func newTracker(start, committed int64) *tracker {
	return &tracker{position: start, next: start, committed: committed}
}

// deliver notes a record handed out. Offsets must rise; others are ignored and
// false is returned.
func (t *tracker) deliver(offset int64) bool {
	if offset < t.next {
		return false
	}
	if len(t.offsets) == 0 {
		t.position = offset // Nothing is open before it: what lies between holds no record.
	}
	t.offsets = append(t.offsets, offset)
	t.verdicts = append(t.verdicts, 0)
	t.next = offset + 1
	t.open++
	return true
}

// decide notes a verdict on the undecided records in r. Renew is nothing here.
// It reports whether the position moved or something was released.
func (t *tracker) decide(v sharetask.Verdict, r sharetask.Range) bool {
	if v != sharetask.Accept && v != sharetask.Reject && v != sharetask.Release {
		return false
	}
	from := sort.Search(len(t.offsets), func(i int) bool { return t.offsets[i] >= r.First })
	changed := false
	for i := from; i < len(t.offsets) && t.offsets[i] <= r.Last; i++ {
		if t.verdicts[i] != 0 {
			continue
		}
		t.verdicts[i] = v
		t.open--
		if v == sharetask.Release {
			t.released = appendOffset(t.released, t.offsets[i])
			changed = true
		}
	}
	return t.advance() || changed
}

// advance moves the position over the finished records at the front.
func (t *tracker) advance() bool {
	n := 0
	for n < len(t.offsets) && (t.verdicts[n] == sharetask.Accept || t.verdicts[n] == sharetask.Reject) {
		offset, v := t.offsets[n], t.verdicts[n]
		if m := len(t.done); m > 0 && t.done[m-1].verdict == v && t.done[m-1].Last+1 == offset {
			t.done[m-1].Last = offset
		} else {
			t.done = append(t.done, verdictRange{sharetask.Range{First: offset, Last: offset}, v})
		}
		n++
	}
	if n == 0 {
		return false
	}
	if n == len(t.offsets) {
		t.position = t.next
		t.offsets, t.verdicts = t.offsets[:0], t.verdicts[:0]
		return true
	}
	t.position = t.offsets[n]
	// Advancing the slices leaves their fronts to the next growth, which
	// copies what is left of them.
	t.offsets, t.verdicts = t.offsets[n:], t.verdicts[n:]
	return true
}

// dirty reports whether there is something to commit.
func (t *tracker) dirty() bool { return t.position > t.committed }

// commit notes that the broker confirmed offset, and returns what that covered
// and was not reported before.
func (t *tracker) commit(offset int64) []verdictRange {
	t.committed = max(t.committed, offset)
	n := 0
	for n < len(t.done) && t.done[n].Last < offset {
		n++
	}
	covered := t.done[:n:n]
	t.done = t.done[n:]
	if len(t.done) > 0 && t.done[0].First < offset {
		head := t.done[0]
		head.Last = offset - 1
		t.done[0].First = offset
		covered = append(covered, head)
	}
	return covered
}

// takeReleased returns what was released since the last call.
func (t *tracker) takeReleased() []sharetask.Range {
	r := t.released
	t.released = nil
	return r
}

// unsettled reports whether anything delivered was neither reported as released
// nor covered by a commit.
func (t *tracker) unsettled() bool {
	if t.open > 0 || len(t.done) > 0 {
		return true
	}
	for _, v := range t.verdicts {
		if v != sharetask.Release {
			return true
		}
	}
	return false
}

func appendOffset(ranges []sharetask.Range, offset int64) []sharetask.Range {
	if n := len(ranges); n > 0 && ranges[n-1].Last+1 == offset {
		ranges[n-1].Last = offset
		return ranges
	}
	return append(ranges, sharetask.Range{First: offset, Last: offset})
}
