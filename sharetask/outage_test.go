package sharetask

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// outages are the ways a target can be away.
var outages = map[string]func(ctx context.Context, s *fakeSink, r []pluginapi.Result) error{
	"transient": func(_ context.Context, _ *fakeSink, r []pluginapi.Result) error {
		for i := range r {
			r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "503", "down"))
		}
		return nil
	},
	"unavailable": func(context.Context, *fakeSink, []pluginapi.Result) error {
		return pluginapi.NewError(pluginapi.Unavailable, "refused", "connection refused")
	},
	"hangs": func(ctx context.Context, s *fakeSink, _ []pluginapi.Result) error {
		<-ctx.Done()
		s.gone = true
		return errors.New("killed: its put did not return")
	},
	"crashes": func(_ context.Context, s *fakeSink, _ []pluginapi.Result) error {
		s.gone = true
		return errors.New("plugin crashed")
	},
}

// TestAnOutageSpendsNothing: however the target is away, from the start or in
// the middle, with a sink that can tell and one that cannot: nothing is
// dead-lettered, nobody's lock runs out, and it holds no more than it did.
func TestAnOutageSpendsNothing(t *testing.T) {
	for name, away := range outages {
		for _, fromStart := range []bool{true, false} {
			for _, checks := range []bool{false, true} {
				if name == "crashes" && checks {
					continue // Below: a Check that passes while puts crash is evidence.
				}
				for _, filtered := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						outage(t, name, away, fromStart, checks, filtered)
					})
				}
			}
		}
	}
}

// outage runs a task while its target is away for eleven minutes. What a filter
// drops before the sink sees it says nothing of the target.
func outage(t *testing.T, name string, away func(context.Context, *fakeSink, []pluginapi.Result) error, fromStart, checks, filtered bool) {
	src := newFakeSource(400, 15*time.Second)
	letters := &fakeLetters{}
	down, up := time.Now(), time.Now().Add(11*time.Minute)
	if !fromStart {
		down = down.Add(10 * time.Second)
	}
	var held atomic.Int64
	cfg := testConfig(src, nil)
	cfg.Letters, cfg.Parallelism, cfg.CanCheck, cfg.PutTimeout = letters, 3, checks, 5*time.Second
	if filtered {
		cfg.Convert = convertFunc(func(rec, out *pluginapi.Record) (bool, error) {
			*out = *rec
			return rec.Offset%3 != 2, nil
		})
	}
	cfg.MakeSink = func(context.Context, int, bool) (Sink, error) {
		s := &fakeSink{}
		s.put = func(ctx context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
			if now := time.Now(); !now.Before(down) && now.Before(up) {
				held.Store(int64(src.open()))
				return away(ctx, s, r)
			}
			time.Sleep(time.Second)
			acceptAll(r)
			return nil
		}
		return s, nil
	}
	if _, err := runFor(t, cfg, 40*time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := src.verdicts(); got[Accept] != 400 || len(letters.offsets()) != 0 {
		t.Errorf("%s, from the start %t, filtered %t: got %v and letters %v, want 400 accepted", name, fromStart, filtered, got, letters.offsets())
	}
	if len(src.late) > 0 {
		t.Errorf("%s: %d decisions came after the lock", name, len(src.late))
	}
	if n := held.Load(); fromStart && n > 4 {
		t.Errorf("%s, filtered %t: %d records held, though nothing is known of the target", name, filtered, n)
	}
}

func TestNothingIsPutWhileCheckFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(100, 15*time.Second)
		down, up := time.Now().Add(500*time.Millisecond), time.Now().Add(10*time.Minute)
		var puts, checks atomic.Int64
		away := func() bool { now := time.Now(); return now.After(down) && now.Before(up) }
		sink := &fakeSink{
			check: func() error {
				if away() {
					checks.Add(1)
					return pluginapi.NewError(pluginapi.Unavailable, "", "refused")
				}
				return nil
			},
			put: func(_ context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
				if away() {
					puts.Add(1)
					return pluginapi.NewError(pluginapi.Unavailable, "", "refused")
				}
				time.Sleep(100 * time.Millisecond)
				acceptAll(r)
				return nil
			},
		}
		cfg := testConfig(src, sink)
		cfg.CanCheck = true
		if _, err := runFor(t, cfg, 20*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 100 {
			t.Errorf("got %v, want 100 accepted", got)
		}
		if puts.Load() > 3 || checks.Load() < 5 {
			t.Errorf("got %d puts and %d checks in the outage, want what opens the breaker and many", puts.Load(), checks.Load())
		}
	})
}

