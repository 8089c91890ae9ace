package sharegroup

import (
	"slices"
	"sort"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// partitionKey is a partition as the broker names it.
type partitionKey struct {
	topic     pluginapi.TopicID
	partition int32
}

// partition is what this member holds of one share-partition. It is a plain
// state machine: the source's mutex guards it.
//
// Every acquired offset has a cell until the broker has confirmed a final
// verdict on it, or it is lost.
type partition struct {
	sharetask.TopicPartition
	session sharetask.Session // Zero until it is placed with a leader.
	revoked bool              // No longer assigned: what is held is decided, nothing more is fetched.
	pause   pause             // Before verdicts are sent again.
	watch   watch

	runs []*run // In offset order; none without an open cell.
	open int    // Cells that are not closed.
	held int    // Cells without a final verdict, which the task still works on.
	want tally  // Cells whose verdict waits to be sent.
	end  int64  // One past the highest offset acquired while anything was held.
}

// tally counts cells by what the next request would carry.
type tally struct{ final, renew int }

// run is one acquired range.
type run struct {
	first int64
	cells []cell
	open  int
	want  tally
}

func (r *run) last() int64 { return r.first + int64(len(r.cells)) - 1 }

// cell is one offset: what was decided and not sent yet, and what the request
// under way says of it.
//
// Invariants: a final verdict is never replaced; a closed cell never changes.
type cell uint8

const (
	wantMask cell = 0b0000_0111
	sentMask cell = 0b0011_1000
	sentBits      = 3
	closed   cell = 0xff
)

// gap is the verdict on an acquired offset that has no record: a transaction
// marker, or one compaction took away. It is Kafka's acknowledge type 0.
const gap sharetask.Verdict = 5

func (c cell) want() sharetask.Verdict { return sharetask.Verdict(c & wantMask) }
func (c cell) sent() sharetask.Verdict { return sharetask.Verdict(c & sentMask >> sentBits) }

func final(v sharetask.Verdict) bool { return v != 0 && v != sharetask.Renew }

// decided reports whether nothing can be decided about the offset any more.
func (c cell) decided() bool { return c == closed || final(c.want()) || final(c.sent()) }

// acquire enters an acquired range. What of it was held already is returned: the
// broker gives out only what nobody holds, so that hold had ended.
func (p *partition) acquire(r sharetask.Range) (lost []sharetask.Range) {
	lost = p.evict(r)
	i := sort.Search(len(p.runs), func(i int) bool { return p.runs[i].first > r.First })
	n := int(r.Len())
	p.runs = slices.Insert(p.runs, i, &run{first: r.First, cells: make([]cell, n), open: n})
	if p.held == 0 {
		p.end = 0
	}
	p.open += n
	p.held += n
	p.end = max(p.end, r.Last+1)
	return lost
}

// evict closes what is open of r, returns it, and cuts r out of the runs.
func (p *partition) evict(r sharetask.Range) (lost []sharetask.Range) {
	i := sort.Search(len(p.runs), func(i int) bool { return p.runs[i].last() >= r.First })
	if i == len(p.runs) || p.runs[i].first > r.Last {
		return nil
	}
	p.each(r, func(run *run, i int) {
		if run.cells[i] == closed {
			return
		}
		p.shut(run, i)
		o := run.first + int64(i)
		if n := len(lost); n > 0 && lost[n-1].Last+1 == o {
			lost[n-1].Last = o
		} else {
			lost = append(lost, sharetask.Range{First: o, Last: o})
		}
	})
	var kept []*run
	for _, run := range p.runs {
		if run.first > r.Last || run.last() < r.First {
			kept = append(kept, run)
			continue
		}
		if run.first < r.First {
			kept = append(kept, newRun(run.first, run.cells[:r.First-run.first]))
		}
		if run.last() > r.Last {
			kept = append(kept, newRun(r.Last+1, run.cells[r.Last+1-run.first:]))
		}
	}
	p.runs = kept
	p.tidy()
	return lost
}

// newRun counts what is in cells.
func newRun(first int64, cells []cell) *run {
	r := &run{first: first, cells: cells}
	for _, c := range cells {
		switch {
		case c == closed:
			continue
		case final(c.want()):
			r.want.final++
		case c.want() == sharetask.Renew:
			r.want.renew++
		}
		r.open++
	}
	return r
}

// window returns how many offsets of the record-lock window are in use, as far
// as this member can know: from the lowest undecided offset to the highest
// acquired. What is decided travels with the fetch that needs the room.
func (p *partition) window() int64 {
	if p.held == 0 {
		return 0
	}
	for _, r := range p.runs {
		for i, c := range r.cells {
			if !c.decided() {
				return p.end - r.first - int64(i)
			}
		}
	}
	return 0
}

// decide notes a verdict on a range. It has no effect on offsets that are not
// held or have a final verdict. It reports whether anything changed.
func (p *partition) decide(v sharetask.Verdict, r sharetask.Range) bool {
	changed := false
	p.each(r, func(run *run, i int) { changed = p.set(run, i, v) || changed })
	return changed
}

// each calls f for the cells of r.
func (p *partition) each(r sharetask.Range, f func(*run, int)) {
	i := sort.Search(len(p.runs), func(i int) bool { return p.runs[i].last() >= r.First })
	for ; i < len(p.runs) && p.runs[i].first <= r.Last; i++ {
		run := p.runs[i]
		from, to := max(r.First, run.first)-run.first, min(r.Last, run.last())-run.first
		for k := from; k <= to; k++ {
			f(run, int(k))
		}
	}
}

func (p *partition) set(r *run, i int, v sharetask.Verdict) bool {
	c := r.cells[i]
	switch {
	case c.decided():
		return false
	case final(v):
		if c.want() == sharetask.Renew {
			r.want.renew--
			p.want.renew--
		}
		r.want.final++
		p.want.final++
		p.held--
	case c.want() == sharetask.Renew || c.sent() == sharetask.Renew: // The one under way answers for both.
		return false
	default:
		r.want.renew++
		p.want.renew++
	}
	r.cells[i] = c&^wantMask | cell(v)
	return true
}

// ack is one verdict on a range, as a request carries it.
type ack struct {
	sharetask.Range
	verdict sharetask.Verdict
}

// take moves what waits to the request about to be sent, final verdicts or
// renewals, and returns it in offset order, merged.
func (p *partition) take(renewals bool) []ack {
	if renewals && p.want.renew == 0 || !renewals && p.want.final == 0 {
		return nil
	}
	var out []ack
	for _, r := range p.runs {
		if renewals && r.want.renew == 0 || !renewals && r.want.final == 0 {
			continue
		}
		for i, c := range r.cells {
			v := c.want()
			if c == closed || v == 0 || final(v) == renewals {
				continue
			}
			r.cells[i] = cell(v) << sentBits
			o := r.first + int64(i)
			if n := len(out); n > 0 && out[n-1].verdict == v && out[n-1].Last+1 == o {
				out[n-1].Last = o
			} else {
				out = append(out, ack{Range: sharetask.Range{First: o, Last: o}, verdict: v})
			}
		}
		if renewals {
			r.want.renew = 0
		} else {
			r.want.final = 0
		}
	}
	if renewals {
		p.want.renew = 0
	} else {
		p.want.final = 0
	}
	return out
}

// confirmed closes what the broker took; renewed offsets stay open.
func (p *partition) confirmed(acks []ack) {
	for _, a := range acks {
		if a.verdict == sharetask.Renew {
			p.each(a.Range, func(r *run, i int) { p.unsend(r, i) })
		} else {
			p.each(a.Range, p.shut)
		}
	}
	p.tidy()
}

// refused closes what the broker did not take and returns the ranges of which
// the task must be told, which are not those of gaps.
func (p *partition) refused(acks []ack) {
	for _, a := range acks {
		p.each(a.Range, p.shut)
	}
	p.tidy()
}

// putBack makes what was sent wait again.
func (p *partition) putBack(acks []ack) {
	for _, a := range acks {
		p.each(a.Range, func(r *run, i int) {
			c := r.cells[i]
			if c == closed || c.sent() == 0 {
				return
			}
			v := c.sent()
			p.unsend(r, i)
			switch {
			case r.cells[i].want() != 0: // A final verdict came while a renewal was under way.
			case final(v):
				r.cells[i] |= cell(v)
				r.want.final++
				p.want.final++
			default:
				r.cells[i] |= cell(v)
				r.want.renew++
				p.want.renew++
			}
		})
	}
}

func (p *partition) unsend(r *run, i int) {
	if r.cells[i] != closed {
		r.cells[i] &^= sentMask
	}
}

// shut closes one cell.
func (p *partition) shut(r *run, i int) {
	c := r.cells[i]
	if c == closed {
		return
	}
	switch v := c.want(); {
	case v == sharetask.Renew:
		r.want.renew--
		p.want.renew--
	case v != 0:
		r.want.final--
		p.want.final--
	}
	if !c.decided() {
		p.held--
	}
	r.cells[i] = closed
	r.open--
	p.open--
}

// tidy drops the runs that are closed.
func (p *partition) tidy() {
	p.runs = slices.DeleteFunc(p.runs, func(r *run) bool { return r.open == 0 })
}

// drop closes everything and reports whether anything was open.
func (p *partition) drop() bool {
	was := p.open > 0
	p.runs, p.open, p.held, p.want, p.end = nil, 0, 0, tally{}, 0
	return was
}

// events makes an event of each verdict in acks but gaps; build gets a verdict
// and its ranges.
func events(acks []ack, build func(sharetask.Verdict, []sharetask.Range) sharetask.Event) []sharetask.Event {
	var by [gap][]sharetask.Range
	for _, a := range acks {
		if a.verdict != gap {
			by[a.verdict] = append(by[a.verdict], a.Range)
		}
	}
	var out []sharetask.Event
	for v, ranges := range by {
		if ranges != nil {
			out = append(out, build(sharetask.Verdict(v), ranges)) //nolint:gosec // Below gap.
		}
	}
	return out
}
