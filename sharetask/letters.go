package sharetask

import (
	"context"
	"slices"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// letter is one record on its way to a topic: the dead letter queue, or the
// retry topic. Its delivery is held until it is confirmed there or the task
// ends.
type letter struct {
	d        *delivery
	index    int32
	cause    string
	attempts int
	dead     DeadLetter
	again    Origin // Parked.
}

// outbox is what has to be written to a topic before its records may be
// accepted, one write at a time.
type outbox struct {
	write func(context.Context, []letter) []error
	wait  []letter
	job   *letterJob // Being written.
	at    time.Time  // No write before: the last was refused.
	err   error      // Why, while it is so.
}

// letterJob is a batch of letters being written, and back with one error each.
type letterJob struct {
	box     *outbox
	letters []letter
	errs    []error
}

// maxLetters bounds one write.
const maxLetters = 500

func (b *outbox) add(l letter) { b.wait = append(b.wait, l) }

// ready reports whether letters wait that may be written.
func (b *outbox) ready() bool { return b.job == nil && len(b.wait) > 0 }

// writes reports whether a letter that f holds for is being written.
func (b *outbox) writes(f func(letter) bool) bool {
	return b.job != nil && slices.ContainsFunc(b.job.letters, f)
}

// deadLetters writes letters to the dead letter queue.
func deadLetters(queue DeadLetterQueue) func(context.Context, []letter) []error {
	return func(ctx context.Context, letters []letter) []error {
		dead := make([]DeadLetter, len(letters))
		for i := range letters {
			dead[i] = letters[i].dead
		}
		return queue.Write(ctx, dead)
	}
}

// parkedLetters writes letters to the retry topic.
func parkedLetters(parking Parking) func(context.Context, []letter) []error {
	return func(ctx context.Context, letters []letter) []error {
		parked := make([]Parked, len(letters))
		for i := range letters {
			parked[i] = Parked{Record: letters[i].dead.Record, Origin: letters[i].again}
		}
		return parking.Park(ctx, parked)
	}
}

// newLetter makes the dead letter of record i of d.
func newLetter(d *delivery, i int32, stage Stage, cause string, e *pluginapi.Error) letter {
	l := letter{d: d, index: i, cause: cause, dead: DeadLetter{
		Record: d.record(i), Stage: stage, DeliveryCount: d.deliveryCount(i), Message: cause,
	}}
	if e != nil {
		l.dead.Class, l.dead.Code = e.Class, e.Code
		if e.Message != "" {
			l.dead.Message = e.Message
		}
	}
	return l
}

// outboxes returns the task's: what is dead, and what is parked.
func (t *Task) outboxes() [2]*outbox { return [2]*outbox{&t.dead, &t.parked} }

// writing reports whether letters are being written.
func (t *Task) writing() bool { return t.dead.job != nil || t.parked.job != nil }

// canWriteLetters reports whether letters may be written: no more once the
// source is being closed, since their records are given back then.
func (t *Task) canWriteLetters(ctx context.Context) bool { return ctx.Err() == nil && !t.closing }

// startLetters writes what waits in each outbox, one job at a time.
func (t *Task) startLetters(ctx context.Context, now time.Time) {
	if !t.canWriteLetters(ctx) {
		return
	}
	for _, b := range t.outboxes() {
		if b.ready() && !now.Before(b.at) {
			t.startLetterJob(ctx, b)
		}
	}
}

func (t *Task) startLetterJob(ctx context.Context, b *outbox) {
	job := &letterJob{box: b}
	for len(b.wait) > 0 && len(job.letters) < maxLetters {
		l := b.wait[0]
		b.wait[0], b.wait = letter{}, b.wait[1:]
		if l.d.slots[l.index].state == slotDone { // Lost meanwhile: it comes again.
			t.ledger.unhold(l.d)
			continue
		}
		job.letters = append(job.letters, l)
	}
	if len(job.letters) == 0 {
		return
	}
	b.job = job
	writeCtx, cancel := context.WithTimeout(ctx, t.cfg.PutTimeout)
	go func() {
		defer cancel()
		job.errs = b.write(writeCtx, job.letters)
		t.letterBack <- job
	}()
}

// lettered takes a job back. What was confirmed is acknowledged, the rest is
// held: a record is never acknowledged without its letter.
func (t *Task) lettered(job *letterJob, now time.Time) {
	b := job.box
	b.job, b.err = nil, nil
	defer t.unblock(now)
	refused, confirmed := 0, 0
	for k := range job.letters {
		l, err := job.letters[k], job.errs[k]
		if l.d.slots[l.index].state == slotDone { // Lost meanwhile.
			if err == nil {
				t.remember(l.d, &l.d.Records[l.index], now)
			}
			t.ledger.unhold(l.d)
			continue
		}
		if l.attempts++; err == nil {
			confirmed++
		} else if refused++; refused == 1 {
			b.err = err
			b.at = now.Add(jitter(t.cfg.Retry.backoff(l.attempts)))
			t.log.Warn("record not written to its topic, holding it", "parking", b == &t.parked, "topic", l.dead.Record.Topic,
				"partition", l.dead.Record.Partition, "offset", l.dead.Record.Offset, "err", err)
		}
		if b == &t.parked {
			t.wasParked(l, err)
		} else {
			t.wasDeadLettered(l, err)
		}
	}
	t.show(now)
	switch {
	case b == &t.parked:
		t.metrics.Parked(confirmed)
	case refused > 0:
		t.metrics.DeadLetterFailed(refused)
	}
}

// wasDeadLettered enters that a record is confirmed to be in the dead letter
// queue, or is not: then it is written again.
func (t *Task) wasDeadLettered(l letter, err error) {
	if err != nil {
		t.dead.add(l)
		return
	}
	t.deadLettered(&l)
	t.ledger.decide(span{d: l.d, lo: l.index, hi: l.index + 1}, Accept)
	t.ledger.unhold(l.d)
}

// deadLettered counts and logs a dead letter that is written, or left to the
// broker, and does what Tolerance says after it.
func (t *Task) deadLettered(l *letter) {
	t.metrics.DeadLettered(l.cause, 1)
	if t.cfg.LogErrors {
		t.log.Warn("record dead-lettered", "topic", l.dead.Record.Topic, "partition", l.dead.Record.Partition,
			"offset", l.dead.Record.Offset, "stage", string(l.dead.Stage), "cause", l.cause, "code", l.dead.Code, "err", l.dead.Message)
	}
	if t.cfg.Tolerance == ToleranceNone {
		t.fail(recordError(l.dead.Record, l.dead.Stage, l.cause, &pluginapi.Error{Class: l.dead.Class, Code: l.dead.Code, Message: l.dead.Message}))
	}
}
