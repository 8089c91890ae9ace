package sinktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

const (
	// callTimeout is the deadline of every call.
	callTimeout = 30 * time.Second
	// callGrace is how long after its context's end a call may return.
	callGrace = 10 * time.Second
)

// call runs f with a deadline, and fails the test if f outlives it.
func (target *Target) call(t testing.TB, what string, f func(ctx context.Context) error) error {
	t.Helper()
	timeout := callTimeout
	if target.timeout > 0 {
		timeout = target.timeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), timeout)
	defer cancel()
	return target.callContext(ctx, t, what, f)
}

// callContext runs f with ctx, and fails the test if f outlives it.
func (target *Target) callContext(ctx context.Context, t testing.TB, what string, f func(ctx context.Context) error) error {
	t.Helper()
	grace := callGrace
	if target.timeout > 0 {
		grace = target.timeout
	}
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		t.Fatalf("%s has not returned %s after its context ended", what, grace)
		return errors.New("unreachable") // Fatalf does not return.
	}
}

// single is a sink whose Stop is called once, by the case or at its end.
type single struct {
	Sink
	stopped bool
}

func (s *single) Stop(ctx context.Context) error {
	if s.stopped {
		return nil
	}
	s.stopped = true
	return s.Sink.Stop(ctx)
}

// own makes a sink by newSink that is stopped when the case ends.
func (target *Target) own(t testing.TB, newSink func(testing.TB) Sink) Sink {
	t.Helper()
	s := &single{Sink: newSink(t)}
	t.Cleanup(func() { target.stop(t, s) })
	return s
}

// started makes a sink and starts it; it is stopped when the case ends.
func (target *Target) started(t testing.TB) Sink {
	t.Helper()
	s := target.own(t, target.New)
	if err := target.call(t, "Start", s.Start); err != nil {
		t.Fatalf("start: %v", err)
	}
	return s
}

func (target *Target) stop(t testing.TB, s Sink) {
	t.Helper()
	if err := target.call(t, "Stop", s.Stop); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// put puts batch and checks what holds for every put: the batch is left as it
// was, and each result is one a sink may give.
func (target *Target) put(t testing.TB, s Sink, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	t.Helper()
	given, results := clone(batch), make([]pluginapi.Result, len(batch))
	err := target.call(t, "Put", func(ctx context.Context) error { return s.Put(ctx, given, results) })
	wantUnchanged(t, given, batch)
	wantResults(t, results)
	return results, err
}

// wantResults fails for a result no sink may give. The zero result, unknown,
// is the caller's to judge.
func wantResults(t testing.TB, results []pluginapi.Result) {
	t.Helper()
	for i, r := range results {
		switch r.Outcome {
		case 0, pluginapi.Reject:
		case pluginapi.Accept:
			if r.Err != nil {
				t.Errorf("record %d is accepted with the error %v", i, r.Err)
			}
		case pluginapi.Retry:
			if r.Err == nil {
				continue
			}
			switch r.Err.Class {
			case pluginapi.NoClass, pluginapi.Transient, pluginapi.Throttled, pluginapi.Unavailable:
			default:
				t.Errorf("record %d is to be tried again with class %s, want transient, throttled or unavailable", i, r.Err.Class)
			}
			if r.Err.RetryAfter < 0 {
				t.Errorf("record %d is to be tried again after %s", i, r.Err.RetryAfter)
			}
		default:
			t.Errorf("record %d has the outcome %d, which is none", i, r.Outcome)
		}
	}
}

// putAll puts batch, which the sink must accept as a whole.
func (target *Target) putAll(t testing.TB, s Sink, batch []pluginapi.Record) {
	t.Helper()
	results, err := target.put(t, s, batch)
	if err != nil {
		t.Fatalf("put %d records: %v", len(batch), err)
	}
	for i, r := range results {
		if r.Outcome != pluginapi.Accept {
			t.Fatalf("record %d of %d: %s, want accept", i, len(batch), describe(r))
		}
	}
}

// describe writes a result for a message.
func describe(r pluginapi.Result) string {
	if r.Err == nil {
		return r.Outcome.String()
	}
	return r.Outcome.String() + " (" + r.Err.Class.String() + " " + r.Err.Code + ": " + r.Err.Message + ")"
}

// counts returns how often the target holds each id.
func (target *Target) counts(t testing.TB) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, id := range target.Stored(t) {
		out[id]++
	}
	return out
}

// wantStored fails unless the target holds the records once each, or at least
// once with most above 1. It does nothing where that cannot be read.
func (target *Target) wantStored(t testing.TB, batch []pluginapi.Record, most int) {
	t.Helper()
	if target.Stored == nil {
		return
	}
	have := target.counts(t)
	for i := range batch {
		if n := have[idOf(&batch[i])]; n < 1 || n > most {
			t.Errorf("record %d (id %q) is stored %d times, want 1 to %d", i, idOf(&batch[i]), n, most)
			return
		}
	}
}
