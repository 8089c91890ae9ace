package sharetask

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// parkedSchedule is a task with parking in which record 5 is of the given kind.
func parkedSchedule(kind string) schedule {
	return schedule{
		Checks: true, Writers: 2, Batch: 10, Max: 5, Elapsed: 5 * time.Minute, Takes: 3 * time.Second, // So that others are put for a while.
		Kinds: map[int64]string{5: kind}, Counts: map[int64]int16{}, Parks: true, ParkAfter: 2 * time.Second, Calm: time.Second,
	}
}

func playParked(t *testing.T, s schedule) *chaos {
	t.Helper()
	c := newChaos(s)
	playToTheEnd(t, c)
	return c
}

// playToTheEnd plays the schedule; the first faults are enough to read.
func playToTheEnd(t *testing.T, c *chaos) {
	t.Helper()
	if _, err := c.play(t.Context()); err != nil {
		t.Error(err)
	}
	for _, f := range c.faults[:min(len(c.faults), 3)] {
		t.Errorf("of %d faults: %s", len(c.faults), f)
	}
}

// TestALateRecordWaitsElsewhere: what waits for longer than ParkAfter leaves its
// partition by then, is put with the coordinates it had, and is given up on as
// it would have been in place.
func TestALateRecordWaitsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := playParked(t, parkedSchedule("transient"))
		f := c.fates[0][5]
		if f.parked == 0 || f.letter == nil {
			t.Fatalf("parked %d times, dead letter %v: %q", f.parked, f.letter, f.story)
		}
		if r := f.letter.Record; r.Topic != orders.Topic || r.Partition != 0 || r.Offset != 5 || f.letter.Message != "later" {
			t.Errorf("dead letter of %s-%d@%d: %s", r.Topic, r.Partition, r.Offset, f.letter.Message)
		}
		for _, x := range c.parked {
			if o := x.origin; o.Topic != orders.Topic || o.Offset != 5 || o.Attempts < 2 || !o.Since.Before(o.Due) || o.Spent <= 0 {
				t.Errorf("parked with origin %+v", o)
			}
		}
		if first := c.parked[0].origin; first.Due.Sub(first.Since) < 2*time.Second {
			t.Errorf("parked to be put %v after its first failure, want no less than 2s", first.Due.Sub(first.Since))
		}
		if last := c.parked[len(c.parked)-1].origin; last.Spent < 3*time.Minute || last.Spent > 7*time.Minute {
			t.Errorf("%v were spent when it was parked last, max_elapsed is 5m", last.Spent)
		}
	})
}

// TestARecordThatCannotBeParkedWaitsInPlace.
func TestARecordThatCannotBeParkedWaitsInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parkedSchedule("some")
		s.ParkAfter = 0
		s.NoLetters = []window{{Kind: "refused", To: time.Hour}}
		c := playParked(t, s)
		if f := c.fates[0][5]; !f.written || f.parked > 0 {
			t.Errorf("written %t, parked %d times: %q", f.written, f.parked, f.story)
		}
	})
}

// TestNothingIsParkedInAnOutage: records would only move from one topic to
// another.
func TestNothingIsParkedInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parkedSchedule("")
		s.Down = []window{{Kind: "transient", From: 10 * time.Second, To: 10 * time.Minute}}
		s.Calm = 11 * time.Minute
		if c := playParked(t, s); len(c.parked) > 0 {
			t.Errorf("%d records were parked: %q", len(c.parked), c.parked[0].of.story)
		}
	})
}

// TestAWindowIsFullWhateverIsParked: that nothing more comes of the connector's
// topics until something of them is decided still holds when something of the
// retry topic is. Else the last two records here, with nothing to compare them
// with, would be held for ever.
func TestAWindowIsFullWhateverIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parkedSchedule("")
		s.Kinds = map[int64]string{2: "transient", 1002: "transient"}
		s.Takes, s.Window, s.ParkAfter = 10*time.Millisecond, 20, 10*time.Second
		c := newChaos(s)
		c.park(parkedCopy{3 * time.Second, 1}, 30)
		go func() {
			time.Sleep(2 * time.Minute)
			c.mu.Lock()
			defer c.mu.Unlock()
			if f := c.fates[0][2]; f.ended == 0 {
				t.Errorf("the window is full behind it: %q", f.story)
			}
		}()
		playToTheEnd(t, c)
	})
}

