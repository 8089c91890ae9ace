package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/host/metrics"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/loader"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// fakeTask runs for a time and ends with an error; without one it runs until
// it is stopped.
type fakeTask struct {
	runs   time.Duration
	err    error
	paused *atomic.Bool // Nil counts nothing.
}

func (t fakeTask) Pause()  { t.pause(true) }
func (t fakeTask) Resume() { t.pause(false) }

func (t fakeTask) pause(on bool) {
	if t.paused != nil {
		t.paused.Store(on)
	}
}

func (t fakeTask) Run(ctx context.Context) error {
	if t.err == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case <-time.After(t.runs):
		return t.err
	case <-ctx.Done():
		return nil
	}
}

func (fakeTask) Status() sharetask.Status { return sharetask.Status{State: sharetask.StateRunning} }

func newSlot() *taskSlot {
	return &taskSlot{tasks: 1, metrics: metrics.New("", "").Task("c", 0, 1), log: slog.New(slog.DiscardHandler)}
}

func TestTasksAreRestartedOnlyWhereThatHelps(t *testing.T) {
	for _, tc := range []struct {
		name    string
		err     error
		restart bool
	}{
		{"plain error", errors.New("connection reset"), true},
		{"transient", pluginapi.NewError(pluginapi.Transient, "busy", "busy"), true},
		{"unavailable", fmt.Errorf("start: %w", pluginapi.NewError(pluginapi.Unavailable, "down", "down")), true},
		{"fatal", fmt.Errorf("start: %w", pluginapi.NewError(pluginapi.Fatal, "no_table", "no table")), false},
		{"invalid", pluginapi.NewError(pluginapi.Invalid, "mode", "no such mode"), false},
		{"plugin file replaced", fmt.Errorf("start: %w", loader.ErrChecksum), false},
		{"failed task", &sharetask.FailedError{Err: errors.New("record refused")}, false},
		{"group of another kind", fmt.Errorf("join group: %w", sharetask.ErrGroupKind), false},
		{"group of another kind, asked before", sortKafka(&kafka.GroupKindError{Group: "g", Is: kafka.KindClassic, Want: kafka.KindShare}), false},
		{"broker away", sortKafka(errors.New("dial 127.0.0.1:1: refused")), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				slot := newSlot()
				made := 0
				go slot.supervise(ctx, func() (runnable, error) {
					made++
					if made == 1 {
						return fakeTask{err: tc.err}, nil
					}
					return fakeTask{}, nil
				})
				time.Sleep(restartFirst) // The bubble's clock: at most one second is waited.
				synctest.Wait()
				got := slot.status("w", "v")
				switch {
				case tc.restart && (made != 2 || got.State != "RUNNING" || got.Trace != ""):
					t.Errorf("made %d tasks, status %+v, want a second one running", made, got)
				case !tc.restart && (made != 1 || got.State != "FAILED" || got.Trace != tc.err.Error()):
					t.Errorf("made %d tasks, status %+v, want FAILED with the cause", made, got)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// TestRestart ends a task, or the wait of one that failed or is to be tried
// again, and a pause lasts through it.
func TestRestart(t *testing.T) {
	for name, err := range map[string]error{
		"running": nil, "failed": &sharetask.FailedError{Err: errors.New("record refused")}, "trying again": errors.New("connection reset"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				slot := newSlot()
				made := 0
				var paused atomic.Bool
				go slot.supervise(ctx, func() (runnable, error) {
					made++
					paused.Store(false)
					if made == 1 {
						return fakeTask{err: err, paused: &paused}, nil
					}
					return fakeTask{paused: &paused}, nil
				})
				synctest.Wait()
				slot.pause(true)
				slot.restart()
				synctest.Wait()
				if got := slot.status("w", "v"); made != 2 || got.State != "RUNNING" || !paused.Load() {
					t.Errorf("made %d tasks, status %+v, paused %t; want a second one, paused", made, got, paused.Load())
				}
				slot.pause(false)
				if paused.Load() {
					t.Error("it is not resumed")
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

func TestATaskThatCannotBeMadeIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		slot := newSlot()
		var at []time.Time
		go slot.supervise(ctx, func() (runnable, error) {
			at = append(at, time.Now())
			return nil, errors.New("no memory")
		})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := slot.status("w", "v"); got.State != "UNASSIGNED" || got.Trace != "no memory" {
			t.Errorf("got %+v, want UNASSIGNED with the cause", got)
		}
		cancel()
		synctest.Wait()
		if len(at) < 12 || len(at) > 28 { // 6 waits up to 32 s, then one between 30 s and a minute each.
			t.Errorf("tried %d times in ten minutes", len(at))
		}
	})
}

func TestRestartBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b restartBackoff
		for i, step := range []struct {
			ran      time.Duration
			from, to time.Duration
		}{
			{0, 500 * time.Millisecond, time.Second},
			{time.Second, time.Second, 2 * time.Second},
			{time.Second, 2 * time.Second, 4 * time.Second},
			{steadyAfter - 1, 4 * time.Second, 8 * time.Second},
			{steadyAfter, 500 * time.Millisecond, time.Second},
		} {
			start := time.Now()
			if !b.wait(t.Context(), step.ran) {
				t.Fatal("gave up")
			}
			if took := time.Since(start); took < step.from || took > step.to {
				t.Errorf("wait %d took %s, want %s to %s", i, took, step.from, step.to)
			}
		}
		b.attempt = 1000
		start := time.Now()
		b.wait(t.Context(), 0)
		if took := time.Since(start); took < restartMax/2 || took > restartMax {
			t.Errorf("a late wait took %s, want at most %s", took, restartMax)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if b.wait(ctx, 0) {
			t.Error("went on after the context's end")
		}
	})
}
