package sharetask

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// TestLastChancesArePutAloneInOrder: one at a time, each confirmed before the
// next, at the last delivery in reverse order, and nothing else meanwhile: a worker
// that one of them kills takes no neighbour along (SHARE-01).
func TestLastChancesArePutAloneInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(300, 30*time.Second)
		for o := range int64(10) {
			src.count[20+o], src.count[60+o] = 4, 5
		}
		var order []int64
		var flying atomic.Int64
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			n := flying.Add(1)
			defer flying.Add(-1)
			if src.count[b[0].Offset] >= 4 {
				order = append(order, b[0].Offset)
				if n > 1 || len(b) > 1 {
					t.Errorf("record %d is put with %d others, and %d other puts", b[0].Offset, len(b)-1, n-1)
				}
				src.mu.Lock()
				for _, o := range order[:len(order)-1] {
					if _, open := src.expires[o]; open {
						t.Errorf("record %d was not confirmed when %d was put", o, b[0].Offset)
					}
				}
				src.mu.Unlock()
			}
			time.Sleep(10 * time.Millisecond)
			acceptAll(r)
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Parallelism, cfg.MaxOpenRecords = 4, 100
		if _, err := runFor(t, cfg, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 300 {
			t.Errorf("got %v, want 300 accepted", got)
		}
		want := []int64{69, 68, 67, 66, 65, 64, 63, 62, 61, 60, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29}
		if !slices.Equal(order, want) {
			t.Errorf("got order %v, want %v", order, want)
		}
	})
}

// TestLastChancesOfAWorkerTakeTurns.
func TestLastChancesOfAWorkerTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := NewTurn()
		var flying atomic.Int64
		done := make(chan error, 3)
		var sources []*fakeSource
		for range 3 {
			src := newFakeSource(20, 30*time.Second)
			for o := range int64(20) {
				src.count[o] = 4
			}
			sources = append(sources, src)
			sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
				if n := flying.Add(1); n > 1 || len(b) != 1 {
					t.Errorf("%d at once", n)
				}
				defer flying.Add(-1)
				time.Sleep(100 * time.Millisecond)
				acceptAll(r)
				return nil
			}}
			cfg := testConfig(src, sink)
			cfg.Turn = turn
			task, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			go func() { done <- task.Run(ctx) }()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		for _, src := range sources {
			if got := src.verdicts(); got[Accept] != 20 {
				t.Errorf("got %v, want 20 accepted", got)
			}
		}
	})
}

// TestALastChanceThatFailsStaysAlone: in an outage it is held, and put alone
// again afterwards; one that is refused is dead-lettered.
func TestALastChanceThatFailsStaysAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(100, 15*time.Second)
		for o := range int64(10) {
			src.count[o] = 4
		}
		letters := &fakeLetters{}
		up := time.Now().Add(10 * time.Minute)
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			if time.Now().Before(up) {
				return pluginapi.NewError(pluginapi.Unavailable, "", "refused")
			}
			if src.count[b[0].Offset] >= 4 && len(b) > 1 {
				t.Errorf("record %d is put with %d others", b[0].Offset, len(b)-1)
			}
			acceptAll(r)
			if b[0].Offset == 3 {
				r[0] = pluginapi.Rejected("", "bad")
			}
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Letters, cfg.HoldTimeout = letters, 2*time.Minute
		if _, err := runFor(t, cfg, 20*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 100 || !slices.Equal(letters.offsets(), []int64{3}) {
			t.Errorf("got %v and letters %v, want 100 accepted and letter 3", got, letters.offsets())
		}
		if src.count[0] > 4 {
			t.Errorf("record 0 was given back: %d deliveries", src.count[0])
		}
	})
}

// TestALastChanceWithoutAResultStaysAlone in the worker, not only in its sink.
func TestALastChanceWithoutAResultStaysAlone(t *testing.T) {
	for _, name := range []string{"hangs", "crashes"} {
		for _, checks := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				src, letters := newFakeSource(6000, 30*time.Second), &fakeLetters{}
				src.count[50] = 4
				var flying, puts atomic.Int64
				cfg := testConfig(src, nil)
				cfg.Parallelism, cfg.PutTimeout, cfg.CanCheck, cfg.Letters = 4, 2*time.Second, checks, letters
				cfg.MakeSink = func(context.Context, int, bool) (Sink, error) {
					s := &fakeSink{}
					s.put = func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
						flying.Add(1)
						defer flying.Add(-1)
						chance := slices.ContainsFunc(b, func(rec pluginapi.Record) bool { return rec.Offset == 50 })
						time.Sleep(20 * time.Millisecond)
						if n := flying.Load(); chance && (n > 1 || len(b) > 1) {
							t.Errorf("%s: the last chance is put with %d others, and %d other puts", name, len(b)-1, n-1)
						}
						if !chance {
							time.Sleep(20 * time.Millisecond)
						}
						if chance && puts.Add(1) < 3 {
							return outages[name](ctx, s, r)
						}
						acceptAll(r)
						return nil
					}
					return s, nil
				}
				if _, err := runFor(t, cfg, 5*time.Minute); err != nil {
					t.Fatal(err)
				}
				if got := src.verdicts(); got[Accept] != 6000 || puts.Load() != 3 || len(letters.offsets()) > 0 {
					t.Errorf("%s: got %v, letters %v and %d puts of the last chance, want 6000 accepted with 3", name, got, letters.offsets(), puts.Load())
				}
			})
		}
	}
}

