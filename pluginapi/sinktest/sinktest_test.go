package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// memory is a target in memory.
type memory struct {
	mu    sync.Mutex
	ids   []string // Guarded by mu, as are the others.
	left  int      // Records until it fails; below zero it does not.
	folds bool
}

func (m *memory) store(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		return pluginapi.NewError(pluginapi.Unavailable, "down", "the target is down")
	}
	m.left--
	if !m.folds || !slices.Contains(m.ids, id) {
		m.ids = append(m.ids, id)
	}
	return nil
}

func (m *memory) fail(left int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = left
}

func (m *memory) stored() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.ids)
}

// faults are the ways a memorySink can be wrong. Each function stands in for
// the right one.
type faults struct {
	start func(s *memorySink) error
	put   func(ctx context.Context, s *memorySink, batch []pluginapi.Record) ([]pluginapi.Result, error)
	check func(s *memorySink) error
	stop  func(s *memorySink) error
}

// memorySink stores into a memory, rightly but for its faults.
type memorySink struct {
	faults
	target *memory
	wrong  bool // Its settings are.
	kept   []pluginapi.Record
	puts   int
}

func (s *memorySink) Start(context.Context, pluginapi.Config) error {
	if s.start != nil {
		return s.start(s)
	}
	if s.wrong {
		return pluginapi.NewError(pluginapi.Invalid, "setting", "the setting is wrong")
	}
	return nil
}

func (s *memorySink) Check(context.Context) error {
	if s.check != nil {
		return s.check(s)
	}
	return nil
}

func (s *memorySink) Stop(context.Context) error {
	if s.stop != nil {
		return s.stop(s)
	}
	return nil
}

func (s *memorySink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	s.puts++
	if s.put != nil {
		return s.put(ctx, s, batch)
	}
	return s.right(ctx, batch)
}

func (s *memorySink) right(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results := make([]pluginapi.Result, len(batch))
	for i := range batch {
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		results[i] = s.one(&batch[i])
	}
	return results, nil
}

func (s *memorySink) one(r *pluginapi.Record) pluginapi.Result {
	if idOf(r) == "" && !r.Value.IsAbsent() {
		return pluginapi.Rejected("bad", "the value has no id")
	}
	if err := s.target.store(idOf(r)); err != nil {
		return pluginapi.Retried(pluginapi.AsError(err, pluginapi.Transient))
	}
	return pluginapi.Result{Outcome: pluginapi.Accept}
}

func newTarget(f faults, data, folds bool) Target {
	m := &memory{left: -1, folds: folds}
	return Target{
		New:       func(testing.TB) Sink { return Adapt(&memorySink{faults: f, target: m}, pluginapi.Config{}) },
		Stored:    func(testing.TB) []string { return m.stored() },
		FailAfter: func(_ testing.TB, n int) { m.fail(n) },
		Repair:    func(testing.TB) { m.fail(-1) },
		Data:      data,
		Folds:     folds,
		Bad: func(testing.TB) pluginapi.Record {
			return pluginapi.Record{Topic: "orders", Value: pluginapi.BytesDatum([]byte("bad"))}
		},
		Unreachable: func(testing.TB) Sink {
			return Adapt(&memorySink{faults: f, target: &memory{}}, pluginapi.Config{})
		},
		Misconfigured: func(testing.TB) Sink {
			return Adapt(&memorySink{faults: f, target: m, wrong: true}, pluginapi.Config{})
		},
		timeout: 2 * time.Second,
	}
}

func TestRightSinkPasses(t *testing.T) {
	for _, data := range []bool{false, true} {
		for _, folds := range []bool{false, true} {
			t.Run(fmt.Sprintf("data %v, folds %v", data, folds), func(t *testing.T) {
				Run(t, func(testing.TB) Target { return newTarget(faults{}, data, folds) })
			})
		}
	}
}

// recorder is a test that notes what fails in it.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Helper() {}

// run runs one case by name, in a recorder, and returns what failed.
func run(t *testing.T, name string, target Target) []string {
	t.Helper()
	all := cases()
	i := slices.IndexFunc(all, func(tc testCase) bool { return tc.name == name })
	if i < 0 {
		t.Fatalf("there is no case %q", name)
	}
	r := &recorder{TB: t}
	inGoroutine := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
	inGoroutine(func() { all[i].check(r, &target) })
	for _, f := range slices.Backward(r.cleanups) {
		inGoroutine(f)
	}
	return r.failures
}

