package consumergroup

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/sharetask"
)

func TestTrackerPosition(t *testing.T) {
	type step struct {
		v           sharetask.Verdict
		first, last int64
		position    int64
	}
	tests := map[string]struct {
		start   int64
		offsets []int64
		steps   []step
	}{
		"in order":               {0, []int64{0, 1, 2}, []step{{sharetask.Accept, 0, 0, 1}, {sharetask.Accept, 1, 2, 3}}},
		"out of order":           {0, []int64{0, 1, 2}, []step{{sharetask.Accept, 2, 2, 0}, {sharetask.Accept, 1, 1, 0}, {sharetask.Accept, 0, 0, 3}}},
		"reject counts":          {0, []int64{0, 1}, []step{{sharetask.Reject, 0, 1, 2}}},
		"release blocks":         {0, []int64{0, 1, 2}, []step{{sharetask.Release, 1, 1, 0}, {sharetask.Accept, 0, 2, 1}}},
		"renew is nothing":       {0, []int64{0, 1}, []step{{sharetask.Renew, 0, 1, 0}, {sharetask.Accept, 0, 0, 1}}},
		"holes are skipped":      {0, []int64{3, 7, 9}, []step{{sharetask.Accept, 3, 3, 7}, {sharetask.Accept, 0, 100, 10}}},
		"outside has no effect":  {5, []int64{5, 6}, []step{{sharetask.Accept, 7, 9, 5}, {sharetask.Accept, 0, 4, 5}}},
		"the first verdict wins": {0, []int64{0}, []step{{sharetask.Release, 0, 0, 0}, {sharetask.Accept, 0, 0, 0}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tr := newTracker(tt.start, -1)
			for _, o := range tt.offsets {
				tr.deliver(o)
			}
			for _, s := range tt.steps {
				tr.decide(s.v, sharetask.Range{First: s.first, Last: s.last})
				if tr.position != s.position {
					t.Fatalf("after %v %d-%d: position %d, want %d", s.v, s.first, s.last, tr.position, s.position)
				}
			}
		})
	}
}

func TestCommitReportsWhatItCovers(t *testing.T) {
	tr := newTracker(0, -1)
	for o := range int64(6) {
		tr.deliver(o)
	}
	tr.decide(sharetask.Accept, sharetask.Range{First: 0, Last: 1})
	tr.decide(sharetask.Reject, sharetask.Range{First: 2, Last: 2})
	at := tr.position
	tr.decide(sharetask.Accept, sharetask.Range{First: 3, Last: 5}) // While the commit is on its way.
	if got := fmt.Sprint(tr.commit(at)); got != "[{{0 1} 1} {{2 2} 3}]" {
		t.Errorf("covered %s", got)
	}
	if !tr.dirty() || !tr.unsettled() {
		t.Error("the rest is forgotten")
	}
	if got := fmt.Sprint(tr.commit(5)); got != "[{{3 4} 1}]" {
		t.Errorf("covered %s", got)
	}
	if got := fmt.Sprint(tr.commit(6)); got != "[{{5 5} 1}]" {
		t.Errorf("covered %s", got)
	}
	if tr.dirty() || tr.unsettled() {
		t.Error("something is left")
	}
}

// A position never lies beyond a record that is not finished, nor short of one
// that is with all before it; every record is reported once; what a commit
// reports lies below it.
func TestTrackerNeverSkips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		next := rapid.Int64Range(0, 5).Draw(t, "start")
		tr := newTracker(next, rapid.SampledFrom([]int64{-1, next}).Draw(t, "committed"))
		var offsets []int64
		verdicts := make(map[int64]sharetask.Verdict)
		reported := make(map[int64]bool)
		confirmed := tr.committed
		report := func(r sharetask.Range, v sharetask.Verdict) {
			for o := r.First; o <= r.Last; o++ {
				if verdicts[o] != v || reported[o] {
					t.Fatalf("offset %d reported as %v, decided %v, reported before: %t", o, v, verdicts[o], reported[o])
				}
				reported[o] = true
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				next += rapid.Int64Range(0, 3).Draw(t, "hole")
				if !tr.deliver(next) {
					t.Fatalf("offset %d refused", next)
				}
				offsets = append(offsets, next)
				next++
			case 1:
				v := sharetask.Verdict(rapid.IntRange(1, 4).Draw(t, "verdict"))
				first := rapid.Int64Range(0, next+2).Draw(t, "first")
				r := sharetask.Range{First: first, Last: first + rapid.Int64Range(0, 8).Draw(t, "len")}
				for _, o := range offsets {
					if v != sharetask.Renew && o >= r.First && o <= r.Last && verdicts[o] == 0 {
						verdicts[o] = v
					}
				}
				tr.decide(v, r)
			case 2:
				if tr.dirty() {
					at := rapid.Int64Range(max(confirmed, 0), tr.position).Draw(t, "commit")
					for _, c := range tr.commit(at) {
						if c.Last >= at {
							t.Fatalf("commit %d reported %v", at, c)
						}
						report(c.Range, c.verdict)
					}
					confirmed = max(confirmed, at)
				}
			case 3:
				for _, r := range tr.takeReleased() {
					report(r, sharetask.Release)
				}
			}
			open := 0
			blocked := false
			for _, o := range offsets {
				v := verdicts[o]
				if v == 0 {
					open++
				}
				finished := v == sharetask.Accept || v == sharetask.Reject
				if !finished && o < tr.position {
					t.Fatalf("position %d lies beyond %d, which is %v", tr.position, o, v)
				}
				blocked = blocked || !finished
				if !blocked && o >= tr.position {
					t.Fatalf("position %d does not cover %d, which nothing blocks", tr.position, o)
				}
			}
			if open != tr.open {
				t.Fatalf("open %d, want %d", tr.open, open)
			}
		}
		for _, c := range tr.commit(tr.position) {
			report(c.Range, c.verdict)
		}
		for _, r := range tr.takeReleased() {
			report(r, sharetask.Release)
		}
		for _, o := range offsets {
			if o < tr.position && !reported[o] {
				t.Fatalf("offset %d was never reported", o)
			}
		}
	})
}

// A verdict that comes between the end of a topic and its report as lost counts
// for nothing, and nobody waits for it.
func TestVerdictsOnATopicThatIsGone(t *testing.T) {
	s, err := New(Options{Connection: kafka.Connection{Bootstrap: []string{"127.0.0.1:1"}}, Group: "g", Topics: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	p := &partition{tracker: newTracker(0, 0), gone: errReplaced}
	p.Topic = "t"
	for o := range int64(3) {
		p.tracker.deliver(o)
	}
	a := &assignment{session: 1, parts: map[partitionKey]*partition{{"t", 0}: p}, decided: make(chan struct{}, 1)}
	s.current = a
	s.Decide([]sharetask.Decision{{TopicPartition: p.TopicPartition, Session: 1, Verdict: sharetask.Accept, Ranges: []sharetask.Range{{First: 0, Last: 2}}}})
	if p.tracker.position != 0 || p.tracker.dirty() || s.open(a) != 0 {
		t.Errorf("position %d, open %d, want 0 and 0", p.tracker.position, s.open(a))
	}
	s.reportGone(a)
	s.reportGone(a)
	if lost, ok := (<-s.events).(*sharetask.Lost); !ok || lost.Session != 1 || len(s.events) != 0 {
		t.Errorf("got %+v and %d more, want the loss once", lost, len(s.events))
	}
}
