package sharetask

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// lastChances are records that were delivered so often that a few deliveries
// more end at the broker's limit: perhaps one of them kills the worker, and
// took the others along each time. They are put alone, one at a time in the
// whole worker, each confirmed before the next. At the delivery before the last
// they are put in order of topic, partition and offset, at the last in reverse
// order: so each is written but the one that kills, whichever it is.
type lastChances struct {
	limit  int
	broker int // Its limit; 0 means none.
	list   []chance
	// settled is when all that was delivered together has surely come: order
	// decides who survives.
	settled time.Time
	turn    *place
	mine    bool // The task has the turn: it puts nothing else.
	probed  bool // The last probe was of one: the next is of another record, if there is one.

	// One is under way until what became of it is confirmed.
	running bool
	flying  bool // With a writer.
	over    bool // Confirmed, or lost, while it was flying.
	key     TopicPartition
	session Session
	offset  int64
}

// chance is a record that is to be put alone.
type chance struct {
	d       *delivery
	index   int32
	suspect *suspect // When, and what is held against it.
}

// settleTime is how long records at their last chance are gathered.
const settleTime = 500 * time.Millisecond

// wants reports whether record i of d is to be put alone. A first delivery never
// is.
func (l *lastChances) wants(d *delivery, i int32) bool {
	return l.limit > 0 && d.counted(i) > 1 && d.counted(i) >= l.limit-1 || l.broker > 0 && d.deliveryCount(i) > 1 && d.deliveryCount(i) >= l.broker-2
}

// exhausted reports whether record i of d was delivered too often to be put.
func (l *lastChances) exhausted(d *delivery, i int32) bool {
	return l.limit > 0 && d.counted(i) > l.limit || l.broker > 0 && d.deliveryCount(i) >= l.broker
}

// final reports whether record i of d is put for the last time.
func (l *lastChances) final(d *delivery, i int32) bool {
	return d.counted(i) >= l.limit || l.broker > 0 && d.deliveryCount(i) >= l.broker-1
}

func (l *lastChances) add(c chance) { l.list = append(l.list, c) }

// newChance is record i of d, not to be put before at.
func newChance(d *delivery, i int32, at time.Time) chance {
	return chance{d: d, index: i, suspect: &suspect{spans: []span{{d: d, lo: i, hi: i + 1}}, records: 1, at: at}}
}

// due reports whether one could be put now.
func (l *lastChances) due(now time.Time) bool {
	return slices.ContainsFunc(l.list, func(c chance) bool { return c.open() && !c.suspect.at.After(now) })
}

func (c chance) open() bool { return c.d.slots[c.index].state == slotWaiting }

// next removes and returns the record to be put now.
func (l *lastChances) next(now time.Time) (chance, bool) {
	l.list = slices.DeleteFunc(l.list, func(c chance) bool { return !c.open() })
	best := -1
	for i, c := range l.list {
		if !c.suspect.at.After(now) && (best < 0 || l.before(c, l.list[best])) {
			best = i
		}
	}
	if best < 0 {
		return chance{}, false
	}
	c := l.list[best]
	l.list = slices.Delete(l.list, best, best+1)
	return c, true
}

// before reports whether a comes before b: those at the last delivery first, in
// reverse order, then the others in order.
func (l *lastChances) before(a, b chance) bool {
	last := l.final(a.d, a.index)
	if other := l.final(b.d, b.index); last != other {
		return last
	}
	x, y := &a.d.Records[a.index], &b.d.Records[b.index]
	order := cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Offset, y.Offset))
	if last {
		return order > 0
	}
	return order < 0
}

// wake returns when the next will be due; zero means never, or that one is due
// and waits for its turn.
func (l *lastChances) wake(now time.Time) time.Time {
	var next time.Time
	for _, c := range l.list {
		if at := later(c.suspect.at, l.settled); c.open() && at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// yield gives the turn back, if none is under way.
func (l *lastChances) yield() {
	if l.mine && !l.running {
		l.mine = false
		l.turn.withdraw()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// landed enters that the record under way is back from its writer.
func (l *lastChances) landed(s span) {
	l.flying = false
	if l.over || s.d.slots[s.lo].state != slotDone { // Nothing to be confirmed: it waits, or its letter is written.
		l.running = false
	}
}

// confirmed enters what the broker said of ranges, nil for all of a session.
func (l *lastChances) confirmed(tp TopicPartition, s Session, ranges []Range) {
	if !l.running || tp != l.key || s != l.session || ranges != nil && !inRanges(ranges, l.offset) {
		return
	}
	if l.over = l.flying; !l.flying {
		l.running = false
	}
}

// forget drops all that waits.
func (l *lastChances) forget() { l.list = nil }

// alone reports whether nothing but a record at its last chance may be put now:
// one is due and it is the task's turn. Without the turn the task goes on.
func (t *Task) alone(now time.Time) bool {
	l := &t.chances
	due := t.moves() && l.due(now) && !now.Before(l.settled) && t.breaker.mayPut(now) && !now.Before(t.slowUntil)
	switch {
	case l.running:
		return true
	case l.mine && (!due || l.turn.wanted()): // The others' turn; ours comes again.
		l.yield()
	}
	if due {
		l.mine = l.turn.take()
	}
	return l.mine
}

// dispatchChance puts the next record that is at its last chance, once nothing
// else is being put.
func (t *Task) dispatchChance(ctx context.Context, now time.Time) {
	l := &t.chances
	for !l.running && len(t.flying) == 0 {
		c, ok := l.next(now)
		if !ok {
			return
		}
		if s := c.suspect; s.proven(t.breaker.success) {
			if t.ratio.add(0, t.convict(s, true, true, now)) {
				t.fail(t.ratio.err(s.err))
			}
			continue
		}
		t.breaker.allow(now)
		l.running, l.flying, l.over, l.probed = true, true, false, t.breaker.opened
		l.key, l.session, l.offset = c.d.TopicPartition, c.d.Session, c.d.Records[c.index].Offset
		c.d.slots[c.index].state = slotPutting
		p := t.newPut([]span{{d: c.d, lo: c.index, hi: c.index + 1}}, 1)
		p.chance, p.apart = c.suspect, c.suspect.fails > 0 || c.suspect.kills > 0
		w := slices.MinFunc(t.idle, func(a, b *writer) int { return a.number - b.number })
		t.idle = slices.DeleteFunc(t.idle, func(x *writer) bool { return x == w })
		t.launch(ctx, w, p)
	}
}
