package sharegroup

import (
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/sharetask"
)

// closed marks a record that is no longer open: its final verdict was
// confirmed, or it is lost. It is a state of want only.
const closed sharetask.Verdict = 255

// batch is what one fetch brought. It is a plain state machine: the source's
// mutex guards it.
type batch struct {
	parts []*part
	open  int // Records not closed, in all parts.
	final int // Records with a final verdict that waits for the next round.
	renew int // Records with a renewal that waits for the next round.
}

// part is one partition's records in a batch.
//
// Invariants: want[i] == closed implies sent[i] == 0; a final verdict in
// want[i] is never replaced.
type part struct {
	sharetask.TopicPartition
	session sharetask.Session
	records []*kgo.Record       // In offset order.
	want    []sharetask.Verdict // Decided and not sent yet; 0 is undecided.
	sent    []sharetask.Verdict // In the round under way; 0 is none.
}

func (p *part) key() partitionKey { return partitionKey{p.Topic, p.Partition} }

// span returns the indexes of p's records whose offsets lie in r.
func (p *part) span(r sharetask.Range) (from, to int) {
	from = sort.Search(len(p.records), func(i int) bool { return p.records[i].Offset >= r.First })
	to = from + sort.Search(len(p.records)-from, func(i int) bool { return p.records[from+i].Offset > r.Last })
	return from, to
}

// decide notes a decision. It has no effect on records that are not open, that
// have a final verdict already, or that are of another session. It reports
// whether anything changed.
func (b *batch) decide(d *sharetask.Decision) bool {
	if d.Verdict < sharetask.Accept || d.Verdict > sharetask.Renew {
		return false
	}
	changed := false
	for _, p := range b.parts {
		if p.session != d.Session || p.Partition != d.Partition || p.Topic != d.Topic {
			continue
		}
		for _, r := range d.Ranges {
			from, to := p.span(r)
			for i := from; i < to; i++ {
				changed = b.set(p, i, d.Verdict) || changed
			}
		}
	}
	return changed
}

func (b *batch) set(p *part, i int, v sharetask.Verdict) bool {
	switch {
	case p.want[i] != 0 && p.want[i] != sharetask.Renew: // Final already, or closed.
		return false
	case p.sent[i] != 0 && p.sent[i] != sharetask.Renew: // Final and on its way.
		return false
	case v != sharetask.Renew:
		if p.want[i] == sharetask.Renew {
			b.renew--
		}
		b.final++
	case p.want[i] == sharetask.Renew || p.sent[i] == sharetask.Renew: // The one under way answers for both.
		return false
	default:
		b.renew++
	}
	p.want[i] = v
	return true
}

// begin starts a round: it moves what is wanted to sent, final verdicts or
// renewals but never both, and adds the records to marks by verdict.
func (b *batch) begin(renewals bool, marks *[5][]*kgo.Record) {
	for _, p := range b.parts {
		for i, v := range p.want {
			if v == 0 || v == closed || (v == sharetask.Renew) != renewals {
				continue
			}
			p.want[i], p.sent[i] = 0, v
			marks[v] = append(marks[v], p.records[i])
		}
	}
	if renewals {
		b.renew = 0
	} else {
		b.final = 0
	}
}

// answer is the broker's answer about one part of a round.
type answer struct {
	err   error // Why the decisions are lost; nil means confirmed.
	ended error // Why the session is over, and with it everything of the part; nil means that it is not.
}

// end ends a round for p. It adds what there is to report to events and the
// records to give back, which were lost without a final verdict, to orphans.
// lockedUntil is the new end of the locks if the round was of renewals.
func (b *batch) end(p *part, a answer, lockedUntil time.Time, events []sharetask.Event, orphans []*kgo.Record) ([]sharetask.Event, []*kgo.Record) {
	for v := sharetask.Accept; v <= sharetask.Renew; v++ {
		ranges := p.sentRanges(v)
		switch {
		case ranges == nil:
		case a.err != nil:
			events = append(events, &sharetask.Lost{TopicPartition: p.TopicPartition, Session: p.session, Ranges: ranges, Verdict: v, Cause: a.err})
		case v == sharetask.Renew:
			events = append(events, &sharetask.Acknowledged{TopicPartition: p.TopicPartition, Session: p.session, Verdict: v, Ranges: ranges, LockedUntil: lockedUntil})
		default:
			events = append(events, &sharetask.Acknowledged{TopicPartition: p.TopicPartition, Session: p.session, Verdict: v, Ranges: ranges})
		}
	}
	for i, v := range p.sent {
		p.sent[i] = 0
		switch {
		case v == 0:
		case v != sharetask.Renew:
			b.shut(p, i)
		case a.err != nil:
			orphans = append(orphans, p.records[i])
			b.shut(p, i)
		}
	}
	if a.ended != nil {
		events, orphans = b.lose(p, a.ended, events, orphans)
	}
	return events, orphans
}

// lose closes all that is open in p and reports it lost.
func (b *batch) lose(p *part, cause error, events []sharetask.Event, orphans []*kgo.Record) ([]sharetask.Event, []*kgo.Record) {
	lost := false
	for i, v := range p.want {
		if v != closed {
			lost = true
			orphans = append(orphans, p.records[i])
			b.shut(p, i)
		}
	}
	if lost {
		events = append(events, &sharetask.Lost{TopicPartition: p.TopicPartition, Session: p.session, Cause: cause})
	}
	return events, orphans
}

func (b *batch) shut(p *part, i int) {
	switch p.want[i] {
	case closed:
		return
	case 0:
	case sharetask.Renew:
		b.renew--
	default:
		b.final--
	}
	p.want[i], p.sent[i] = closed, 0
	b.open--
}

// sentRanges returns the offsets of p in the round under way with verdict v.
// Offsets p has no record of are in no range.
func (p *part) sentRanges(v sharetask.Verdict) []sharetask.Range {
	var ranges []sharetask.Range
	for i, s := range p.sent {
		if s != v {
			continue
		}
		offset := p.records[i].Offset
		if n := len(ranges); n > 0 && ranges[n-1].Last+1 == offset {
			ranges[n-1].Last = offset
		} else {
			ranges = append(ranges, sharetask.Range{First: offset, Last: offset})
		}
	}
	return ranges
}
