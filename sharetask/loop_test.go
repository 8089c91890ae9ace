package sharetask

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// TestAStopWaitsQuietly for a dead letter that is not written, and for a source
// that takes its time.
func TestAStopWaitsQuietly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(1, 30*time.Second)
		cfg := testConfig(slowSource{src, 2 * time.Second}, &fakeSink{put: func(_ context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
			r[0] = pluginapi.Rejected("", "bad")
			return nil
		}})
		count := &rounds{most: 100}
		cfg.Letters, cfg.StopTimeout, cfg.Metrics = hungLetters{}, 6*time.Second, count
		if _, err := runFor(t, cfg, time.Second); err != nil {
			t.Fatal(err)
		}
		if n := count.n.Load(); n > count.most {
			t.Errorf("%d rounds of the loop in a stop, want a few", n)
		}
	})
}

// hungLetters is a dead letter queue that does not answer.
type hungLetters struct{}

func (hungLetters) Write(ctx context.Context, l []DeadLetter) []error {
	<-ctx.Done()
	errs := make([]error, len(l))
	for i := range errs {
		errs[i] = ctx.Err()
	}
	return errs
}

// heldTask returns a task that was not run, with a free writer and past its slow
// start, and what makes deliveries of n records from first on in it.
func heldTask(t *testing.T) (*Task, func(first int64, n int) *delivery) {
	t.Helper()
	task, err := New(testConfig(newFakeSource(0, time.Minute), &fakeSink{}))
	if err != nil {
		t.Fatal(err)
	}
	task.idle = []*writer{task.writers[0]}
	return task, func(first int64, n int) *delivery {
		now := time.Now()
		ev := &Acquired{TopicPartition: orders, Session: 1, Lock: time.Hour, LockedUntil: now.Add(time.Hour)}
		for k := range int64(n) {
			ev.Records = append(ev.Records, testRecord(first+k))
			ev.DeliveryCounts = append(ev.DeliveryCounts, 1)
		}
		vanishing(ev)
		return task.ledger.acquire(ev)
	}
}

// TestOnceTheSourceHasEndedOnlyPutsAreWaitedFor: what else is due is not to be
// put any more.
func TestOnceTheSourceHasEndedOnlyPutsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task, acquire := heldTask(t)
		now := time.Now()
		d := acquire(0, 5)
		d.since = now.Add(-time.Hour)
		task.queue.push(d)
		d = acquire(10, 2)
		d.slots[0].state, d.slots[1].state = slotWaiting, slotWaiting
		task.suspects.put([]*suspect{{spans: []span{{d: d, hi: 1}}, records: 1, at: now}}, false)
		task.chances.add(newChance(d, 1, now.Add(-time.Second)))
		task.dead.wait, task.dead.at = []letter{newLetter(d, 0, StagePut, "rejected", nil)}, now
		d.LockedUntil = now
		if got := task.sleep(t.Context(), now, time.Time{}, true); got > 0 {
			t.Errorf("sleeps %v, though there is something to do", got)
		}
		if got := task.sleep(t.Context(), now, now.Add(time.Minute), false); got != time.Minute {
			t.Errorf("sleeps %v, want until puts are cancelled in a minute", got)
		}
	})
}

// TestAProbeIsFoundBehindWhatWasGivenBack: the queue still has that, and the
// records that could be put wait for their next try.
func TestAProbeIsFoundBehindWhatWasGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task, acquire := heldTask(t)
		now := time.Now()
		task.breaker.begin(now)
		d := acquire(0, 5)
		task.queue.push(d)
		task.ledger.release(d, 1)
		d = acquire(10, 5)
		for i := range d.slots {
			d.slots[i].state = slotWaiting
		}
		task.queue.retry(span{d: d, hi: 5}, now.Add(time.Hour))
		task.request(now)
		task.dispatch(t.Context(), now)
		if len(task.flying) != 1 {
			t.Errorf("%d puts, want the probe", len(task.flying))
		}
	})
}
