package sharegroup

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/sharetask"
)

func newPart(offsets ...int64) *part {
	p := &part{TopicPartition: sharetask.TopicPartition{Topic: "t"}, session: 1}
	for _, o := range offsets {
		p.records = append(p.records, &kgo.Record{Offset: o})
	}
	p.want, p.sent = make([]sharetask.Verdict, len(offsets)), make([]sharetask.Verdict, len(offsets))
	return p
}

func TestHolesAreInNoRange(t *testing.T) {
	p := newPart(3, 4, 7, 8, 10)
	b := &batch{parts: []*part{p}, open: 5}
	b.decide(&sharetask.Decision{TopicPartition: p.TopicPartition, Session: 1, Verdict: sharetask.Accept, Ranges: []sharetask.Range{{First: 0, Last: 99}}})
	var marks [5][]*kgo.Record
	b.begin(false, &marks)
	if got := fmt.Sprint(p.sentRanges(sharetask.Accept)); got != "[{3 4} {7 8} {10 10}]" {
		t.Errorf("ranges %s", got)
	}
	b.end(p, answer{}, time.Time{}, nil, nil)
	if b.open != 0 {
		t.Errorf("%d open, want 0", b.open)
	}
}

// An accept that arrives while a renewal is on its way goes out after it, and
// a renewal never goes out once there is a final verdict.
func TestRenewalsAndFinalVerdictsDoNotMix(t *testing.T) {
	p := newPart(0, 1, 2)
	b := &batch{parts: []*part{p}, open: 3}
	decide := func(v sharetask.Verdict, first, last int64) {
		b.decide(&sharetask.Decision{TopicPartition: p.TopicPartition, Session: 1, Verdict: v, Ranges: []sharetask.Range{{First: first, Last: last}}})
	}
	var marks [5][]*kgo.Record
	decide(sharetask.Renew, 0, 2)
	decide(sharetask.Accept, 2, 2)
	b.begin(true, &marks)
	if n := len(marks[sharetask.Renew]); n != 2 || len(marks[sharetask.Accept]) != 0 {
		t.Fatalf("%d renewals and %d accepts in the round, want 2 and none", n, len(marks[sharetask.Accept]))
	}
	decide(sharetask.Accept, 0, 0)
	decide(sharetask.Renew, 1, 1) // The one under way answers for it.
	b.end(p, answer{}, time.Now(), nil, nil)
	if b.final != 2 || b.renew != 0 || b.open != 3 {
		t.Errorf("final %d, renew %d, open %d; want 2, 0, 3", b.final, b.renew, b.open)
	}
}

func TestRefusedRenewalOrphansItsRecords(t *testing.T) {
	p := newPart(0, 1)
	b := &batch{parts: []*part{p}, open: 2}
	b.decide(&sharetask.Decision{TopicPartition: p.TopicPartition, Session: 1, Verdict: sharetask.Renew, Ranges: []sharetask.Range{{First: 0, Last: 0}}})
	var marks [5][]*kgo.Record
	b.begin(true, &marks)
	events, orphans := b.end(p, answer{err: kerr.InvalidRecordState}, time.Time{}, nil, nil)
	if len(events) != 1 || len(orphans) != 1 || b.open != 1 {
		t.Fatalf("%d events, %d orphans, %d open; want one each", len(events), len(orphans), b.open)
	}
	lost := events[0].(*sharetask.Lost)
	if lost.Verdict != sharetask.Renew || !errors.Is(lost.Cause, kerr.InvalidRecordState) || lost.Ranges[0] != (sharetask.Range{}) {
		t.Errorf("lost %+v", lost)
	}
}

// Whatever the task decides and the broker answers, each record closes at
// most once, its final verdict is the first one decided, and the counts agree
// with the records.
func TestBatchKeepsItsCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "records")
		offsets := make([]int64, n)
		for i := range offsets {
			offsets[i] = int64(2 * i)
		}
		p := newPart(offsets...)
		b := &batch{parts: []*part{p}, open: n}
		first := make(map[int64]sharetask.Verdict)
		reported := make(map[int64]bool)
		var marks [5][]*kgo.Record
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "decide") {
				from := rapid.Int64Range(0, int64(2*n)).Draw(t, "from")
				d := sharetask.Decision{TopicPartition: p.TopicPartition, Session: 1, Verdict: sharetask.Verdict(rapid.IntRange(1, 4).Draw(t, "verdict"))}
				d.Ranges = []sharetask.Range{{First: from, Last: from + rapid.Int64Range(0, 6).Draw(t, "len")}}
				for i, r := range p.records {
					if r.Offset >= d.Ranges[0].First && r.Offset <= d.Ranges[0].Last && d.Verdict != sharetask.Renew && p.want[i] != closed && first[r.Offset] == 0 {
						first[r.Offset] = d.Verdict
					}
				}
				b.decide(&d)
				continue
			}
			b.begin(rapid.Bool().Draw(t, "renewals"), &marks)
			var a answer
			if rapid.Bool().Draw(t, "refused") {
				a.err = kerr.InvalidRecordState
			}
			if rapid.IntRange(0, 9).Draw(t, "ends") == 0 {
				a.ended = kerr.ShareSessionNotFound
			}
			events, _ := b.end(p, a, time.Time{}, nil, nil)
			for _, e := range events {
				ack, ok := e.(*sharetask.Acknowledged)
				if !ok || ack.Verdict == sharetask.Renew {
					continue
				}
				for _, r := range ack.Ranges {
					for o := r.First; o <= r.Last; o++ {
						if reported[o] || first[o] != ack.Verdict {
							t.Fatalf("offset %d acknowledged as %v, decided %v, before: %t", o, ack.Verdict, first[o], reported[o])
						}
						reported[o] = true
					}
				}
			}
			open, final, renew := 0, 0, 0
			for i, v := range p.want {
				if p.sent[i] != 0 {
					t.Fatalf("record %d is still sent", i)
				}
				switch v {
				case closed:
					continue
				case 0:
				case sharetask.Renew:
					renew++
				default:
					final++
				}
				open++
			}
			if open != b.open || final != b.final || renew != b.renew {
				t.Fatalf("counted %d %d %d, batch says %d %d %d", open, final, renew, b.open, b.final, b.renew)
			}
		}
	})
}
