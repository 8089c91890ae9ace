package sharetask

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

var (
	errSourceEnded = errors.New("the source ended by itself")
	errNoResult    = errors.New("the sink gave no result")
)

// firstErr returns a, or b where a is nil.
func firstErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// landed takes a put back from its writer and decides each record's fate.
func (t *Task) landed(p *put, now time.Time) {
	t.expire(now)
	delete(t.flying, p)
	t.idle = append(t.idle, p.writer)
	t.queue.done(p.spans)
	if p.suspect != nil {
		t.isolating--
	}
	if p.records == 0 {
		t.checked(p, now)
		return
	}
	worked := t.verdicts(p, now)
	if p.chance != nil {
		t.chances.landed(p.spans[0])
	}
	for _, s := range p.spans {
		if p.gone { // It may still be reading: its memory is the garbage collector's.
			s.d.Free = nil
		}
		t.ledger.unhold(s.d)
	}
	t.unblock(now)
	if p.err != nil && needsPerson(p.err) {
		t.fail(p.err)
		return
	}
	t.outage(p, worked, now)
}

// checked enters a check of the target.
func (t *Task) checked(p *put, now time.Time) {
	switch {
	case p.err == nil:
		t.breaker.passed(now, t.ledger.records)
	case t.stopping:
		t.breaker.abandon()
	case needsPerson(p.err):
		t.fail(p.err)
	default:
		t.down(p.err, now)
		t.show(now)
	}
}

// tally is what a put's results say about the target.
type tally struct {
	reached   bool             // Some record was accepted or rejected by the sink.
	some      bool             // Some record was accepted by the sink; known before the first is decided.
	throttled time.Time        // The target asked for no put before.
	err       *pluginapi.Error // A reason of a record that was not accepted.
	telling   bool             // Its failure says something of the target: not all of its records failed while others succeeded.
	doubt     bool             // Some record has no result.
	accepted  int
	givenUp   int
}

// outage tells the breaker how the put went.
func (t *Task) outage(p *put, w tally, now time.Time) {
	switch {
	case w.reached:
		t.reached(p, now)
	case !w.throttled.IsZero():
		t.breaker.abandon()
	case p.sent == 0 && p.err == nil: // Nothing left after conversion.
		t.breaker.inconclusive()
	case p.abandoned || t.stopping: // We cancelled it.
		t.breaker.abandon()
	case p.crashed && p.process != 0 && p.process == t.crashed: // Counted with another put that was in it.
		t.breaker.abandon()
	case (p.apart && w.doubt || !w.telling) && !t.breaker.opened: // More likely its own fault; it has a backoff of its own.
	default:
		if p.crashed {
			t.crashed = p.process
		}
		t.down(firstErr(p.err, errOrNil(w.err)), now)
	}
	t.throttle(w, now)
	t.show(now)
}

// reached enters that the target took or judged a record of p.
func (t *Task) reached(p *put, now time.Time) {
	if t.breaker.down() {
		t.log.Info("target answers again")
	}
	t.breaker.succeeded(p.putAt, now)
	t.metrics.Down(false)
}

// down enters a whole put, or a check, that failed.
func (t *Task) down(cause error, now time.Time) {
	was := t.breaker.down()
	t.breaker.failed(now)
	t.cause = cause
	t.metrics.Down(t.breaker.down())
	if t.breaker.down() && !was {
		t.log.Warn("target unavailable, holding records and probing", "err", cause)
	}
}

// throttle slows down where the target asks for less: nothing is put before it
// allows it, half as many puts at a time then, and one more after each that
// succeeds.
func (t *Task) throttle(w tally, now time.Time) {
	switch {
	case !w.throttled.IsZero():
		if !now.Before(t.slowUntil) { // The first of a wave.
			t.window = max(1, min(t.window, len(t.flying)+1)/2)
		}
		t.slowUntil = later(t.slowUntil, w.throttled)
		t.cause = errOrNil(w.err)
	case w.reached && t.window < t.cfg.Parallelism:
		t.window++
	}
}

// show brings the status up to date.
func (t *Task) show(now time.Time) {
	if t.failed != nil {
		return
	}
	if t.paused {
		t.setStatus(StatePaused, "", nil)
		return
	}
	degraded := ""
	switch {
	case t.breaker.down():
		degraded = fmt.Sprintf("target unavailable: %v", t.cause)
	case t.dead.err != nil:
		degraded = fmt.Sprintf("dead letters cannot be written, %d records held: %v", len(t.dead.wait), t.dead.err)
	case t.window < t.cfg.Parallelism || now.Before(t.slowUntil):
		degraded = fmt.Sprintf("throttled by the target, %d of %d puts at a time: %v", t.window, t.cfg.Parallelism, t.cause)
	}
	t.setStatus(StateRunning, degraded, nil)
}

