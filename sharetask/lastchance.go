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
	limit int
	list  []chance
	// settled is when all that was delivered together has surely come: order
	// decides who survives.
	settled time.Time
	// One is under way until what became of it is confirmed.
	running bool
	key     TopicPartition
	session Session
	offset  int64
	turn    chan struct{} // Of the worker; nil without one.
}

// chance is a record that is to be put alone.
type chance struct {
	d     *delivery
	index int32
	at    time.Time // Not put before: it is being retried.
}

// settleTime is how long records at their last chance are gathered.
const settleTime = 500 * time.Millisecond

// turnPoll is how often another task's end of a last chance is looked for.
const turnPoll = 50 * time.Millisecond

// wants reports whether a record delivered count times is to be put alone. A
// first delivery never is.
func (l *lastChances) wants(count int) bool {
	return l.limit > 0 && count > 1 && (count == l.limit-1 || count == l.limit)
}

func (l *lastChances) add(d *delivery, i int32, at time.Time) {
	l.list = append(l.list, chance{d: d, index: i, at: at})
}

// due reports whether one is under way or could be put now, which stops every
// other put of the task.
func (l *lastChances) due(now time.Time) bool {
	return l.running || slices.ContainsFunc(l.list, func(c chance) bool { return c.open() && !c.at.After(now) })
}

func (c chance) open() bool { return c.d.slots[c.index].state == slotWaiting }

// next removes and returns the record to be put now.
func (l *lastChances) next(now time.Time) (chance, bool) {
	l.list = slices.DeleteFunc(l.list, func(c chance) bool { return !c.open() })
	best := -1
	for i, c := range l.list {
		if !c.at.After(now) && (best < 0 || l.before(c, l.list[best])) {
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
	last := a.d.deliveryCount(a.index) >= l.limit
	if other := b.d.deliveryCount(b.index) >= l.limit; last != other {
		return last
	}
	x, y := &a.d.Records[a.index], &b.d.Records[b.index]
	order := cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Offset, y.Offset))
	if last {
		return order > 0
	}
	return order < 0
}

// wake returns when the next is due; zero means never.
func (l *lastChances) wake() time.Time {
	var next time.Time
	for _, c := range l.list {
		if c.open() && (next.IsZero() || c.at.Before(next)) {
			next = c.at
		}
	}
	return next
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// takeTurn reports whether the task has the worker's turn now.
func (l *lastChances) takeTurn() bool {
	if l.turn == nil {
		return true
	}
	select {
	case l.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// begin notes that c is under way; end that it is over.
func (l *lastChances) begin(c chance) {
	l.running, l.key, l.session, l.offset = true, c.d.TopicPartition, c.d.Session, c.d.Records[c.index].Offset
}

func (l *lastChances) end() {
	if !l.running {
		return
	}
	l.running = false
	if l.turn != nil {
		<-l.turn
	}
}

// confirmed enters what the broker said of ranges, nil for all of a session.
func (l *lastChances) confirmed(tp TopicPartition, s Session, ranges []Range) {
	if l.running && tp == l.key && s == l.session && (ranges == nil || inRanges(ranges, l.offset)) {
		l.end()
	}
}

// dispatchChance puts the next record that is at its last chance, once nothing
// else is being put. It reports how long to wait where it is another task's
// turn.
func (t *Task) dispatchChance(ctx context.Context, now time.Time) {
	l := &t.chances
	if l.running || len(t.flying) > 0 || now.Before(l.settled) || !t.breaker.mayPut(now) {
		return
	}
	if !l.takeTurn() {
		t.turnAt = now.Add(turnPoll)
		return
	}
	l.running = true // Its turn is taken.
	c, ok := l.next(now)
	if !ok || !t.breaker.allow(now) {
		l.end()
		return
	}
	l.begin(c)
	c.d.slots[c.index].state = slotPutting
	p := t.newPut([]span{{d: c.d, lo: c.index, hi: c.index + 1}}, 1)
	p.chance = true
	w := slices.MinFunc(t.idle, func(a, b *writer) int { return a.number - b.number })
	t.idle = slices.DeleteFunc(t.idle, func(x *writer) bool { return x == w })
	t.launch(ctx, w, p)
}
