package sharetask

import (
	"context"
	"fmt"
	"slices"
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

	for events != nil || len(t.flying) > 0 || t.writing() {
		now := time.Now()
		if events != nil {
			t.work(puts, now)
		}
		if t.stopping && closed == nil && events != nil && len(t.flying) == 0 && !t.writing() {
			closed, t.closing = make(chan error, 1), true
			closeCtx, cancel := context.WithDeadline(context.WithoutCancel(ctx), t.stopBy)
			defer cancel()
			go func() { closed <- src.Close(closeCtx) }()
		}
		if !closing.IsZero() && !now.Before(closing) {
			cancelPuts()
			closing = time.Time{}
		}
		timer.Reset(t.sleep(puts, now, closing, events != nil))

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
		case <-t.chances.turn.came:
		case <-t.asked:
			t.pause(t.pausing.Load())
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
	t.expire(now)
	t.startLetters(ctx, now)
	if t.paused && !t.cfg.Ordered && t.failed == nil {
		t.releaseAll()
	} else {
		t.giveBack(now)
	}
	if !t.slowUntil.IsZero() && !now.Before(t.slowUntil) {
		t.slowUntil = time.Time{}
		t.show(now)
	}
	alone := t.alone(now)
	if !t.acquires() || t.dead.err != nil || t.parked.err != nil {
		t.ledger.sendAll()
	}
	// Decisions first: a renewal of a record that is decided is refused, and
	// room is made by what the source was told.
	t.full = t.full && !t.ledger.moved // What is decided of the retry topic makes no room in other windows.
	if d := t.ledger.flush(now); len(d) > 0 {
		t.cfg.Source.Decide(d)
	}
	if d := t.ledger.renewals(now); len(d) > 0 {
		t.cfg.Source.Decide(d)
	}
	t.request(now)
	switch {
	case !t.moves():
	case t.breaker.wantsCheck(now) && len(t.idle) > 0 && t.slowUntil.IsZero():
		t.breaker.check()
		t.launch(ctx, t.takeIdle(0), t.newPut(nil, 0))
	case alone && t.breaker.opened && t.chances.probed && t.dispatch(ctx, now):
		// Probes are of last chances and of others in turn, too.
	case alone:
		t.dispatchChance(ctx, now)
	default:
		t.dispatch(ctx, now)
	}
	t.metrics.Open(t.ledger.records, t.ledger.bytes, t.ledger.oldest())
}

// acquires reports whether the task takes on what comes, so that there will be a
// fetch for accepts to travel with.
func (t *Task) acquires() bool {
	return t.moves() && !t.breaker.opened && !t.chances.mine && !t.chances.running
}

// expire gives up what is no longer ours since the task did not run for a lock's
// time. The broker would confirm our decisions on it without a word where others
// have decided meanwhile.
func (t *Task) expire(now time.Time) {
	for _, ev := range t.ledger.expired(now) {
		t.lost(ev)
		t.cfg.Source.Decide([]Decision{{TopicPartition: ev.TopicPartition, Session: ev.Session, Verdict: Release, Ranges: ev.Ranges}})
	}
}

// moves reports whether the task acquires and puts.
func (t *Task) moves() bool { return !t.stopping && !t.paused && t.failed == nil }

// pause begins or ends a pause.
func (t *Task) pause(on bool) {
	if on == t.paused {
		return
	}
	t.paused = on
	if on {
		t.log.Info("task paused", "records", t.ledger.records)
	} else {
		t.log.Info("task resumed")
	}
	t.show(time.Now())
}

// request tells the source how much it may acquire.
func (t *Task) request(now time.Time) {
	var room Room
	switch {
	case !t.moves():
	case t.chances.mine, t.chances.running: // What comes meanwhile would die with it.
	default:
		most := t.caution.bound(now)
		if t.breaker.opened {
			most = min(most, t.breaker.room())
		}
		room = Room{
			Records: t.taken.Records + int64(most-(t.ledger.records-t.ledger.parked)),
			Bytes:   t.taken.Bytes + int64(t.cfg.MaxOpenBytes-t.ledger.bytes),
		}
		if t.cfg.Parking != nil {
			if t.breaker.opened && most > 0 {
				most += t.earlyRoom()
			}
			room.Parked = t.taken.Parked + int64(min(most, maxParked)-t.ledger.parked)
			room.ParkedBytes = t.taken.ParkedBytes + int64(t.cfg.MaxOpenBytes/4-t.ledger.parkedSize)
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

// releaseAll gives back all that waits, and forgets it.
func (t *Task) releaseAll() {
	t.ledger.releaseAll()
	if t.ledger.records > 0 { // In puts, or dead letters are being written.
		return
	}
	t.queue.clear()
	t.suspects.list, t.blocked = nil, nil
	t.chances.forget()
}

// sleep returns how long nothing is to be done unless something happens. Once
// the source has ended, open is false, only puts are waited for.
func (t *Task) sleep(ctx context.Context, now, closing time.Time, open bool) time.Duration {
	next := now.Add(time.Hour)
	earlier := func(at time.Time) {
		if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	earlier(closing)
	if !open {
		return max(0, next.Sub(now))
	}
	earlier(t.ledger.nextRenewal())
	earlier(t.ledger.flushBy)
	for _, b := range t.outboxes() {
		if t.canWriteLetters(ctx) && b.ready() {
			earlier(b.at)
		}
	}
	if t.moves() {
		earlier(t.wake(now))
	}
	return max(0, next.Sub(now))
}

// wake returns when something could be put, or given back, by time alone; zero
// means never.
func (t *Task) wake(now time.Time) time.Time {
	var times []time.Time
	switch {
	case !t.slowUntil.IsZero():
		times = append(times, t.slowUntil)
	case t.breaker.opened && !t.breaker.ready(now):
		if !t.breaker.probing && len(t.idle) > 0 {
			times = append(times, t.breaker.probeAt)
		}
	case t.chances.mine, t.chances.running: // Ends with an event.
	case t.breaker.opened: // Ready: what is held has been put, or something has to come.
		times = append(times, t.chances.wake(now))
		if len(t.idle) > 0 && len(t.flying) < t.window {
			times = append(times, t.queue.nextParked())
		}
	case len(t.flying) < t.window:
		times = append(times, t.queue.wake(t.idle), t.chances.wake(now))
		if t.isolates() {
			times = append(times, t.suspects.wake())
		}
	default:
		times = append(times, t.chances.wake(now))
	}
	times = append(times, t.nextGiveBack())
	var next time.Time
	for _, at := range times {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// dispatch gives idle writers what is ready to be put, and reports whether there
// was anything.
func (t *Task) dispatch(ctx context.Context, now time.Time) (launched bool) {
	probing := t.breaker.opened
	if !t.slowUntil.IsZero() || probing && !t.breaker.ready(now) {
		return false
	}
	// Probes are of suspects and of others in turn, so that neither waits for
	// one of the other kind that never succeeds.
	if probing && t.doubted && t.dispatchSuspect(ctx, now) {
		t.doubted, t.chances.probed = false, false
		return true
	}
	if !probing || t.queue.shared.records == 0 { // The probe is of what was not tried yet, if there is any.
		t.queue.due(now, probing)
	}
	launched = t.dispatchReady(ctx, now)
	if probing && !launched { // What was there is no longer ours.
		t.queue.due(now, true)
		launched = t.dispatchReady(ctx, now)
	}
	t.doubted = launched
	launched = t.dispatchSuspect(ctx, now) || launched
	t.chances.probed = t.chances.probed && !launched
	return launched
}

// dispatchReady gives idle writers what is in the queue, and reports whether
// there was anything.
func (t *Task) dispatchReady(ctx context.Context, now time.Time) (launched bool) {
	full := t.full || t.breaker.opened || t.noRoom()
	for i := 0; i < len(t.idle) && len(t.flying) < t.window && t.breaker.mayPut(now); {
		if !t.queue.ready(t.idle[i].number, now, full) {
			i++
			continue
		}
		spans, n := t.queue.take(t.idle[i].number, now, t.cfg.Batch.MaxRecords)
		if n == 0 {
			i++
			continue
		}
		p := t.newPut(spans, n)
		p.apart = n == 1 && t.cfg.Ordered && spans[0].d.killed(spans[0].lo)
		t.breaker.allow(now)
		t.launch(ctx, t.takeIdle(i), p)
		launched = true
	}
	return launched
}

// dispatchSuspect puts suspects, by some of the writers so that the others go
// on, and reports whether it put any.
func (t *Task) dispatchSuspect(ctx context.Context, now time.Time) (launched bool) {
	for t.isolates() && t.breaker.mayPut(now) {
		s := t.suspects.next(now, t.breaker.success, t.breaker.opened)
		if s == nil {
			break
		}
		if s.proven(t.breaker.success) {
			if t.ratio.add(0, t.convict(s, true, true, now)) {
				t.fail(t.ratio.err(s.err))
				break
			}
			continue
		}
		if !s.claim() {
			continue
		}
		p := t.newPut(s.spans, s.records)
		p.suspect, p.apart = s, true
		t.breaker.allow(now)
		t.isolating++
		t.launch(ctx, t.takeIdle(len(t.idle)-1), p)
		launched = true
	}
	return launched
}

// isolates reports whether a suspect may be put now. One always may, more only
// where the target did not ask for less.
func (t *Task) isolates() bool {
	most := 1
	if len(t.flying) < t.window {
		most = max(1, min(t.cfg.Parallelism/2, isolatedMost))
	}
	return len(t.idle) > 0 && t.isolating < most
}

// takeIdle takes the idle writer at i.
func (t *Task) takeIdle(i int) *writer {
	w := t.idle[i]
	t.idle = slices.Delete(t.idle, i, i+1)
	return w
}

// newPut returns a put of spans of n records.
func (t *Task) newPut(spans []span, n int) *put { return &put{spans: spans, records: n} }

// launch gives a put to a writer that is no longer idle.
func (t *Task) launch(ctx context.Context, w *writer, p *put) {
	p.writer = w
	p.ctx, p.cancel = context.WithCancel(ctx)
	for _, s := range p.spans {
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
		} else {
			t.chances.confirmed(ev.TopicPartition, ev.Session, ev.Ranges)
		}
		if ev.Verdict == Accept {
			t.ledger.accepted.settle(ev.TopicPartition, ev.Session, ev.Ranges, nil)
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

// acquired enters new records. What is still in a put from before it was lost
// waits for what becomes of it there.
func (t *Task) acquired(ev *Acquired) {
	t.metrics.Acquired(len(ev.Records))
	if ev.Origins != nil {
		t.taken.Parked += int64(len(ev.Records))
		t.taken.ParkedBytes += int64(ev.Bytes)
	} else {
		t.taken.Records += int64(len(ev.Records))
		t.taken.Bytes += int64(ev.Bytes)
	}
	now := time.Now()
	d := t.ledger.acquire(ev)
	d.since = now
	t.cfg.Survived.spare(d, now) // At once: while it is blocked it may be lost as well.
	if t.putting(d) {
		t.blocked = append(t.blocked, d)
		return
	}
	t.enter(d, now)
}

// putting reports whether an older delivery of a record of d is in a put, or its
// dead letter is being written.
func (t *Task) putting(d *delivery) bool {
	first, last := d.Records[0].Offset, d.Records[len(d.Records)-1].Offset
	overlaps := func(o *delivery, lo, hi int32) bool {
		return o != d && o.TopicPartition == d.TopicPartition && o.Records[lo].Offset <= last && o.Records[hi].Offset >= first
	}
	for p := range t.flying {
		for _, s := range p.spans {
			if overlaps(s.d, s.lo, s.hi-1) {
				return true
			}
		}
	}
	in := func(l letter) bool { return overlaps(l.d, l.index, l.index) }
	return t.dead.writes(in) || t.parked.writes(in)
}

// unblock enters the deliveries that need wait no more.
func (t *Task) unblock(now time.Time) {
	blocked := t.blocked
	t.blocked = nil
	for _, d := range blocked {
		switch {
		case d.open == 0: // Lost meanwhile.
		case t.putting(d):
			t.blocked = append(t.blocked, d)
		default:
			t.enter(d, now)
		}
	}
}

// enter decides what is to become of a delivery's records. One that was written
// before it was lost is accepted; one delivered too often is not put again.
func (t *Task) enter(d *delivery, now time.Time) {
	t.ledger.hold(d) // The last decision may come in here.
	defer t.ledger.unhold(d)
	if d.Unreadable != nil {
		cause := &pluginapi.Error{Class: pluginapi.Invalid, Code: "unreadable", Message: d.Unreadable.Error()}
		for i := range d.slots {
			if d.slots[i].state == slotBuffered {
				t.giveUp(d, int32(i), StageConsume, "unreadable", cause)
			}
		}
		return
	}
	if all, again := t.cfg.Written.look(now); all || again {
		for i := range d.slots {
			if (all || d.deliveryCount(int32(i)) > 1) && t.cfg.Written.has(d.TopicPartition, &d.Records[i], now) {
				t.ledger.decide(span{d: d, lo: int32(i), hi: int32(i) + 1}, Accept)
			}
		}
	}
	t.known(d, now)
	again, last, highest := 0, len(t.chances.list), 0
	for i := range d.DeliveryCounts {
		if count := int(d.DeliveryCounts[i]); count > 1 {
			again++
			highest = max(highest, count)
			t.delivered(d, int32(i), now)
		}
	}
	if again > 0 {
		t.metrics.Redelivered(again, len(t.chances.list)-last, highest)
	}
	switch {
	case d.Origins != nil:
		t.resume(d)
	case d.open > 0:
		t.queue.push(d)
	}
}

// delivered decides about record i of d, which was delivered before.
func (t *Task) delivered(d *delivery, i int32, now time.Time) {
	switch {
	case t.cfg.MaxDeliveryCount == 0 || d.slots[i].state != slotBuffered:
	case d.early(i, now) && t.cfg.Parking != nil && (d.counted(i) > 1 || t.chances.wants(d, i)):
		// It was not put since it was parked: what ended its deliveries was something
		// else. At once, since it may be due when it comes again.
		t.parkAs(d, i, d.Origins[i])
	case t.chances.exhausted(d, i):
		t.giveUp(d, i, StagePut, "deliveries exhausted", nil)
	case t.chances.wants(d, i):
		d.slots[i].state = slotWaiting
		t.chances.add(newChance(d, i, now))
		t.chances.settled = now.Add(settleTime)
	}
}

// lost enters records that are no longer ours, and cancels puts that have no
// other.
func (t *Task) lost(ev *Lost) {
	now := time.Now() // What is written comes again.
	t.ledger.accepted.settle(ev.TopicPartition, ev.Session, ev.Ranges, func(offset, stamp int64) {
		t.cfg.Written.remember(ev.TopicPartition, offset, stamp, t.ledger.lock, now)
	})
	if ev.Ranges == nil && ev.Cause != nil && !t.cfg.Ordered {
		t.caution.lost(t.ledger.records, now)
	}
	n := t.ledger.lost(ev)
	t.metrics.Lost(n, ev.Verdict == Renew)
	if n > 0 {
		t.queue.prune()
	}
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
	t.chances.confirmed(ev.TopicPartition, ev.Session, ev.Ranges)
	if ev.Ranges == nil {
		t.queue.forget(ev.TopicPartition)
	}
}

// giveBack releases, in an outage, what is held for long on its first delivery:
// this worker alone may not reach the target, and the group's window is full of
// what it holds. A later delivery is held, since each release spends one.
func (t *Task) giveBack(now time.Time) {
	if at := t.nextGiveBack(); at.IsZero() || now.Before(at) {
		return
	}
	n := 0
	for _, d := range t.ledger.heldSince(t.breaker.since, now.Add(-t.cfg.HoldTimeout)) {
		n += t.ledger.release(d, 1)
	}
	if n > 0 {
		t.queue.prune()
		t.log.Info("records given back, the target is down for long", "records", n, "hold_timeout", t.cfg.HoldTimeout.String())
	}
}

// nextGiveBack returns when the next record is to be given back; zero means
// never.
func (t *Task) nextGiveBack() time.Time {
	if t.cfg.HoldTimeout == 0 || t.cfg.MaxDeliveryCount == 1 || t.cfg.Ordered || !t.breaker.opened || t.breaker.since.IsZero() || t.stopping || t.failed != nil {
		return time.Time{}
	}
	since := t.ledger.oldestFirst(t.breaker.since)
	if since.IsZero() {
		return since
	}
	return since.Add(t.cfg.HoldTimeout)
}

// open reports whether any of the put's records is still ours, or it is a check.
func (p *put) open() bool {
	if p.records == 0 {
		return true
	}
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
