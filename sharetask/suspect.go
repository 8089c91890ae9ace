package sharetask

import (
	"slices"
	"time"
)

// IsolatePolicy says how a record that kills or hangs its sink is found.
type IsolatePolicy struct {
	Attempts int // Times a single record must fail so, alone in its sink; at least 1.
}

// isolatedMost is how many suspects are put at a time at most, each by a sink in
// a process of its own; and by no more than half of the writers.
const isolatedMost = 8

// splitParts is into how many parts the records of a put that failed alone in
// its sink are split.
const splitParts = 16

// suspect is the records of a put whose fate nobody can tell: their sink
// crashed, hung or answered badly. They are put again by a sink that shares its
// process with no other. All but one put that was lost in a crash are innocent:
// they succeed there. The one that is not is split until the record that does
// it is alone.
type suspect struct {
	spans   []span
	records int
	at      time.Time // Not put before.
	// failedAt is when a single record last failed alone in its sink; zero once
	// that is held against it.
	failedAt time.Time
	// lastTry says that it was retried for long enough in company: if it fails
	// alone as well, that was it.
	lastTry bool
	fails   int   // Puts alone in a sink that failed.
	kills   int   // Of a single record: those held against it.
	err     error // The last failure.
}

// split returns s in up to splitParts parts, in order.
func (s *suspect) split() []*suspect {
	parts := min(splitParts, s.records)
	out := make([]*suspect, 0, parts)
	spans := slices.Clone(s.spans)
	left := s.records
	for k := parts; k > 0; k-- {
		part := &suspect{at: s.at, fails: s.fails, err: s.err}
		want := (left + k - 1) / k
		for part.records < want {
			first := &spans[0]
			n := min(int(first.hi-first.lo), want-part.records)
			part.spans = append(part.spans, span{d: first.d, lo: first.lo, hi: first.lo + int32(n)}) //nolint:gosec // Of one put.
			part.records += n
			if first.lo += int32(n); first.lo == first.hi { //nolint:gosec // Of one put.
				spans = spans[1:]
			}
		}
		left -= want
		out = append(out, part)
	}
	return out
}

// suspects are those that wait for their turn, in order.
type suspects struct{ list []*suspect }

// put adds parts at the end, or at the front.
func (s *suspects) put(parts []*suspect, front bool) {
	if front {
		s.list = append(parts, s.list...)
		return
	}
	s.list = append(s.list, parts...)
}

// next removes and returns the first that is due, or whose failure is proven;
// nil without one. all makes all due.
func (s *suspects) next(now, success time.Time, all bool) *suspect {
	for i, x := range s.list {
		if all || !x.at.After(now) || x.proven(success) {
			s.list = slices.Delete(s.list, i, i+1)
			return x
		}
	}
	return nil
}

// proven reports whether the last failure was its own, not the target's: a put
// that began after it succeeded.
func (s *suspect) proven(success time.Time) bool {
	return !s.failedAt.IsZero() && success.After(s.failedAt)
}

// claim keeps the records that are still waiting, marks them slotPutting, and
// reports whether there are any.
func (s *suspect) claim() bool {
	var spans []span
	s.records = 0
	for _, sp := range s.spans {
		for i := sp.lo; i < sp.hi; i++ {
			if sp.d.slots[i].state != slotWaiting {
				continue
			}
			sp.d.slots[i].state = slotPutting
			spans = appendSpan(spans, sp.d, i)
			s.records++
		}
	}
	s.spans = spans
	return s.records > 0
}

// appendSpan adds record i of d to spans.
func appendSpan(spans []span, d *delivery, i int32) []span {
	if n := len(spans); n > 0 && spans[n-1].d == d && spans[n-1].hi == i {
		spans[n-1].hi++
		return spans
	}
	return append(spans, span{d: d, lo: i, hi: i + 1})
}

// wake returns when the next is due; zero means never.
func (s *suspects) wake() time.Time {
	var next time.Time
	for _, x := range s.list {
		if next.IsZero() || x.at.Before(next) {
			next = x.at
		}
	}
	return next
}
