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

// TestATransientOutageUsesUpNoRetries: not if a put that was under way succeeds
// after others failed, and not if the target comes back by and by.
func TestATransientOutageUsesUpNoRetries(t *testing.T) {
	for name, c := range map[string]struct {
		up, warm time.Duration // From then on every second put succeeds, and from then on all do.
		slow     int           // Which put takes five seconds more.
	}{
		"last put":         {up: 60 * time.Minute, warm: 60 * time.Minute, slow: 12},
		"several in turn":  {up: 60 * time.Minute, warm: 60 * time.Minute},
		"comes by and by":  {up: 10 * time.Minute, warm: 12 * time.Minute},
		"slow, by and by ": {up: 10 * time.Minute, warm: 12 * time.Minute, slow: 12},
	} {
		for _, records := range []int64{141, 400} {
			synctest.Test(t, func(t *testing.T) {
				src, letters, start := newFakeSource(records, 15*time.Second), &fakeLetters{}, time.Now()
				var puts atomic.Int64
				sink := &fakeSink{put: func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
					n, at := puts.Add(1), time.Since(start)
					if at >= 5*time.Second && at < c.up || at >= c.up && at < c.warm && n%2 == 0 {
						time.Sleep(50 * time.Millisecond)
						return outages["transient"](ctx, nil, r)
					}
					if n == int64(c.slow) {
						time.Sleep(5 * time.Second)
					}
					time.Sleep(time.Second + time.Duration(b[0].Offset%7)*100*time.Millisecond)
					acceptAll(r)
					return nil
				}}
				cfg := testConfig(src, sink)
				cfg.Letters, cfg.Parallelism = letters, 3
				if _, err := runFor(t, cfg, 90*time.Minute); err != nil {
					t.Fatal(err)
				}
				if got := src.verdicts(); got[Accept] != int(records) || len(letters.offsets()) > 0 {
					t.Errorf("%s: got %v and letters %v, want %d accepted", name, got, letters.offsets(), records)
				}
			})
		}
	}
}

// TestFewRetriesAreNotTooMany, however long a record waited for something else:
// for a record before it that is throttled, after a crash, or throttled itself.
func TestFewRetriesAreNotTooMany(t *testing.T) {
	for _, name := range []string{"throttled", "crashes", "itself"} {
		synctest.Test(t, func(t *testing.T) {
			src, letters, up := newFakeSource(1030, 0), &fakeLetters{}, time.Now().Add(15*time.Minute)
			if name == "itself" {
				src = newFakeSource(30, 15*time.Second)
				go src.grow(1000)
			}
			var tries atomic.Int64 // Of record 5.
			cfg := testConfig(src, nil)
			cfg.Ordered, cfg.Letters = src.lock == 0, letters
			cfg.MakeSink = func(context.Context, int, bool) (Sink, error) {
				s := &fakeSink{}
				s.put = func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
					time.Sleep(10 * time.Millisecond)
					if time.Now().Before(up) && name == "crashes" {
						return outages["crashes"](ctx, s, r)
					}
					acceptAll(r)
					for i := range b {
						switch o := b[i].Offset; {
						case (o == 1 || o == 5 && name == "itself") && time.Now().Before(up):
							r[i] = pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Throttled, RetryAfter: 5 * time.Second})
						case o == 5 && tries.Add(1) <= 3:
							r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "", "later"))
						}
					}
					return nil
				}
				return s, nil
			}
			if _, err := runFor(t, cfg, time.Hour); err != nil {
				t.Fatal(err)
			}
			if got := src.verdicts(); got[Accept] != 1030 || len(letters.offsets()) > 0 {
				t.Errorf("%s: got %v and letters %v, want 1030 accepted", name, got, letters.offsets())
			}
		})
	}
}

// TestRecordsThatFailAgainAreNoOutage where others succeeded since they failed
// before: with little else to put, they would stop all.
func TestRecordsThatFailAgainAreNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, letters, bad := newFakeSource(30, 15*time.Second), &fakeLetters{}, []int64{5, 10, 15, 20, 25}
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			acceptAll(r)
			if slices.Contains(bad, b[0].Offset) {
				// A wait that is drawn may be over before another has succeeded.
				r[0] = pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Transient, Message: "its account is locked", RetryAfter: 10 * time.Second})
			}
			return nil
		}}
		cfg := testConfig(src, sink)
		downs := &downs{}
		cfg.Letters, cfg.Metrics, cfg.Batch.MaxRecords = letters, downs, 1
		cfg.Retry.Initial, cfg.Retry.Max = 10*time.Second, 10*time.Second
		go src.grow(600)
		if _, err := runFor(t, cfg, 20*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := letters.offsets(); !slices.Equal(got, bad) || src.verdicts()[Accept] != 630 {
			t.Errorf("got letters %v and %v, want %v and 630 accepted", got, src.verdicts(), bad)
		}
		if n := downs.n.Load(); n > 0 {
			t.Errorf("the target was taken to be down %d times", n)
		}
	})
}

// downs counts how often the target is said to be down.
type downs struct {
	noMetrics
	n atomic.Int64
}

func (d *downs) Down(down bool) {
	if down {
		d.n.Add(1)
	}
}

// TestARecordThatFailsDoesNotHoldTheWindowForEver: with the record-lock window full behind it there is nothing more to compare it
// with than what succeeded before.
func TestARecordThatFailsDoesNotHoldTheWindowForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(500, 15*time.Second)
		src.window, src.stalled = 50, true
		letters := &fakeLetters{}
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			time.Sleep(10 * time.Millisecond)
			acceptAll(r)
			for i := range b {
				if b[i].Offset%100 == 7 {
					r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "500", "oops"))
				}
			}
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Letters = letters
		if _, err := runFor(t, cfg, time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := letters.offsets(); !slices.Equal(got, []int64{7, 107, 207, 307, 407}) {
			t.Errorf("got letters %v, want one of each hundred", got)
		}
		if got := src.verdicts(); got[Accept] != 500 {
			t.Errorf("got %v, want 500 accepted", got)
		}
	})
}
