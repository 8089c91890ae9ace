package intent

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOffsetsAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s offsets
		in := map[int64]bool{}
		const most = 40
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			first := rapid.Int64Range(0, most).Draw(t, "first")
			r := Range{first, min(most, first+rapid.Int64Range(0, 5).Draw(t, "length"))}
			want := false
			for o := r.First; o <= r.Last; o++ {
				want = want || in[o]
			}
			if got := s.overlaps(r); got != want {
				t.Fatalf("%v overlaps %v: got %t", s, r, got)
			}
			if rapid.IntRange(0, 9).Draw(t, "forget") == 0 {
				s = s.from(r.First)
				for o := range in { // All of a range that reaches r.First stays.
					if o < r.First && !s.overlaps(Range{o, o}) {
						delete(in, o)
					}
				}
				continue
			}
			s = s.with(r)
			for o := r.First; o <= r.Last; o++ {
				in[o] = true
			}
			for i := range s {
				if s[i].First > s[i].Last || i > 0 && s[i].First <= s[i-1].Last+1 {
					t.Fatalf("ranges %v", s)
				}
			}
		}
		for o := range int64(most + 1) {
			if s.overlaps(Range{o, o}) != in[o] {
				t.Fatalf("offset %d of %v: got %t", o, s, !in[o])
			}
		}
	})
}

// entry is one record of a simulated ledger partition.
type entry struct {
	producer int64
	claim    *Claim // Nil for a marker.
	commit   bool
}

// place is one source offset.
type place struct {
	source Source
	offset int64
}

// writer is a simulated writer that keeps to the rule, or not.
type writer struct {
	ledger   Ledger
	read     int
	producer int64
	own      *Claim
	intent   *Intent
}

func (w *writer) catchUp(log []entry, n int) error {
	for ; w.read < n; w.read++ {
		e, at := log[w.read], int64(w.read)
		if e.claim == nil {
			if _, err := w.ledger.Ended(at, e.producer, e.commit); err != nil {
				return err
			}
			continue
		}
		in, err := w.ledger.Claimed(at, e.producer, 0, e.claim)
		if err != nil {
			return err
		}
		if e.claim == w.own {
			w.intent = in
		}
	}
	return nil
}

// simulate plays a random schedule, of so many steps, of writers that may all
// hold the same records, stop anywhere, read the log late and be fenced by
// others. It returns how often each offset was committed.
func simulate(t *rapid.T, steps int, validate bool) map[place]int {
	const writers = 3
	var log []entry
	done := map[place]int{}
	open := map[int64]*Claim{} // By producer: what its transaction has in the log.
	all := make([]*writer, writers)
	for i := range all {
		all[i] = &writer{producer: int64(i)}
	}
	end := func(producer int64, commit bool) {
		c := open[producer]
		if c == nil {
			return
		}
		delete(open, producer)
		log = append(log, entry{producer: producer, commit: commit})
		if commit {
			for _, r := range c.Ranges {
				for o := r.First; o <= r.Last; o++ {
					done[place{c.Source, o}]++
				}
			}
		}
	}
	for step := range steps {
		w := all[rapid.IntRange(0, writers-1).Draw(t, "writer")]
		switch rapid.SampledFrom([]string{"claim", "read", "commit", "commit", "fence", "abort"}).Draw(t, "does") {
		case "claim":
			if open[w.producer] != nil {
				continue
			}
			c := &Claim{ID: fmt.Sprint(step), Writer: fmt.Sprint(w.producer), Of: 1, Ranges: genRanges(t, 3), Source: Source{Partition: rapid.Int32Range(0, 1).Draw(t, "partition")}}
			w.own, w.intent = c, nil
			open[w.producer] = c
			log = append(log, entry{producer: w.producer, claim: c})
		case "read":
			if err := w.catchUp(log, w.read+rapid.IntRange(0, len(log)-w.read).Draw(t, "records")); err != nil && validate {
				t.Fatal(err)
			}
		case "commit":
			if w.intent == nil || open[w.producer] != w.own {
				continue
			}
			if !validate || w.ledger.Judge(w.intent).May {
				end(w.producer, true)
				w.own, w.intent = nil, nil
			}
		case "fence":
			if w.intent == nil {
				continue
			}
			for _, o := range w.ledger.Judge(w.intent).Waits {
				end(o.Producer, false)
			}
		case "abort":
			end(w.producer, false)
			w.own, w.intent = nil, nil
		}
	}
	for _, w := range all {
		if err := w.catchUp(log, len(log)); err != nil && validate {
			t.Fatal(err)
		}
		for key, n := range done {
			if validate && (n > 1 || !w.ledger.Done(key.source, key.offset)) {
				t.Fatalf("%v was committed %d times, known %t", key, n, w.ledger.Done(key.source, key.offset))
			}
		}
	}
	return done
}

func TestNothingIsCommittedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { simulate(t, rapid.IntRange(0, 60).Draw(t, "steps"), true) })
}

// TestTheSimulationSees what the rule is for.
func TestTheSimulationSees(t *testing.T) {
	twice := 0
	rapid.Check(t, func(t *rapid.T) {
		for _, n := range simulate(t, 60, false) { // Short ones seldom show it.
			if n > 1 {
				twice++
			}
		}
	})
	if twice == 0 {
		t.Error("without the rule nothing was committed twice: the simulation sees nothing")
	}
}

func TestLedger(t *testing.T) {
	source := Source{Partition: 1}
	claim := func(first, last int64) *Claim {
		return &Claim{ID: "x", Writer: "w", Of: 1, Source: source, Ranges: []Range{{first, last}}}
	}
	var l Ledger
	must := func(in *Intent, err error) *Intent {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	a := must(l.Claimed(10, 1, 0, claim(0, 9)))
	b := must(l.Claimed(11, 2, 0, claim(5, 14)))
	c := must(l.Claimed(12, 3, 0, claim(20, 29)))
	if v := l.Judge(b); v.May || v.Lost || !slices.Equal(v.Waits, []*Intent{a}) {
		t.Errorf("an earlier claim is undecided: got %+v", v)
	}
	if v := l.Judge(c); !v.May {
		t.Errorf("nothing is in its way: got %+v", v)
	}
	if v := l.Judge(a); !v.May {
		t.Errorf("a later claim is in nobody's way: got %+v", v)
	}
	if _, err := l.Ended(13, 1, true); err != nil {
		t.Fatal(err)
	}
	if v := l.Judge(b); !v.Lost || a.Fate != Committed {
		t.Errorf("the earlier claim is committed: got %+v, %s", v, a.Fate)
	}
	if !l.Done(source, 9) || l.Done(source, 10) || l.Done(Source{}, 9) {
		t.Error("what is committed is not known")
	}
	if l.Forget(source, 15); l.Needed() != 11 {
		t.Errorf("got %d, want 11: what is undecided is needed", l.Needed())
	}
	if _, err := l.Ended(14, 2, false); err != nil || b.Fate != Aborted {
		t.Fatalf("got %v, %s", err, b.Fate)
	}
	if l.Needed() != 12 || l.Done(source, 9) {
		t.Errorf("got %d, want 12, and what is below the start forgotten", l.Needed())
	}
	if _, err := l.Ended(15, 3, true); err != nil {
		t.Fatal(err)
	}
	if l.Forget(source, 30); l.Needed() != 16 || len(l.Sources()) != 0 {
		t.Errorf("got %d and %v, want 16 and nothing", l.Needed(), l.Sources())
	}
	var hole *HoleError
	if err := l.Skipped(17); !errors.As(err, &hole) {
		t.Errorf("got %v, want a hole", err)
	}

	var clash *ClashError
	var broken Ledger
	must(broken.Claimed(0, 1, 0, claim(0, 1)))
	must(broken.Claimed(1, 2, 0, claim(1, 2)))
	if _, err := broken.Ended(2, 1, true); err != nil {
		t.Fatal(err)
	}
	if _, err := broken.Ended(3, 2, true); !errors.As(err, &clash) {
		t.Errorf("got %v, want a clash", err)
	}
}