// TestFaultySinksFail breaks a sink in one way at a time; the case that is
// there for it must see that.
func TestFaultySinksFail(t *testing.T) {
	type batch = []pluginapi.Record
	type results = []pluginapi.Result
	// each answers every record by answer, and stores it by itself if asked to.
	each := func(answer func(s *memorySink, r *pluginapi.Record) pluginapi.Result) faults {
		return faults{put: func(_ context.Context, s *memorySink, b batch) (results, error) {
			out := make(results, len(b))
			for i := range b {
				out[i] = answer(s, &b[i])
			}
			return out, nil
		}}
	}
	accept := pluginapi.Result{Outcome: pluginapi.Accept}
	size := func(b batch) int {
		n := 0
		for i := range b {
			v, _ := b[i].Value.Bytes()
			n += len(v)
		}
		return n
	}
	for _, tc := range []struct {
		name   string
		caught string
		faults faults
		want   string
	}{
		{"results in reverse", "order and number of results", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			out, err := s.right(ctx, b)
			slices.Reverse(out)
			return out, err
		}}, "with a bad record at 0, record 0: accept, want reject"},
		{"a result too few", "order and number of results", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			out, err := s.right(ctx, b)
			return out[1:], err
		}}, "0 results for 1 records"},
		{"a result too many", "order and number of results", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			out, err := s.right(ctx, b)
			return append(out, accept), err
		}}, "2 results for 1 records"},
		{"an outcome that is none", "order and number of results", each(func(*memorySink, *pluginapi.Record) pluginapi.Result {
			return pluginapi.Result{Outcome: 9}
		}), "outcome 9"},
		{"a bad record costs its batch", "order and number of results", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			for i := range b {
				if idOf(&b[i]) == "" {
					return nil, errors.New("bad record")
				}
			}
			return s.right(ctx, b)
		}}, "bad record"},
		{"a reject without a reason", "order and number of results", each(func(s *memorySink, r *pluginapi.Record) pluginapi.Result {
			out := s.one(r)
			out.Err = nil
			return out
		}), "without a reason"},
		{"changes the batch", "order and number of results", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			out, err := s.right(ctx, b)
			v, _ := b[0].Value.Bytes()
			v[0] = 'x'
			return out, err
		}}, "changed record 0"},
		{"an error for nothing", "empty batch", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			if len(b) == 0 {
				return nil, errors.New("no records")
			}
			return s.right(ctx, b)
		}}, "put nothing: no records"},
		{"stores at the next put", "accepted is stored", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			if _, err := s.right(ctx, s.kept); err != nil {
				return nil, err
			}
			s.kept = clone(b)
			return pluginapi.Accepted(len(b)), nil
		}}, "is stored 0 times"},
		{"stores twice", "accepted is stored", each(func(s *memorySink, r *pluginapi.Record) pluginapi.Result {
			s.one(r)
			return s.one(r)
		}), "is stored 2 times"},
		{"keeps the batch", "batch is not kept", faults{
			put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
				_, err := s.right(ctx, s.kept)
				s.kept = b
				return pluginapi.Accepted(len(b)), err
			},
			stop: func(s *memorySink) error {
				_, err := s.right(context.Background(), s.kept)
				return err
			},
		}, "is stored 0 times"},
		{"retries tombstones", "tombstones", each(func(s *memorySink, r *pluginapi.Record) pluginapi.Result {
			if r.Value.IsAbsent() {
				return pluginapi.Retried(nil)
			}
			return s.one(r)
		}), "retry, want accept or reject"},
		{"rejects a tombstone's neighbours", "tombstones", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			if b[0].Value.IsAbsent() {
				return slices.Repeat(results{pluginapi.Rejected("x", "y")}, len(b)), nil
			}
			return s.right(ctx, b)
		}}, "a neighbour of a tombstone"},
		{"has a limit of 4 MiB", "large batch", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			if size(b) > 4<<20 {
				return nil, errors.New("message larger than max")
			}
			return s.right(ctx, b)
		}}, "message larger than max"},
		{"has a limit for a record", "large record", each(func(s *memorySink, r *pluginapi.Record) pluginapi.Result {
			if size(batch{*r}) > 1<<19 {
				return pluginapi.Rejected("large", "too large")
			}
			return s.one(r)
		}), "too large"},
		{"fails on binary keys", "unicode and binary keys", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			for i := range b {
				if k, _ := b[i].Key.Bytes(); bytes.ContainsRune(k, 0xfffd) {
					return nil, errors.New("binary key")
				}
			}
			return s.right(ctx, b)
		}}, "binary key"},
		{"cannot write text", "unicode and binary keys", each(func(s *memorySink, r *pluginapi.Record) pluginapi.Result {
			if strings.ContainsRune(idOf(r), 'ö') {
				return pluginapi.Rejected("ascii", "not ASCII")
			}
			return s.one(r)
		}), "is not ASCII: reject"},
		{"accepts what it does not store", "cancelled context", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			if ctx.Err() != nil {
				return pluginapi.Accepted(len(b)), nil
			}
			return s.right(ctx, b)
		}}, "is stored 0 times"},
		{"rejects when its time is over", "cancelled context", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			if ctx.Err() != nil {
				return slices.Repeat(results{pluginapi.Rejected("x", "y")}, len(b)), nil
			}
			return s.right(ctx, b)
		}}, "though the context had ended"},
		{"does not look at its context", "cancelled context", faults{put: func(_ context.Context, s *memorySink, b batch) (results, error) {
			hang := make(chan struct{})
			time.AfterFunc(5*time.Second, func() { close(hang) })
			<-hang
			return pluginapi.Accepted(len(b)), nil
		}}, "has not returned"},
		{"is of no use after a cancelled put", "cancelled context", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			if s.puts > 1 {
				return nil, errors.New("closed")
			}
			return s.right(ctx, b)
		}}, "closed"},
		{"Check writes", "start and check write nothing", faults{check: func(s *memorySink) error { return s.target.store("probe") }}, "holds 1 records"},
		{"Start writes", "start and check write nothing", faults{start: func(s *memorySink) error { return s.target.store("probe") }}, "holds 1 records"},
		{"starts with wrong settings", "start error", faults{start: func(*memorySink) error { return nil }}, "started"},
		{"wrong settings may pass by themselves", "start error", faults{start: func(*memorySink) error { return errors.New("wrong") }}, "class none"},
		{"Stop fails after a failed start", "start error", faults{stop: func(*memorySink) error { return errors.New("not started") }}, "stop: not started"},
		{"empties the target at the start", "restart", faults{start: func(s *memorySink) error {
			s.target.mu.Lock()
			defer s.target.mu.Unlock()
			s.target.ids = nil
			return nil
		}}, "is stored 0 times"},
		{"takes its target for itself", "two instances at once", faults{start: func(s *memorySink) error {
			s.target.mu.Lock()
			defer s.target.mu.Unlock()
			if s.target.folds {
				return errors.New("in use")
			}
			s.target.folds = true
			return nil
		}}, "in use"},
		{"rejects in an outage", "unreachable target", each(func(*memorySink, *pluginapi.Record) pluginapi.Result {
			return pluginapi.Rejected("down", "no target")
		}), "an outage is not the record's fault"},
		{"fails for good without a target", "unreachable target", faults{start: func(*memorySink) error {
			return pluginapi.NewError(pluginapi.Fatal, "down", "no target")
		}}, "class fatal"},
		{"rejects when the target goes away", "outage", each(func(s *memorySink, r *pluginapi.Record) pluginapi.Result {
			if out := s.one(r); out.Outcome == pluginapi.Accept {
				return out
			}
			return pluginapi.Rejected("down", "no target")
		}), "an outage is not the record's fault"},
		{"does not come back", "outage", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			out, err := s.right(ctx, b)
			if len(s.kept) > 0 || (len(out) > 0 && out[0].Outcome == pluginapi.Retry) {
				s.kept = clone(b)
				return nil, errors.New("connection is closed")
			}
			return out, err
		}}, "connection is closed"},
		{"accepts the batch if its beginning is stored", "target fails in the middle", faults{put: func(ctx context.Context, s *memorySink, b batch) (results, error) {
			out, err := s.right(ctx, b)
			if len(out) > 0 && out[0].Outcome == pluginapi.Accept {
				return pluginapi.Accepted(len(b)), err
			}
			return out, err
		}}, "is stored 0 times"},
		{"refuses what it has seen", "duplicates by id", each(func(s *memorySink, r *pluginapi.Record) pluginapi.Result {
			if slices.Contains(s.target.stored(), idOf(r)) {
				return pluginapi.Rejected("duplicate", "is there already")
			}
			return s.one(r)
		}), "is there already"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target := newTarget(tc.faults, false, false)
			got := run(t, tc.caught, target)
			if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, tc.want) }) {
				t.Errorf("case %q found %q, want %q", tc.caught, got, tc.want)
			}
			if right := run(t, tc.caught, newTarget(faults{}, false, false)); len(right) > 0 {
				t.Errorf("case %q fails a right sink: %q", tc.caught, right)
			}
		})
	}
}

