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
// next, at the last delivery in reverse order, and nothing else meanwhile.
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
