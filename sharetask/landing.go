package sharetask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

var errSourceEnded = errors.New("the source ended by itself")

// landed takes a put back from its writer and decides each record's fate.
func (t *Task) landed(p *put, now time.Time) {
	delete(t.flying, p)
	t.idle = append(t.idle, p.writer)
	t.queue.done(p.spans)

	worked := t.verdicts(p, now)
	for _, s := range p.spans {
		t.ledger.unhold(s.d)
	}
	if p.err != nil && needsPerson(p.err) {
		t.fail(p.err)
		return
	}
	t.outage(p, worked, now)
}

// tally is what a put's results say about the target.
type tally struct {
	reached   bool      // Some record was accepted or rejected by the sink.
	throttled time.Time // The target asked for no put before.
	err       error     // A reason of a record that was not accepted.
}

// outage tells the breaker how the put went.
func (t *Task) outage(p *put, w tally, now time.Time) {
	switch {
	case w.reached:
		if t.breaker.open() {
			t.log.Info("target answers again")
		}
		t.breaker.succeeded(now)
		if t.failed == nil {
			t.setStatus(StateRunning, "", nil)
		}
	case !w.throttled.IsZero():
		t.breaker.abandon()
	case p.sent == 0 && p.err == nil:
		t.breaker.abandon() // Nothing left after conversion: says nothing.
	case p.abandoned || t.stopping: // We cancelled it: says nothing.
		t.breaker.abandon()
	default:
		was := t.breaker.open()
		t.breaker.failed(now)
		cause := p.err
		if cause == nil {
			cause = w.err
		}
		if t.breaker.open() && t.failed == nil {
			t.setStatus(StateRunning, fmt.Sprintf("target unavailable: %v", cause), nil)
			if !was {
				t.log.Warn("target unavailable, holding records and probing", "err", cause)
			}
		}
	}
	if w.throttled.After(t.slowUntil) {
		t.slowUntil = w.throttled
	}
}

// verdicts decides every record of p, batches of equal fate at once.
func (t *Task) verdicts(p *put, now time.Time) tally {
	var w tally
	var again []againSpan
	n, next := 0, 0 // Index of the record in the put, and in p.failures.
	for _, s := range p.spans {
		for i := s.lo; i < s.hi; {
			run := i
			for run < s.hi && p.results[n+int(run-i)].Outcome == pluginapi.Accept {
				run++
			}
			if run > i {
				w.reached = w.reached || p.sent > 0
				t.ledger.decide(span{d: s.d, lo: i, hi: run}, Accept)
				n += int(run - i)
				i = run
				continue
			}
			if next < len(p.failures) && p.failures[next].index == n {
				f := p.failures[next]
				next++
				if s.d.slots[i].state != slotDone {
					t.giveUp(s.d, i, f.stage, "conversion failed", &pluginapi.Error{Class: pluginapi.Invalid, Message: f.err.Error()})
				}
			} else if s.d.slots[i].state != slotDone {
				again = t.refused(p, s.d, i, p.results[n], now, &w, again)
			}
			n++
			i++
		}
	}
	if len(again) > 0 {
		t.ledger.saveSurvivors(again)
		records := 0
		// Backwards, so that in a lane that keeps order the first is put in front last.
		for i := len(again) - 1; i >= 0; i-- {
			records += int(again[i].hi - again[i].lo)
			t.queue.retry(again[i].span, again[i].at)
		}
		t.metrics.Retried(records)
	}
	return w
}

// againSpan is a span to be put again at a time.
type againSpan struct {
	span
	at time.Time
}

