package sharetask

import (
	"context"
	"errors"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// Origin is where a parked record was first read, and how far it got.
type Origin struct {
	Topic         string
	TopicID       pluginapi.TopicID
	Partition     int32
	Offset        int64
	Timestamp     time.Time
	TimestampType pluginapi.TimestampType

	Due      time.Time     // Not put before.
	Since    time.Time     // End of its first failed put.
	Attempts int           // Puts that failed.
	Spent    time.Duration // What counts towards RetryPolicy.MaxElapsed so far.

	// Err, if not nil, says that the record was not parked by a task: all else
	// is zero.
	Err error
}

// Parked is a record to be written to the retry topic.
type Parked struct {
	Record *pluginapi.Record // With its original coordinates, before conversion.
	Origin Origin
}

// Parking takes records that have to wait, for the task's [Source] to deliver
// them again, with their origins, so that they do not hold the record-lock
// window of their partition meanwhile.
type Parking interface {
	// Park writes the records and returns one error per record, nil once the
	// broker confirmed it. It blocks until then or until ctx ends, keeps
	// nothing, and is safe for concurrent use. An error that is not ctx's
	// means that the record is not parked and cannot be as it is.
	Park(ctx context.Context, records []Parked) []error
}

// maxParked is how many records of the retry topic a task may hold.
const maxParked = 10_000

// record returns record i of d as sinks, dead letters and messages know it.
func (d *delivery) record(i int32) *pluginapi.Record {
	if d.Origins == nil {
		return &d.Records[i]
	}
	o, r := &d.Origins[i], d.Records[i]
	if o.Err == nil {
		r.Topic, r.TopicID, r.Partition, r.Offset = o.Topic, o.TopicID, o.Partition, o.Offset
		r.Timestamp, r.TimestampType = o.Timestamp, o.TimestampType
	}
	return &r
}

// known enters what is known of the records of a delivery from the retry topic.
func (t *Task) known(d *delivery, now time.Time) {
	for k := range d.Origins {
		i, o := int32(k), &d.Origins[k] //nolint:gosec // Of one delivery.
		if o.Err != nil && d.slots[i].state == slotBuffered {
			t.giveUp(d, i, StageConsume, "unreadable", &pluginapi.Error{Class: pluginapi.Invalid, Code: "unreadable", Message: o.Err.Error()})
			continue
		}
		tr := d.trouble(i)
		tr.attempts, tr.since, tr.spent, tr.own = o.Attempts, o.Since, o.Spent, true
		tr.last = later(now, o.Due)
		tr.here = tr.last
	}
}

// resume lets the records of a delivery from the retry topic wait until they
// are due.
func (t *Task) resume(d *delivery) {
	for i := range d.Origins {
		if d.slots[i].state == slotBuffered {
			d.slots[i].state = slotWaiting
			t.queue.park(span{d: d, lo: int32(i), hi: int32(i) + 1}, d.Origins[i].Due) //nolint:gosec // Of one delivery.
		}
	}
}

// parks reports whether a record that failed, and may be put again at at, is to
// wait in the retry topic: it has waited here for long, or would, while others
// succeed, or while it keeps all others from coming.
func (t *Task) parks(tr *trouble, at time.Time, others bool) bool {
	if t.cfg.Parking == nil || !tr.own || t.stopping || t.failed != nil || at.Before(tr.here.Add(t.cfg.ParkAfter)) {
		return false
	}
	if t.breaker.opened {
		return t.barred()
	}
	return others
}

// barred reports whether a task that takes the target for unavailable cannot get
// records to compare those with that it holds: for a whole
// [RetryPolicy.MaxElapsed] there was room for as many again, and they did not
// come. The record-lock windows may be full behind these, which the source cannot
// know after a restart; or the topics are at their end, and it does no harm.
func (t *Task) barred() bool {
	return 4*(t.ledger.records-t.ledger.parked) <= t.breaker.wide
}

// park writes record i of d to the retry topic, to be put again at at.
func (t *Task) park(d *delivery, i int32, tr *trouble, now, at time.Time) {
	rec := d.record(i)
	t.parkAs(d, i, Origin{
		Topic: rec.Topic, TopicID: rec.TopicID, Partition: rec.Partition, Offset: rec.Offset,
		Timestamp: rec.Timestamp, TimestampType: rec.TimestampType,
		Due: at, Since: tr.since, Attempts: tr.attempts, Spent: tr.spent + at.Sub(now),
	})
}

func (t *Task) parkAs(d *delivery, i int32, o Origin) {
	t.ledger.letter(d, i)
	t.parked.add(letter{d: d, index: i, again: o, dead: DeadLetter{Record: d.record(i)}})
}

// early reports whether record i of d is of the retry topic, and not due.
func (d *delivery) early(i int32, now time.Time) bool {
	return d.Origins != nil && d.Origins[i].Due.After(now)
}

// earlyRoom returns how many records of the retry topic may be held besides the
// probe, since they are not due: they are no probe, and must not keep the task
// from those that are.
func (t *Task) earlyRoom() int { return min(len(t.queue.parked), maxWide) }

// wasParked enters that a record is confirmed to be in the retry topic, or is
// not: then it waits here.
func (t *Task) wasParked(l letter, err error) {
	switch {
	case err == nil:
		t.ledger.decide(span{d: l.d, lo: l.index, hi: l.index + 1}, Accept)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled): // It may still arrive.
		t.parked.add(l)
		return
	case t.chances.wants(l.d, l.index):
		l.d.slots[l.index].state = slotWaiting
		t.chances.add(newChance(l.d, l.index, l.again.Due))
	default:
		l.d.slots[l.index].state = slotWaiting
		t.queue.retry(span{d: l.d, lo: l.index, hi: l.index + 1}, l.again.Due)
	}
	t.ledger.unhold(l.d)
}