// verdicts decides every record of p, batches of equal fate at once.
func (t *Task) verdicts(p *put, now time.Time) tally {
	some := p.accepts()
	w := tally{reached: some, some: some}
	var again []againSpan
	var unknown []span
	n, next := 0, 0 // Index of the record in the put, and in p.failures.
	for _, s := range p.spans {
		for i := s.lo; i < s.hi; {
			run := i
			for run < s.hi && p.results[n+int(run-i)].Outcome == pluginapi.Accept {
				run++
			}
			if run > i {
				w.accepted += int(run - i)
				t.written(s.d, i, run, now)
				t.ledger.decide(span{d: s.d, lo: i, hi: run}, Accept)
				n += int(run - i)
				i = run
				continue
			}
			switch r := p.result(n); {
			case next < len(p.failures) && p.failures[next].index == n:
				f := p.failures[next]
				next++
				if s.d.slots[i].state != slotDone {
					w.err = &pluginapi.Error{Class: pluginapi.Invalid, Message: f.err.Error()}
					t.giveUp(s.d, i, f.stage, "conversion failed", w.err)
					w.givenUp++
				}
			case s.d.slots[i].state == slotDone: // Lost.
			case p.doubtful(r) && !t.cfg.Ordered && !t.stopping && !t.ledger.revoking(s.d):
				s.d.slots[i].state = slotWaiting
				unknown = appendSpan(unknown, s.d, i)
			default:
				again = t.refused(p, s.d, i, r, now, &w, again)
			}
			n++
			i++
		}
	}
	if len(unknown) > 0 {
		w.telling, w.doubt = true, true
		t.suspected(p, unknown, now, &w)
	}
	t.putAgain(p, again)
	if t.ratio.add(w.accepted+w.givenUp, w.givenUp) {
		t.fail(t.ratio.err(errOrNil(w.err)))
	}
	return w
}

// accepts reports whether the sink accepted any record.
func (p *put) accepts() bool {
	left := p.dropped
	return p.sent > 0 && slices.ContainsFunc(p.results, func(r pluginapi.Result) bool {
		if r.Outcome == pluginapi.Accept {
			left--
		}
		return left < 0
	})
}

// result returns what is known of record n: its result, or, where the sink said
// of the put as a whole that the target does not take it now, just that.
func (p *put) result(n int) pluginapi.Result {
	r := p.results[n]
	var e *pluginapi.Error
	if known(r) || !errors.As(p.err, &e) {
		return r
	}
	switch e.Class {
	case pluginapi.Transient, pluginapi.Throttled, pluginapi.Unavailable:
		return pluginapi.Retried(e)
	default:
		return r
	}
}

func known(r pluginapi.Result) bool {
	return r.Outcome == pluginapi.Accept || r.Outcome == pluginapi.Retry || r.Outcome == pluginapi.Reject
}

// doubtful reports whether r leaves open what became of its record, which was
// handed to the sink.
func (p *put) doubtful(r pluginapi.Result) bool {
	return !known(r) && p.sent > 0 && !p.cancelled && (p.err == nil || !needsPerson(p.err))
}

// written remembers the records of d from lo to hi-1 that are written but no
// longer ours to accept.
func (t *Task) written(d *delivery, lo, hi int32, now time.Time) {
	for i := lo; i < hi; i++ {
		if d.slots[i].state == slotDone {
			t.remember(d, &d.Records[i], now)
		}
	}
}

// remember enters a record of d that is written and will be delivered again.
func (t *Task) remember(d *delivery, r *pluginapi.Record, now time.Time) {
	t.cfg.Written.remember(d.TopicPartition, r.Offset, r.Timestamp.UnixNano(), d.Lock, now)
}

