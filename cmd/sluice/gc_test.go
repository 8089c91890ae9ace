package main

import (
	"runtime"
	"testing"
	"time"
)

func TestGCPercentFor(t *testing.T) {
	for _, tt := range []struct {
		live uint64
		want int
	}{
		{0, gcMost},
		{1 << 20, gcMost},
		{8 << 20, 200},
		{16 << 20, gcPercent},
		{1 << 40, gcPercent},
	} {
		if got := gcPercentFor(tt.live); got != tt.want {
			t.Errorf("%d bytes live: got %d, want %d", tt.live, got, tt.want)
		}
	}
}

func TestAfterEachGC(t *testing.T) {
	came := make(chan uint64, 1)
	afterEachGC(func() {
		select {
		case came <- liveHeap():
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
