package sharetask

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// cancelBefore is how long before the end of an ordered stop the puts that are
// still in flight are cancelled, so that what was decided can be acknowledged.
const cancelBefore = 5 * time.Second

// loop is the task's one thread of decisions. It returns when the source has
// been closed, by an ordered stop or by itself.
func (t *Task) loop(ctx context.Context) error {
	src := t.cfg.Source
	events, stop := src.Events(), ctx.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var closed chan error // Close is under way.
	var closing time.Time // Stopping: when flights are cancelled.
	var failure error

	// Puts end with the task, not with ctx: a stop lets them finish.
	puts, cancelPuts := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelPuts()

	for events != nil || len(t.flying) > 0 || t.letterJob != nil {
		now := time.Now()
		if events != nil {
			t.work(puts, now)
		}
		if t.stopping && closed == nil && events != nil && len(t.flying) == 0 && t.letterJob == nil {
			closed = make(chan error, 1)
			closeCtx, cancel := context.WithDeadline(context.WithoutCancel(ctx), t.stopBy)
			defer cancel()
			go func() { closed <- src.Close(closeCtx) }()
		}
		if !closing.IsZero() && !now.Before(closing) {
			cancelPuts()
			closing = time.Time{}
		}
		timer.Reset(t.sleep(now, closing))

		select {
		case ev, ok := <-events:
			if !ok {
				events = nil
				cancelPuts()
				continue
			}
			if f, is := ev.(*Failed); is {
				failure = f.Err
			}
			t.event(ev)
		case p := <-t.done:
			t.landed(p, time.Now())
		case job := <-t.letterBack:
			t.lettered(job, time.Now())
		case <-stop:
			stop = nil
			t.stopping = true
			t.stopBy = time.Now().Add(t.cfg.StopTimeout)
			closing = t.stopBy.Add(-min(cancelBefore, t.cfg.StopTimeout/2))
		case <-timer.C:
		}
		t.drain()
	}
	if closed != nil {
		if err := <-closed; err != nil {
			failure = fmt.Errorf("close source: %w", err)
		}
	}
	if failure == nil && !t.stopping {
		failure = errSourceEnded
	}
	return failure
}

// drain handles what else has come meanwhile, so that one round of decisions
// covers it all.
func (t *Task) drain() {
	for {
		select {
		case p := <-t.done:
			t.landed(p, time.Now())
		default:
			return
		}
	}
}

// work does what can be done now: write dead letters, hand over decisions,
// renew, say how much may be acquired, start puts.
func (t *Task) work(ctx context.Context, now time.Time) {
	t.startLetters(ctx, now)
	// Decisions first: a renewal of a record that is decided is refused, and
	// room is made by what the source was told.
	if d := t.ledger.flush(); len(d) > 0 {
		t.full = false
		t.cfg.Source.Decide(d)
	}
	if d := t.ledger.renewals(now); len(d) > 0 {
		t.cfg.Source.Decide(d)
	}
	t.request(now)
	if !t.stopping && t.failed == nil {
		t.dispatch(ctx, now)
	}
	t.metrics.Open(t.ledger.records, t.ledger.bytes)
}

// request tells the source how much it may acquire.
func (t *Task) request(now time.Time) {
	var room Room
	switch {
	case t.stopping, t.failed != nil:
	case t.breaker.open():
		// With nothing held, one record is acquired to be the probe.
		if t.ledger.records == 0 && !t.breaker.probing && !now.Before(t.breaker.probeAt) {
			room = Room{Records: t.taken.Records + 1, Bytes: t.taken.Bytes + 1}
		}
	default:
		room = Room{
			Records: t.taken.Records + int64(t.cfg.MaxOpenRecords-t.ledger.records),
			Bytes:   t.taken.Bytes + int64(t.cfg.MaxOpenBytes-t.ledger.bytes),
		}
	}
	if room != t.room {
		t.room = room
		t.cfg.Source.Request(room)
	}
}

// noRoom reports whether nothing more is asked of the source now.
func (t *Task) noRoom() bool {
	return t.room.Records <= t.taken.Records || t.room.Bytes <= t.taken.Bytes
}