// putAgain lets the records of again wait for their next put.
func (t *Task) putAgain(p *put, again []againSpan) {
	if len(again) == 0 {
		return
	}
	records := 0
	for _, s := range again {
		records += int(s.hi - s.lo)
	}
	t.metrics.Retried(records)
	if p.chance != nil {
		t.chances.add(newChance(again[0].d, again[0].lo, again[0].at))
		return
	}
	if p.suspect != nil && p.sent == 0 { // Its sink did not start: still a suspect.
		var spans []span
		for _, s := range again {
			for i := s.lo; i < s.hi; i++ {
				spans = appendSpan(spans, s.d, i)
			}
		}
		s := *p.suspect
		s.spans, s.records, s.at = spans, records, again[0].at
		t.suspects.put([]*suspect{&s}, false)
		return
	}
	t.ledger.saveSurvivors(again)
	// Backwards, so that in a lane that keeps order the first is put in front last.
	for i := len(again) - 1; i >= 0; i-- {
		if !again[i].turn {
			t.queue.retry(again[i].span, again[i].at)
		}
	}
	for _, s := range again {
		if s.turn {
			t.queue.append(s.span)
		}
	}
}

// suspected takes records whose fate nobody can tell. Those that fail alone in
// their sink are split. A failure of a single record is held against it once it
// is clear that it is not the target's: a fresh sink's Check succeeded, or other
// records did after it.
func (t *Task) suspected(p *put, spans []span, now time.Time, w *tally) {
	s := &suspect{spans: spans, at: now, err: firstErr(p.err, errNoResult)}
	for _, sp := range spans {
		s.records += int(sp.hi - sp.lo)
	}
	t.metrics.Retried(s.records)
	if p.chance != nil { // It stays alone in the worker, too.
		s.fails, s.kills = max(p.chance.fails, 1), p.chance.kills // In a sink that is apart from now on.
		w.givenUp += t.convict(s, p.apart, p.checked, now)
		return
	}
	if p.suspect == nil {
		t.suspects.put([]*suspect{s}, false)
		return
	}
	s.fails, s.kills = p.suspect.fails, p.suspect.kills
	if s.records == 1 {
		w.givenUp += t.convict(s, true, p.checked, now)
		return
	}
	t.log.Debug("a record of these kills its sink, looking for it", "records", s.records, "err", s.err)
	if !p.checked { // It may be the target: later.
		s.fails++
		s.at = now.Add(jitter(t.cfg.Retry.backoff(s.fails)))
	}
	t.suspects.put(s.split(), true)
}

// convict enters a failure of a single record, alone in its sink if apart is
// set. It is held against the record if proven, or else later if that turns out.
// A record is given up on after Attempts of them; it returns how many were.
func (t *Task) convict(s *suspect, apart, proven bool, now time.Time) int {
	s.failedAt, s.at = time.Time{}, now
	switch {
	case proven:
		s.kills++
	case apart:
		s.fails++
		s.failedAt, s.at = now, now.Add(jitter(t.cfg.Retry.backoff(s.fails)))
	}
	d, i := s.spans[0].d, s.spans[0].lo
	switch {
	case d.slots[i].state != slotWaiting: // Lost meanwhile.
		return 0
	case s.kills >= t.cfg.Isolate.Attempts:
		t.giveUp(d, i, StagePut, "kills the sink", killed(s.err))
		return 1
	case t.chances.wants(d, i):
		t.chances.add(chance{d: d, index: i, suspect: s})
	default:
		t.suspects.put([]*suspect{s}, proven)
	}
	return 0
}

// killed is the error of a record that killed its sink.
func killed(err error) *pluginapi.Error {
	e := *pluginapi.AsError(err, pluginapi.Unknown)
	e.Message = "kills the sink: " + e.Message
	return &e
}

// againSpan is a span to be put again at a time, or in its turn.
type againSpan struct {
	span
	at   time.Time
	turn bool // Behind what waits: its target asked for less of everything.
}