// TestFirstDeliveriesAreGivenBackOnce: a worker that cannot reach the target
// lets others try, but spends no second delivery on it.
func TestFirstDeliveriesAreGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(60, 15*time.Second)
		down, up := time.Now().Add(200*time.Millisecond), time.Now().Add(30*time.Minute)
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			if now := time.Now(); now.After(down) && now.Before(up) {
				return pluginapi.NewError(pluginapi.Unavailable, "", "refused")
			}
			time.Sleep(150 * time.Millisecond)
			acceptAll(r)
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.HoldTimeout = 2 * time.Minute
		if _, err := runFor(t, cfg, 50*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 60 {
			t.Errorf("got %v, want 60 accepted", got)
		}
		given := 0
		for o, n := range src.count {
			if n > 2 {
				t.Errorf("record %d was delivered %d times", o, n)
			}
			if n == 2 {
				given++
			}
		}
		if given < 20 {
			t.Errorf("%d records were given back, want what was held", given)
		}
	})
}

// TestARecordThatFailsFirstDoesNotStopAllForEver: alone, it cannot be told from
// an outage.
func TestARecordThatFailsFirstDoesNotStopAllForEver(t *testing.T) {
	for name, fails := range outages {
		synctest.Test(t, func(t *testing.T) {
			src := newFakeSource(50, 15*time.Second)
			letters := &fakeLetters{}
			cfg := testConfig(src, nil)
			cfg.Letters, cfg.PutTimeout, cfg.Tolerance = letters, 5*time.Second, ToleranceAll
			cfg.MakeSink = func(context.Context, int, bool) (Sink, error) {
				s := &fakeSink{}
				s.put = func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
					acceptAll(r)
					for i := range b {
						if b[i].Offset == 0 {
							clear(r)
							return fails(ctx, s, r)
						}
					}
					return nil
				}
				return s, nil
			}
			go src.grow(1000)
			if _, err := runFor(t, cfg, 40*time.Minute); err != nil {
				t.Fatal(err)
			}
			got := src.verdicts()
			want := 1050
			if name == "unavailable" {
				want = 1049 // Says that it is the target: held, while the others go on.
			}
			if got[Accept] != want {
				t.Errorf("%s: got %v and letters %v, want %d accepted", name, got, letters.offsets(), want)
			}
			if l := letters.offsets(); name != "unavailable" && !slices.Equal(l, []int64{0}) {
				t.Errorf("%s: got letters %v, want the first", name, l)
			}
		})
	}
}

func TestThrottledHalvesPutsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(4000, 30*time.Second)
		letters := &fakeLetters{}
		var flying, most, least atomic.Int64
		least.Store(100)
		busy, calm := time.Now().Add(5*time.Second), time.Now().Add(10*time.Minute)
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			n := flying.Add(1)
			defer flying.Add(-1)
			now := time.Now()
			time.Sleep(time.Second)
			if now.After(busy) && now.Before(calm) {
				least.Store(min(least.Load(), n))
				if n > 2 { // It bears two at a time.
					for i := range r {
						r[i] = pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Throttled, Code: "429", RetryAfter: 3 * time.Second})
					}
					return nil
				}
			} else if now.After(calm) {
				most.Store(max(most.Load(), n))
			}
			acceptAll(r)
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Letters, cfg.Parallelism, cfg.MaxOpenRecords, cfg.Retry.MaxElapsed = letters, 8, 160, time.Minute
		if _, err := runFor(t, cfg, 20*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 4000 || len(letters.offsets()) > 0 {
			t.Errorf("got %v and letters %v, want 4000 accepted", got, letters.offsets())
		}
		_ = most.Load()
		if least.Load() != 1 {
			t.Errorf("puts never went below %d at a time", least.Load())
		}
	})
}

func TestTooManyRejectsFailTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(20_000, 30*time.Second)
		letters := &fakeLetters{}
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			acceptAll(r)
			for i := range b {
				if o := b[i].Offset; o%4 == 0 || o > 6000 { // A quarter is bad, then all are.
					r[i] = pluginapi.Rejected("22P02", "no number")
				}
			}
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Letters, cfg.MaxRejectRatio = letters, 0.5
		task, err := runFor(t, cfg, time.Hour)
		var failed *FailedError
		if !errors.As(err, &failed) || task.Status().State != StateFailed {
			t.Fatalf("got error %v and status %+v, want FAILED", err, task.Status())
		}
		if n := len(letters.offsets()); n < 1500+500 || n > 1500+2100 {
			t.Errorf("%d dead letters, want it to stop within two thousand of them", n)
		}
	})
}

// TestAnOutageThatHangsOrCrashesConvictsNobody by a success from before it, in
// order or not.
func TestAnOutageThatHangsOrCrashesConvictsNobody(t *testing.T) {
	for _, name := range []string{"hangs", "crashes"} {
		for _, ordered := range []bool{false, true} {
			for _, works := range [][]int64{{2}, {1, 3}, {2, 4, 5}, {1, 2, 4, 6}} { // The puts that succeed, of those before it.
				synctest.Test(t, func(t *testing.T) {
					lock := 15 * time.Second
					if ordered {
						lock = 0
					}
					src, letters, up := newFakeSource(50, lock), &fakeLetters{}, time.Now().Add(time.Hour)
					var puts atomic.Int64
					cfg := testConfig(src, nil)
					cfg.Ordered, cfg.Letters, cfg.PutTimeout = ordered, letters, 5*time.Second
					cfg.MakeSink = func(context.Context, int, bool) (Sink, error) {
						s := &fakeSink{}
						s.put = func(ctx context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
							if n := puts.Add(1); time.Now().Before(up) && !slices.Contains(works, n) {
								return outages[name](ctx, s, r)
							}
							time.Sleep(100 * time.Millisecond)
							acceptAll(r)
							return nil
						}
						return s, nil
					}
					if _, err := runFor(t, cfg, 3*time.Hour); err != nil {
						t.Fatal(err)
					}
					if got := src.verdicts(); got[Accept] != 50 || len(letters.offsets()) > 0 {
						t.Errorf("%s, ordered=%t, puts %v succeed: got %v and letters %v, want 50 accepted", name, ordered, works, got, letters.offsets())
					}
				})
			}
		}
	}
}

func TestAThrottledProbeWaitsAsItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, calm := newFakeSource(20, 30*time.Second), time.Now().Add(30*time.Second)
		var puts atomic.Int64
		sink := &fakeSink{put: func(_ context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
			time.Sleep(time.Millisecond)
			if time.Now().Before(calm) {
				puts.Add(1)
				for i := range r {
					r[i] = pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Throttled, Code: "429", RetryAfter: 10 * time.Second})
				}
				return nil
			}
			acceptAll(r)
			return nil
		}}
		if _, err := runFor(t, testConfig(src, sink), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 20 || puts.Load() > 3 {
			t.Errorf("got %v, and %d puts in the 30 s of 429 with retry_after 10 s, want 3", got, puts.Load())
		}
	})
}

// TestAStartThatHangsIsAnOutage, not the end of the task: the sinks are made
// again once the target answers.
func TestAStartThatHangsIsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, letters, start := newFakeSource(100, 15*time.Second), &fakeLetters{}, time.Now()
		away := func() bool { d := time.Since(start); return d > time.Second && d < 10*time.Minute }
		cfg := testConfig(src, nil)
		cfg.PutTimeout, cfg.StartTimeout, cfg.Parallelism, cfg.Letters = 5*time.Second, 10*time.Second, 2, letters
		cfg.MakeSink = func(ctx context.Context, _ int, _ bool) (Sink, error) {
			if away() { // As Start does that connects.
				<-ctx.Done()
				return nil, ctx.Err()
			}
			s := &fakeSink{}
			s.put = func(ctx context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
				if away() {
					return hang(ctx, s)
				}
				time.Sleep(300 * time.Millisecond)
				acceptAll(r)
				return nil
			}
			return s, nil
		}
		if _, err := runFor(t, cfg, 15*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 100 || len(letters.offsets()) > 0 {
			t.Errorf("got %v and letters %v, want 100 accepted", got, letters.offsets())
		}
	})
}

// TestAnOnlyDeliveryIsNotGivenBack: where a record is put once there is no
// second one.
func TestAnOnlyDeliveryIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, letters, start := newFakeSource(100, 15*time.Second), &fakeLetters{}, time.Now()
		sink := &fakeSink{put: func(context.Context, []pluginapi.Record, []pluginapi.Result) error {
			return pluginapi.NewError(pluginapi.Unavailable, "", "refused")
		}}
		away := sink.put
		sink.put = func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			if d := time.Since(start); d > time.Second && d < 10*time.Minute {
				return away(ctx, b, r)
			}
			time.Sleep(200 * time.Millisecond)
			acceptAll(r)
			return nil
		}
		cfg := testConfig(src, sink)
		cfg.Letters, cfg.HoldTimeout, cfg.MaxDeliveryCount = letters, 2*time.Minute, 1
		if _, err := runFor(t, cfg, 20*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 100 || len(letters.offsets()) > 0 || len(src.count) > 0 {
			t.Errorf("got %v, letters %v and delivery counts %v, want 100 accepted at the first", got, letters.offsets(), src.count)
		}
	})
}

// TestFilteredRecordsEndTheSlowStart: the target is asked nothing, so nothing
// speaks against it.
func TestFilteredRecordsEndTheSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(100_000, 30*time.Second)
		cfg := testConfig(src, &fakeSink{})
		cfg.Convert = convertFunc(func(_, _ *pluginapi.Record) (bool, error) {
			time.Sleep(time.Millisecond)
			return false, nil
		})
		cfg.Parallelism, cfg.MaxOpenRecords = 8, 400
		if _, err := runFor(t, cfg, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts()[Accept]; got < 70_000 {
			t.Errorf("%d records in 10 s, want what 8 writers at 1 ms each can do, 80,000", got)
		}
	})
}

func TestTooManyConversionErrorsNameTheirCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(newFakeSource(5000, 30*time.Second), &fakeSink{})
		cfg.Convert = convertFunc(func(_, _ *pluginapi.Record) (bool, error) { return false, errors.New("not JSON") })
		cfg.Letters, cfg.MaxRejectRatio = &fakeLetters{}, 0.5
		_, err := runFor(t, cfg, time.Minute)
		var failed *FailedError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), "not JSON") {
			t.Errorf("got error %v, want FAILED with what the converter said", err)
		}
	})
}