// sleep returns how long nothing is to be done unless something happens.
func (t *Task) sleep(now, closing time.Time) time.Duration {
	next := now.Add(time.Hour)
	earlier := func(at time.Time) {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	earlier(t.ledger.nextRenewal())
	earlier(closing)
	if len(t.letters) > 0 && t.letterJob == nil {
		earlier(t.letterAt)
	}
	if !t.stopping && t.failed == nil {
		switch {
		case t.breaker.open():
			if !t.breaker.probing {
				if now.Before(t.breaker.probeAt) {
					earlier(t.breaker.probeAt)
				}
			}
		case now.Before(t.slowUntil):
			earlier(t.slowUntil)
		default:
			earlier(t.queue.wake(t.idle))
		}
	}
	return max(0, next.Sub(now))
}

// dispatch gives idle writers what is ready to be put.
func (t *Task) dispatch(ctx context.Context, now time.Time) {
	probing := t.breaker.open()
	if now.Before(t.slowUntil) && !probing {
		return
	}
	if probing && (t.breaker.probing || now.Before(t.breaker.probeAt)) {
		return
	}
	t.queue.due(now, probing)
	full := t.full || probing || t.noRoom()
	kept := t.idle[:0]
	for _, w := range t.idle {
		if !t.queue.ready(w.number, now, full) || !t.breaker.allow(now) {
			kept = append(kept, w)
			continue
		}
		spans, n := t.queue.take(w.number, now, t.cfg.Batch.MaxRecords)
		if n == 0 {
			t.breaker.abandon()
			kept = append(kept, w)
			continue
		}
		t.launch(ctx, w, spans, n)
	}
	t.idle = kept
}

// launch gives spans of n records to an idle writer.
func (t *Task) launch(ctx context.Context, w *writer, spans []span, n int) {
	p := &put{writer: w, spans: spans, records: n}
	p.ctx, p.cancel = context.WithCancel(ctx)
	for _, s := range spans {
		t.ledger.hold(s.d)
	}
	t.flying[p] = struct{}{}
	w.puts <- p // Never blocks: an idle writer's channel is empty.
}

// event enters one event of the source.
func (t *Task) event(ev Event) {
	switch ev := ev.(type) {
	case *Acquired:
		t.acquired(ev)
	case *Acknowledged:
		t.metrics.Acknowledged(ev.Verdict, count(ev.Ranges))
		if ev.Verdict == Renew {
			t.ledger.renewed(ev)
		}
	case *Lost:
		t.lost(ev)
	case *Revoking:
		t.revoke(ev)
	case *Stalled:
		t.full = true
	case *Assigned, *Failed:
	}
}

func count(ranges []Range) int {
	n := int64(0)
	for _, r := range ranges {
		n += r.Len()
	}
	return int(n)
}

// acquired enters new records. One delivered too often is not put again.
func (t *Task) acquired(ev *Acquired) {
	t.metrics.Acquired(len(ev.Records))
	t.taken.Records += int64(len(ev.Records))
	t.taken.Bytes += int64(ev.Bytes)
	now := time.Now()
	d := t.ledger.acquire(ev)
	if ev.Unreadable != nil {
		cause := &pluginapi.Error{Class: pluginapi.Invalid, Code: "unreadable", Message: ev.Unreadable.Error()}
		for i := range d.slots {
			t.giveUp(d, int32(i), StageConsume, "unreadable", cause)
		}
		return
	}
	if limit := t.cfg.MaxDeliveryCount; limit > 0 {
		for i := range d.DeliveryCounts {
			if int(d.DeliveryCounts[i]) > limit {
				t.giveUp(d, int32(i), StagePut, "deliveries exhausted", nil)
			}
		}
	}
	t.queue.push(d, now)
}

// lost enters records that are no longer ours, and cancels puts that have no
// other.
func (t *Task) lost(ev *Lost) {
	n := t.ledger.lost(ev)
	t.metrics.Lost(n)
	if ev.Cause != nil && (n > 0 || ev.Verdict != 0) {
		t.log.Warn("records lost, they will be delivered again", "topic", ev.Topic, "partition", ev.Partition,
			"records", n, "verdict", ev.Verdict.String(), "err", ev.Cause)
	}
	for p := range t.flying {
		if !p.open() {
			p.abandoned = true
			p.cancel()
		}
	}
	if ev.Ranges == nil {
		t.queue.forget(ev.TopicPartition)
	}
}

// open reports whether any of the put's records is still ours.
func (p *put) open() bool {
	for _, s := range p.spans {
		if s.open(slotPutting) {
			return true
		}
	}
	return false
}

// revoke releases what is not in a put of a partition about to be taken away.
func (t *Task) revoke(ev *Revoking) {
	for _, d := range t.ledger.revoke(ev.TopicPartition, ev.Session) {
		for i := range d.slots {
			if s := d.slots[i].state; s == slotBuffered || s == slotWaiting {
				t.ledger.decide(span{d: d, lo: int32(i), hi: int32(i) + 1}, Release)
			}
		}
	}
}