// TestFoldingIsChecked: a target that says it folds must.
func TestFoldingIsChecked(t *testing.T) {
	target := newTarget(faults{}, false, false)
	target.Folds = true
	if got := run(t, "duplicates by id", target); len(got) == 0 {
		t.Error("nobody saw that records are there twice")
	}
}

// reporterSink misuses reports.
type reporterSink struct {
	memorySink
	report func(b []pluginapi.Record, report func(int, []pluginapi.Result))
}

func (s *reporterSink) PutReport(_ context.Context, b []pluginapi.Record, report func(int, []pluginapi.Result)) error {
	s.report(b, report)
	return nil
}

func TestAdaptWatchesReports(t *testing.T) {
	one := pluginapi.Accepted(1)
	for _, tc := range []struct {
		name   string
		report func(b []pluginapi.Record, report func(int, []pluginapi.Result))
		want   string
	}{
		{"right", func(_ []pluginapi.Record, report func(int, []pluginapi.Result)) { report(1, one); report(0, one) }, "<nil>"},
		{"twice", func(_ []pluginapi.Record, report func(int, []pluginapi.Result)) { report(0, one); report(0, one) }, "record 0 reported twice"},
		{"behind the end", func(_ []pluginapi.Record, report func(int, []pluginapi.Result)) { report(2, one) }, "for a batch of 2"},
		{"before the start", func(_ []pluginapi.Record, report func(int, []pluginapi.Result)) { report(-1, one) }, "for a batch of 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := Adapt(&reporterSink{report: tc.report}, pluginapi.Config{})
			err := s.Put(t.Context(), make([]pluginapi.Record, 2), make([]pluginapi.Result, 2))
			if got := fmt.Sprint(err); !strings.Contains(got, tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
