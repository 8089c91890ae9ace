package main

import (
	"runtime"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	const ms, mib = time.Millisecond, 1 << 20
	for _, tt := range []struct {
		took            time.Duration
		allocated, live uint64
		want            int
	}{
		{10 * time.Second, mib, 0, gcPercentMost},     // A heap of nothing.
		{10 * time.Second, 4 * mib, 40 * mib, 10},     // Idle: 4 MiB.
		{50 * ms, 5 * mib, 40 * mib, 25},              // Twice what came in half the interval.
		{200 * ms, 16 * mib, 40 * mib, 20},            // Half of what came in twice the interval.
		{50 * ms, 100 * mib, 8 * mib, 200},            // 16 MiB at most,
		{50 * ms, 100 * mib, 40 * mib, 100},           // or as much as there is.
		{0, 100 * mib, 40 * mib, 100},                 // A clock that stands still.
		{time.Second, 1 << 50, 1 << 40, 100},          // More than any machine has.
		{100 * ms, 20 * mib, 1 << 40, gcPercentLeast}, // The same, but for garbage.
	} {
		last := heap{at: time.Unix(1000, 0), allocated: 7}
		now := heap{at: last.at.Add(tt.took), allocated: 7 + tt.allocated, live: tt.live}
		if got := now.percent(now.growth(last)); got != tt.want {
			t.Errorf("%d bytes in %s, %d in use: got %d %%, want %d", tt.allocated, tt.took, tt.live, got, tt.want)
		}
	}
}

func TestAfterEachGC(t *testing.T) {
	came := make(chan uint64, 1)
	afterEachGC(func() {
		select {
		case came <- readHeap().live:
		default: // It goes on when the test is over, and must not keep other cleanups waiting.
		}
	})
	end := time.After(time.Minute)
	for range 3 {
		for seen := false; !seen; {
			runtime.GC() // What is to be noticed may have been made after one began.
			select {
			case live := <-came:
				if seen = true; live == 0 {
					t.Error("nothing is in use")
				}
			case <-end:
				t.Fatal("collections went unnoticed")
			default:
				runtime.Gosched()
			}
		}
	}
}
