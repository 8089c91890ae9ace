package sharetask

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// TestAPausedTaskHoldsNothing but its sinks and its membership: puts in flight
// end, the rest is given back, and nothing is put or acquired until it resumes.
func TestAPausedTaskHoldsNothing(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lock := 15 * time.Second
			if ordered {
				lock = 0
			}
			src := newFakeSource(200, lock)
			var puts atomic.Int64
			sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
				puts.Add(1)
				time.Sleep(2 * time.Second)
				acceptAll(r)
				for i := range b {
					if b[i].Offset%50 == 7 && src.count[b[i].Offset] < 2 && time.Now().Before(time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC)) {
						r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "", "later"))
					}
				}
				return nil
			}}
			cfg := testConfig(src, sink)
			cfg.Ordered = ordered
			task, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- task.Run(ctx) }()
			time.Sleep(5 * time.Second) // In the middle of a put.
			task.Pause()
			time.Sleep(5 * time.Second)
			before := puts.Load()
			if got := task.Status().State; got != StatePaused || !ordered && src.open() != 0 || src.verdicts()[Accept] == 0 {
				t.Errorf("ordered=%t: %s with %d records held and %v, want PAUSED with none, and what was in flight accepted", ordered, got, src.open(), src.verdicts())
			}
			time.Sleep(time.Hour)
			if n := puts.Load() - before; n != 0 || sink.stops.Load() != 0 {
				t.Errorf("ordered=%t: %d puts and %d stops while paused", ordered, n, sink.stops.Load())
			}
			task.Resume()
			time.Sleep(5 * time.Minute)
			if got := task.Status().State; got != StateRunning || src.verdicts()[Accept] != 200 {
				t.Errorf("ordered=%t: %s with %v after it resumed, want all accepted", ordered, got, src.verdicts())
			}
			for o, n := range src.count {
				if n > 2 {
					t.Errorf("record %d was delivered %d times", o, n)
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAPauseKeepsNoMemory of the records that were given back.
func TestAPauseKeepsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(400, 30*time.Second)
		task, err := New(testConfig(src, &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			time.Sleep(time.Second)
			acceptAll(r)
			for i := range b {
				switch b[i].Offset % 7 {
				case 3:
					r[i] = pluginapi.Result{} // Unknown: a suspect.
				case 5:
					r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "", "later"))
				}
			}
			return nil
		}}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- task.Run(ctx) }()
		time.Sleep(5 * time.Second)
		task.Pause()
		time.Sleep(time.Minute)
		synctest.Wait() // The task waits: what it owns may be read.
		if n := len(task.queue.shared.spans) + len(task.queue.waiting) + len(task.suspects.list) + len(task.chances.list) + len(task.blocked); n > 0 || task.ledger.bytes > 0 {
			t.Errorf("%d spans and %d bytes are kept while paused", n, task.ledger.bytes)
		}
		if n := src.inUse.Load(); n > 0 {
			t.Errorf("the memory of %d runs is not given back", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
