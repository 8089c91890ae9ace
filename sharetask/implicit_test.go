package sharetask

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// toldSource is a fakeSource that keeps how many accepts came at a time.
type toldSource struct {
	*fakeSource
	accepts []int // Owned by the task's goroutine until it has ended.
}

func (s *toldSource) Decide(d []Decision) {
	n := 0
	for i := range d {
		if d[i].Verdict == Accept {
			n += count(d[i].Ranges)
		}
	}
	if n > 0 {
		s.accepts = append(s.accepts, n)
	}
	s.fakeSource.Decide(d)
}

// TestImplicitAcceptsGoTogether: those of one delivery, though it is put in
// parts; explicit ones go as they are decided.
func TestImplicitAcceptsGoTogether(t *testing.T) {
	for _, implicit := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			src := &toldSource{fakeSource: newFakeSource(41, 30*time.Second)} // The first is the slow start's.
			sink := &fakeSink{put: func(_ context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
				time.Sleep(time.Second)
				acceptAll(r)
				return nil
			}}
			cfg := testConfig(src, sink)
			cfg.Implicit = implicit
			task, err := runFor(t, cfg, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			most := 10
			if implicit {
				most = 40
			}
			if last := src.accepts[len(src.accepts)-1]; last != most || src.verdicts()[Accept] != 41 {
				t.Errorf("implicit=%t: accepts came as %v, want %d at the end", implicit, src.accepts, most)
			}
			if n := len(task.ledger.accepted); n != 0 {
				t.Errorf("implicit=%t: %d partitions of unconfirmed accepts are left", implicit, n)
			}
		})
	}
}

// TestImplicitAcceptsGoBeforeTheEnd: one record is not decided, for far longer
// than a lock; a stop, a pause, a failure and an outage send what was.
func TestImplicitAcceptsGoBeforeTheEnd(t *testing.T) {
	for name, end := range map[string]func(*Task, func(error)){
		"stop":    func(*Task, func(error)) {},
		"pause":   func(task *Task, _ func(error)) { task.Pause() },
		"failure": func(_ *Task, answer func(error)) { answer(pluginapi.NewError(pluginapi.Fatal, "", "no table")) },
		"outage":  func(_ *Task, answer func(error)) { answer(pluginapi.NewError(pluginapi.Unavailable, "", "down")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &toldSource{fakeSource: newFakeSource(41, 30*time.Second)}
				var answer atomic.Pointer[error]
				sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
					var err, failed error
					if p := answer.Load(); p != nil {
						err = *p
					}
					acceptAll(r)
					for i := range b {
						if b[i].Offset > 5 && b[i].Offset < 20 { // Enough of them not to be copied.
							r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "", "later"))
							failed = err
						}
					}
					return failed
				}}
				cfg := testConfig(src, sink)
				cfg.Implicit, cfg.Batch.MaxRecords = true, 40
				cfg.Retry.Max, cfg.Retry.MaxElapsed, cfg.Breaker.Failures = 10*time.Second, time.Hour, 8
				task, err := New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				decided := func() (n int) { // Of the one delivery.
					src.mu.Lock()
					defer src.mu.Unlock()
					for o := range int64(41) {
						if o > 0 && src.ended[o] == Accept {
							n++
						}
					}
					return n
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- task.Run(ctx) }()
				src.grow(180) // Others that succeed: it is no outage.
				synctest.Wait()
				got := decided()
				src.mu.Lock()
				renewals, late := src.renewals, len(src.late)
				src.mu.Unlock()
				if got != 0 || late != 0 || renewals == 0 {
					t.Fatalf("%d accepted, %d renewals, %d after their lock; want all 26 held back and renewed", got, renewals, late)
				}
				end(task, func(err error) { answer.Store(&err) })
				if name == "stop" {
					cancel()
				}
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if got := decided(); got != 26 {
					t.Errorf("%d are accepted, want all 26 that were written", got)
				}
				cancel()
				var failed *FailedError
				if err := <-done; (name == "failure") != errors.As(err, &failed) {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}