// refused decides one record that was not accepted.
func (t *Task) refused(p *put, d *delivery, i int32, r pluginapi.Result, now time.Time, w *tally, again []againSpan) []againSpan {
	if r.Outcome == pluginapi.Reject {
		w.reached = true
	}
	if r.Err != nil {
		w.err = r.Err
		if r.Err.Class == pluginapi.Fatal {
			t.fail(recordError(&d.Records[i], StagePut, "fatal", r.Err))
		}
		if r.Err.Class == pluginapi.Throttled && r.Outcome == pluginapi.Retry {
			after := min(max(r.Err.RetryAfter, t.cfg.Retry.Initial), t.cfg.Retry.Max)
			if at := now.Add(after); at.After(w.throttled) {
				w.throttled = at
			}
		}
	}
	tr := d.failed(i, now)
	act, wait, draw, cause := judge(failure{
		result: r, attempts: tr.attempts, elapsed: now.Sub(tr.since),
		succeeded: t.breaker.success.After(tr.since), leaving: t.ledger.revoking(d),
	}, t.cfg.Retry)
	one := span{d: d, lo: i, hi: i + 1}
	switch act {
	case actRelease:
		t.ledger.decide(one, Release)
	case actGiveUp:
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
		d.slots[i].state = slotWaiting
		again = append(again, againSpan{span: one, at: now.Add(wait)})
	}
	return again
}

// giveUp is the end of a record that will not be put again: dead-lettered, or
// what Tolerance says without a queue.
func (t *Task) giveUp(d *delivery, i int32, stage Stage, cause string, e *pluginapi.Error) {
	if t.cfg.Letters != nil {
		d.slots[i].state = slotLetter
		t.ledger.hold(d)
		t.letters = append(t.letters, newLetter(d, i, stage, cause, e))
		return
	}
	rec := &d.Records[i]
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

// startLetters writes the next dead letters, one job at a time.
func (t *Task) startLetters(ctx context.Context, now time.Time) {
	if t.letterJob != nil || len(t.letters) == 0 || now.Before(t.letterAt) || ctx.Err() != nil {
		return
	}
	job := &letterJob{}
	for len(t.letters) > 0 && len(job.letters) < maxLetters {
		l := t.letters[0]
		t.letters = t.letters[1:]
		if l.d.slots[l.index].state == slotDone { // Lost meanwhile: it comes again.
			t.ledger.unhold(l.d)
			continue
		}
		job.letters = append(job.letters, l)
	}
	if len(job.letters) == 0 {
		return
	}
	t.letterJob = job
	writeCtx, cancel := context.WithTimeout(ctx, t.cfg.PutTimeout)
	go func() {
		defer cancel()
		writeLetters(writeCtx, t.cfg.Letters, job, t.letterBack)
	}()
}

// lettered takes a job back. What was confirmed is acknowledged, the rest is
// held and written again: a record is never acknowledged without its letter.
func (t *Task) lettered(job *letterJob, now time.Time) {
	t.letterJob = nil
	refused := 0
	for k := range job.letters {
		l := job.letters[k]
		if l.d.slots[l.index].state == slotDone { // Lost meanwhile.
			t.ledger.unhold(l.d)
			continue
		}
		if err := job.errs[k]; err != nil {
			refused++
			l.attempts++
			if refused == 1 {
				t.letterAt = now.Add(jitter(t.cfg.Retry.backoff(l.attempts)))
				t.log.Warn("dead letter not written, holding the record", "topic", l.dead.Record.Topic,
					"partition", l.dead.Record.Partition, "offset", l.dead.Record.Offset, "err", err)
			}
			t.letters = append(t.letters, l)
			continue
		}
		t.metrics.DeadLettered(l.cause, 1)
		if t.cfg.LogErrors {
			t.log.Warn("record dead-lettered", "topic", l.dead.Record.Topic, "partition", l.dead.Record.Partition,
				"offset", l.dead.Record.Offset, "stage", string(l.dead.Stage), "cause", l.cause, "code", l.dead.Code, "err", l.dead.Message)
		}
		if t.cfg.Tolerance == ToleranceNone {
			t.fail(recordError(l.dead.Record, l.dead.Stage, l.cause, &pluginapi.Error{Class: l.dead.Class, Code: l.dead.Code, Message: l.dead.Message}))
		}
		t.ledger.decide(span{d: l.d, lo: l.index, hi: l.index + 1}, Accept)
		t.ledger.unhold(l.d)
	}
	if refused > 0 {
		t.metrics.DeadLetterFailed(refused)
	}
}