// TestAWindowStuckFromTheStart: a task that begins behind full windows, and gets
// nothing but the records they are full behind, has nothing to compare those
// with. They wait elsewhere, so that others come.
func TestAWindowStuckFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parkedSchedule("")
		s.Kinds = map[int64]string{0: "transient", 1000: "transient"}
		s.Takes, s.Window, s.Calm = 10*time.Millisecond, 20, 30*time.Minute
		c := newChaos(s)
		for p := range c.fates {
			for _, f := range c.fates[p][1:20] {
				f.written, f.ended = true, Accept // By another worker.
			}
		}
		playToTheEnd(t, c)
		for p := range c.fates {
			if f := c.fates[p][0]; f.parked == 0 || f.letter == nil {
				t.Errorf("the first record of partition %d was parked %d times, dead letter %v: %q", p, f.parked, f.letter, f.story)
			}
		}
	})
}

// puts returns what the story of a record of the first partition says of its puts.
func (c *chaos) puts(offset int64) (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.fates[0][offset].story {
		if strings.Contains(line, " put, ") {
			out = append(out, line)
		}
	}
	return out
}

// TestParkedRecordsAloneAreReadOnTime: a worker that finds nothing but parked
// records puts none before it is due, and none late because of one that is not.
func TestParkedRecordsAloneAreReadOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parkedSchedule("")
		s.Takes, s.Frozen = 10*time.Millisecond, []window{{Kind: "main", To: time.Hour}}
		s.Calm = 20 * time.Minute
		c := newChaos(s)
		c.park(parkedCopy{10 * time.Minute, 1}, 1, 2, 3)
		c.park(parkedCopy{2 * time.Second, 1}, 4)
		c.park(parkedCopy{time.Minute, 1}, 5)
		if _, err := c.play(t.Context()); err != nil {
			t.Error(err)
		}
		for offset, due := range map[int64]time.Duration{1: 10 * time.Minute, 2: 10 * time.Minute, 3: 10 * time.Minute, 4: 2 * time.Second, 5: time.Minute} {
			puts := c.puts(offset)
			var at time.Duration
			if len(puts) > 0 {
				at, _ = time.ParseDuration(strings.Fields(puts[0])[0])
			}
			if at < due || at > due+3*time.Second {
				t.Errorf("the copy of record %d, due after %v, was put %q", offset, due, puts)
			}
		}
	})
}

// TestDeliveriesBeforeARecordIsDueDoNotCount: a worker that dies, and dies again,
// holds what is parked each time and puts none of it.
func TestDeliveriesBeforeARecordIsDueDoNotCount(t *testing.T) {
	for _, refused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := parkedSchedule("")
			s.Takes = 10 * time.Millisecond
			if refused {
				s.NoLetters = []window{{Kind: "refused", To: 4 * time.Minute}}
			}
			c := newChaos(s)
			for o := range int64(4) {
				c.park(parkedCopy{5 * time.Minute, 4 + int16(o)}, 5+o)
			}
			if _, err := c.play(t.Context()); err != nil {
				t.Error(err)
			}
			for o := range int64(4) {
				f := c.fates[0][5+o]
				if puts := c.puts(5 + o); f.letter != nil || !f.written || len(puts) != 1 || !strings.HasPrefix(puts[0], "5m") {
					t.Errorf("record %d: %q", 5+o, f.story)
				}
				if want := map[bool]int{true: 1, false: 2}[refused]; f.parked != want {
					t.Errorf("record %d was parked %d times, want %d: %q", 5+o, f.parked, want, f.story)
				}
			}
		})
	}
}

// TestALastChanceThatCannotBeParkedStaysAlone.
func TestALastChanceThatCannotBeParkedStaysAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parkedSchedule("some")
		s.ParkAfter, s.Takes, s.Counts = 0, 200*time.Millisecond, map[int64]int16{5: 4}
		for o := int64(10); o < 40; o++ {
			s.Kinds[o] = "some"
		}
		s.NoLetters = []window{{Kind: "refused", To: 5 * time.Minute}}
		c := playParked(t, s)
		if puts := c.puts(5); len(puts) != 4 || slices.ContainsFunc(puts, func(p string) bool { return !strings.HasSuffix(p, "one of 1") }) {
			t.Errorf("put %q, want four times and alone", c.fates[0][5].story)
		}
	})
}
