package sharetask

import (
	"slices"
	"testing"
	"time"
)

func TestCautionHalvesWithEachLossAndComesBack(t *testing.T) {
	c := caution{least: 500, most: 6000}
	now := time.Unix(1000, 0)
	if got := c.bound(now); got != 6000 {
		t.Errorf("before any loss %d, want 6000", got)
	}
	var bounds []int
	for range 6 {
		now = now.Add(time.Second)
		c.lost(6000, now)
		c.lost(6000, now.Add(100*time.Millisecond)) // Of the same broker.
		bounds = append(bounds, c.bound(now))
	}
	if want := []int{3000, 1500, 750, 500, 500, 500}; !slices.Equal(bounds, want) {
		t.Errorf("got %v, want %v", bounds, want)
	}
	bounds = nil
	for range 5 {
		now = now.Add(regainTime)
		bounds = append(bounds, c.bound(now))
	}
	if want := []int{1000, 2000, 4000, 6000, 6000}; !slices.Equal(bounds, want) {
		t.Errorf("got %v, want %v", bounds, want)
	}
	c.lost(6000, now.Add(time.Hour))
	if got := c.bound(now.Add(time.Hour)); got != 3000 {
		t.Errorf("after another loss %d, want 3000", got)
	}
	c.lost(1400, now.Add(2*time.Hour))
	if got := c.bound(now.Add(2 * time.Hour)); got != 700 {
		t.Errorf("after a loss of 1400 records %d, want 700", got)
	}
	small := caution{least: 500, most: 40}
	small.lost(40, now)
	if got := small.bound(now); got != 40 {
		t.Errorf("got %d, want no less than 40", got)
	}
}