// refused decides one record that was not accepted.
func (t *Task) refused(p *put, d *delivery, i int32, r pluginapi.Result, now time.Time, w *tally, again []againSpan) []againSpan {
	if r.Outcome == pluginapi.Reject {
		w.reached = true
	}
	if r.Err != nil {
		w.err = r.Err
		if r.Err.Class == pluginapi.Fatal {
			t.fail(recordError(d.record(i), StagePut, "fatal", r.Err))
		}
		if r.Err.Class == pluginapi.Throttled && r.Outcome == pluginapi.Retry {
			after := min(max(r.Err.RetryAfter, t.cfg.Retry.Initial), t.cfg.Retry.Max)
			if at := now.Add(after); at.After(w.throttled) {
				w.throttled = at
			}
		}
	}
	tr, before := d.failed(i, now)
	// That others succeeded in puts that began after it failed the last time says
	// that it is not the target, unless that has gone away since. Where nothing
	// else can be had, since the record-lock windows are full behind what is
	// held, that they did after it failed first has to do.
	outlived := !t.breaker.opened && !before.IsZero() && t.breaker.success.After(before)
	others := outlived || !t.breaker.opened && t.full && t.breaker.success.After(tr.since)
	w.telling = w.telling || !others
	if p.doubtful(r) { // In order: put again alone.
		tr.unknown, w.doubt = true, true
		if p.apart && (p.checked || outlived) {
			tr.kills++
		}
		if tr.kills >= t.cfg.Isolate.Attempts {
			w.givenUp++
			t.giveUp(d, i, StagePut, "kills the sink", killed(firstErr(p.err, errNoResult)))
			return again
		}
	}
	own := transient(r)
	if own && tr.own && !t.breaker.opened {
		// What it waited for longer than any backoff is not its own.
		tr.spent += min(now.Sub(later(before, t.breaker.closed)), t.cfg.Retry.Max)
	}
	tr.own = own
	act, wait, draw, cause := judge(failure{
		result: r, attempts: tr.attempts, elapsed: tr.spent,
		succeeded: others, leaving: t.ledger.revoking(d),
	}, t.cfg.Retry)
	if s := p.suspect; act == actRetry && s != nil && s.lastTry && !t.breaker.opened && transient(r) {
		act, cause = actGiveUp, causeRetries
	}
	one := span{d: d, lo: i, hi: i + 1}
	switch act {
	case actRelease:
		t.ledger.decide(one, Release)
	case actGiveUp:
		if cause == causeRetries && p.records > 1 && !t.cfg.Ordered {
			// It may have failed for another's sake: once more, alone.
			d.slots[i].state = slotWaiting
			t.suspects.put([]*suspect{{spans: []span{one}, records: 1, at: now, lastTry: true}}, false)
			return again
		}
		w.givenUp++
		t.giveUp(d, i, StagePut, cause, r.Err)
	default:
		if draw {
			// Neighbours that failed in one put wait together.
			if k := len(again); k > 0 && again[k-1].d == d && again[k-1].hi == i && d.troubles[again[k-1].lo].attempts == tr.attempts {
				d.slots[i].state = slotWaiting
				again[k-1].hi++
				return again
			}
			wait = jitter(wait)
		}
		at := now.Add(wait)
		if t.parks(tr, at, others || w.some) {
			t.park(d, i, tr, now, at)
			return again
		}
		d.slots[i].state = slotWaiting
		turn := !t.cfg.Ordered && r.Err != nil && r.Err.Class == pluginapi.Throttled
		if k := len(again); turn && k > 0 && again[k-1].turn && again[k-1].d == d && again[k-1].hi == i {
			again[k-1].hi++
			return again
		}
		again = append(again, againSpan{span: one, at: at, turn: turn})
	}
	return again
}

// giveUp is the end of a record that will not be put again: dead-lettered, or
// what Tolerance says without a queue.
func (t *Task) giveUp(d *delivery, i int32, stage Stage, cause string, e *pluginapi.Error) {
	if t.cfg.Letters != nil {
		t.ledger.letter(d, i)
		t.dead.add(newLetter(d, i, stage, cause, e))
		return
	}
	rec := d.record(i)
	if t.cfg.BrokerLetters {
		l := newLetter(d, i, stage, cause, e)
		t.deadLettered(&l)
		t.ledger.decide(span{d: d, lo: i, hi: i + 1}, Reject)
		return
	}
	if t.cfg.Tolerance == ToleranceAll {
		t.log.Warn("record dropped: given up on, and there is no dead letter queue", "topic", rec.Topic,
			"partition", rec.Partition, "offset", rec.Offset, "stage", string(stage), "cause", cause, "err", errOrNil(e))
		t.metrics.Dropped(cause, 1)
		t.ledger.decide(span{d: d, lo: i, hi: i + 1}, Reject)
		return
	}
	// Held, so that siblings do not fail on it too, and nothing is lost.
	d.slots[i].state = slotWaiting
	t.fail(recordError(rec, stage, cause, e))
}

func errOrNil(e *pluginapi.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// recordError names a record and why it was given up on.
func recordError(rec *pluginapi.Record, stage Stage, cause string, e *pluginapi.Error) error {
	if e != nil {
		return fmt.Errorf("record %s-%d@%d: %s: %s: %w", rec.Topic, rec.Partition, rec.Offset, stage, cause, e)
	}
	return fmt.Errorf("record %s-%d@%d: %s: %s", rec.Topic, rec.Partition, rec.Offset, stage, cause)
}
