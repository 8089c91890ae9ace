package recordbatch

import "math"

// walk goes through the acquired offsets in order and puts each where it belongs.
// All below next are decided.
type walk struct {
	acquired []Range // What is left; the first may have begun.
	next     int64   // The first undecided offset of acquired[0]; math.MaxInt64 when none is left.
	gaps     []Range
}

func (w *walk) start(acquired []Range) {
	w.acquired, w.next = acquired, math.MaxInt64
	if len(acquired) > 0 {
		w.next = acquired[0].First
	}
}

// take returns the next piece of undecided offsets up to last, and whether there
// is one, and takes them for decided.
func (w *walk) take(last int64) (Range, bool) {
	if len(w.acquired) == 0 || w.next > last {
		return Range{}, false
	}
	piece := Range{w.next, min(last, w.acquired[0].Last)}
	w.advance(piece.Last)
	return piece, true
}

// advance takes offset for decided, which is in acquired[0].
func (w *walk) advance(offset int64) {
	if offset < w.acquired[0].Last {
		w.next = offset + 1
		return
	}
	w.start(w.acquired[1:])
}

// gap takes all undecided offsets up to last for gaps.
func (w *walk) gap(last int64) {
	for r, ok := w.take(last); ok; r, ok = w.take(last) {
		if n := len(w.gaps); n > 0 && w.gaps[n-1].Last+1 == r.First {
			w.gaps[n-1].Last = r.Last
		} else {
			w.gaps = append(w.gaps, r)
		}
	}
}