// TestTheTurnIsGivenBackHoweverATaskEnds.
func TestTheTurnIsGivenBackHoweverATaskEnds(t *testing.T) {
	for _, ends := range []bool{false, true} { // The source, or the task by a stop.
		synctest.Test(t, func(t *testing.T) {
			turn, src := NewTurn(), newFakeSource(1, 30*time.Second)
			src.count[0] = 4
			cfg := testConfig(src, &fakeSink{put: func(_ context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
				time.Sleep(2 * time.Second)
				r[0] = pluginapi.Rejected("", "bad")
				return nil
			}})
			cfg.Turn, cfg.Letters = turn, &fakeLetters{refuse: 1 << 30}
			if ends {
				cfg.Source = newEndingSource(src, 1500*time.Millisecond) // In the put.
			}
			if _, err := runFor(t, cfg, 100*time.Second); (err != nil) != ends {
				t.Errorf("got error %v", err)
			}
			if !turn.place().take() {
				t.Errorf("source ends=%t: the turn is still taken", ends)
			}
		})
	}
}

// TestOthersGoOnWhileATaskHasTheTurn, or waits for its dead letter, and theirs
// comes before it is through with all it has.
func TestOthersGoOnWhileATaskHasTheTurn(t *testing.T) {
	for _, rejects := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			turn := NewTurn()
			config := func(records int64, chances func(o int64) bool, put func([]pluginapi.Result)) (Config, *fakeSource) {
				src := newFakeSource(records, 30*time.Second)
				for o := range records {
					if chances(o) {
						src.count[o] = 4
					}
				}
				cfg := testConfig(src, &fakeSink{put: func(_ context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
					time.Sleep(30 * time.Millisecond)
					put(r)
					return nil
				}})
				cfg.Turn, cfg.Letters = turn, &fakeLetters{refuse: 1 << 30}
				return cfg, src
			}
			a, _ := config(2000, func(int64) bool { return true }, func(r []pluginapi.Result) {
				acceptAll(r)
				if rejects {
					r[0] = pluginapi.Rejected("", "bad")
				}
			})
			a.MaxOpenRecords = 2000
			b, src := config(3000, func(o int64) bool { return o == 500 }, acceptAll)
			task, err := New(a)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- task.Run(ctx) }()
			if _, err := runFor(t, b, 15*time.Second); err != nil {
				t.Fatal(err)
			}
			if got := src.verdicts()[Accept]; got != 3000 {
				t.Errorf("rejects=%t: %d of the other's 3000 records are written after 15 s", rejects, got)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAHeldLastChanceIsPutWhenTheTargetIsBack, where nothing else is held to
// probe with.
func TestAHeldLastChanceIsPutWhenTheTargetIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, start := newFakeSource(1, 10*time.Minute), time.Now()
		src.count[0] = 4
		var last time.Duration
		cfg := testConfig(src, &fakeSink{put: func(_ context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
			if last = time.Since(start); last < 2*time.Second {
				return pluginapi.NewError(pluginapi.Unavailable, "", "refused")
			}
			acceptAll(r)
			return nil
		}})
		cfg.Retry.Max, cfg.Breaker.Max = time.Second, 200*time.Millisecond
		if _, err := runFor(t, cfg, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts()[Accept]; got != 1 || last > 4*time.Second {
			t.Errorf("%d accepted, put last at %v, want soon after 2s", got, last)
		}
	})
}

// TestOthersAreProbedWhereLastChancesFail: of those that always fail no probe
// succeeds.
func TestOthersAreProbedWhereLastChancesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, letters, start := newFakeSource(50, 15*time.Second), &fakeLetters{}, time.Now()
		for o := range int64(4) {
			src.count[o] = 4
		}
		var first time.Duration
		cfg := testConfig(src, nil)
		cfg.Letters, cfg.PutTimeout, cfg.Retry.MaxElapsed = letters, 5*time.Second, time.Minute
		cfg.MakeSink = func(context.Context, int, bool) (Sink, error) {
			s := &fakeSink{}
			s.put = func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
				if b[0].Offset < 4 {
					return hang(ctx, s)
				}
				if first == 0 {
					first = time.Since(start)
				}
				acceptAll(r)
				return nil
			}
			return s, nil
		}
		go src.grow(1000)
		if _, err := runFor(t, cfg, 40*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := letters.offsets(); !slices.Equal(got, []int64{0, 1, 2, 3}) || src.verdicts()[Accept] != 1050 || first > 10*time.Minute {
			t.Errorf("got letters %v and %v, the first other after %v; want the four, 1050 accepted, and soon", got, src.verdicts(), first)
		}
	})
}
