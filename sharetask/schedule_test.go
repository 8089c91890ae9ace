package sharetask

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// window is a time in which the target does not take records.
type window struct {
	Kind     string
	From, To time.Duration
	Seen     bool // A Check fails meanwhile.
}

// schedule is what happens to a task until calm, when all is well.
type schedule struct {
	Ordered, Checks, Implicit   bool
	Writers, Batch, Max         int
	Hold, Elapsed, Takes, Delay time.Duration // Delay is how long a decision takes to the broker.
	Down                        []window      // Of the target.
	NoLetters                   []window      // Of the dead letter queue.
	Pauses                      []window
	Frozen                      []window // The source brings nothing, or nothing of the connector's topics.
	Losses                      []loss
	Kinds                       map[int64]string // Of records, by partition*1000+offset; else good.
	Counts                      map[int64]int16  // Delivery counts they come with.
	Calm                        time.Duration
	Parks                       bool
	ParkAfter                   time.Duration
	Copies                      map[int64]parkedCopy // Records that another worker parked, by offset in the first partition.
	Window                      int64                // Records of a partition from the first undecided; 0 is no bound. Not drawn.
}

// parkedCopy is what the retry topic has of a record at the start.
type parkedCopy struct {
	Due   time.Duration
	Count int16
}

// loss is locks that are lost: of those held, every one of n.
type loss struct {
	At, Back time.Duration // Back is how long until they are delivered again.
	One, Of  int64
}

const (
	chaosPartitions = 2
	chaosRecords    = 60 // Of each partition, before the trickle.
	chaosLock       = 15 * time.Second
	chaosLimit      = 10 // The broker's, of deliveries.
)

// drawWindows draws up to n windows in order, apart by what gap says.
func drawWindows(t *rapid.T, name string, n int, kinds []string, longest, gap int) []window {
	var out []window
	at := 0
	for range rapid.IntRange(0, n).Draw(t, name) {
		w := window{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Seen: rapid.Bool().Draw(t, "seen")}
		at += rapid.IntRange(gap, gap+200).Draw(t, "after")
		w.From = time.Duration(at)*time.Second + time.Duration(rapid.IntRange(0, 999).Draw(t, "ms"))*time.Millisecond
		at += rapid.IntRange(1, longest).Draw(t, "lasts")
		w.To = time.Duration(at) * time.Second
		if w.To > w.From {
			out = append(out, w)
		}
	}
	return out
}

func drawSchedule(t *rapid.T, ordered bool) schedule {
	s := schedule{
		Ordered: ordered, Checks: rapid.Bool().Draw(t, "checks"),
		Writers: rapid.IntRange(1, 3).Draw(t, "writers"), Batch: rapid.IntRange(1, 20).Draw(t, "batch"),
		Max:     rapid.SampledFrom([]int{5, 1, 3, 0}).Draw(t, "max_delivery_count"),
		Hold:    rapid.SampledFrom([]time.Duration{0, time.Minute, 2 * time.Minute}).Draw(t, "hold"),
		Elapsed: rapid.SampledFrom([]time.Duration{5 * time.Minute, 3 * time.Minute}).Draw(t, "max_elapsed"),
		Takes:   rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 1500 * time.Millisecond}).Draw(t, "put takes"),
		Kinds:   map[int64]string{}, Counts: map[int64]int16{},
	}
	// Whoever fails a second time in a window, having had no chance between the
	// two, is told from a bad record by nothing: windows are further apart than
	// the longest backoff, and there are fewer than isolate.attempts of them.
	if rapid.Bool().Draw(t, "target says so") {
		s.Down = drawWindows(t, "windows", 5, []string{"unavailable", "throttled", "start"}, 400, 1)
	} else {
		s.Down = drawWindows(t, "windows", 2, []string{"crash", "hang", "silent", "transient"}, 900, 130)
	}
	if len(s.Down) > 0 && rapid.Bool().Draw(t, "from the start") {
		s.Down[0].From = 0
	}
	s.NoLetters = drawWindows(t, "no letters", 2, []string{"refused", "hung"}, 300, 1)
	kinds := []string{"reject", "some", "filtered", "garbled"}
	if !ordered {
		for range 2 { // Few that never succeed: one record more to compare with comes only every max_elapsed.
			id := rapid.Int64Range(0, chaosRecords-1).Draw(t, "offset") + 1000*rapid.Int64Range(0, chaosPartitions-1).Draw(t, "partition")
			s.Kinds[id] = rapid.SampledFrom([]string{"", "kill", "hang", "transient"}).Draw(t, "bad")
		}
	} else if s.Checks { // A partition that is blocked may leave no room for another to compare with.
		kinds = append(kinds, "kill")
	}
	for range rapid.IntRange(0, 8).Draw(t, "special records") {
		id := rapid.Int64Range(0, chaosRecords-1).Draw(t, "offset")
		if p := rapid.Int64Range(0, chaosPartitions-1).Draw(t, "partition"); !ordered {
			id += 1000 * p // In order, what blocks one partition is compared with the other.
		}
		s.Kinds[id] = rapid.SampledFrom(kinds).Draw(t, "kind")
	}
	s.Frozen = drawWindows(t, "frozen", 2, []string{"frozen", "main"}, 100, 1)
	s.Pauses = drawWindows(t, "pauses", 2, []string{"pause"}, 100, 1)
	if !ordered {
		s.Parks = rapid.Bool().Draw(t, "parks")
		s.ParkAfter = rapid.SampledFrom([]time.Duration{0, 2 * time.Second, 30 * time.Second}).Draw(t, "park_after")
		for s.Copies = map[int64]parkedCopy{}; s.Parks && len(s.Copies) < 4 && rapid.Bool().Draw(t, "copy"); {
			s.Copies[rapid.Int64Range(0, chaosRecords-1).Draw(t, "offset")] = parkedCopy{
				Due: time.Duration(rapid.IntRange(-1, 900).Draw(t, "due")) * time.Second, Count: rapid.Int16Range(1, 7).Draw(t, "count"),
			}
		}
		s.Implicit = rapid.Bool().Draw(t, "implicit")
		s.Delay = rapid.SampledFrom([]time.Duration{0, 20 * time.Millisecond, time.Second}).Draw(t, "delay")
		for range rapid.IntRange(0, 12).Draw(t, "losses") {
			s.Losses = append(s.Losses, loss{
				At:   time.Duration(rapid.IntRange(1, 900_000).Draw(t, "at")) * time.Millisecond,
				Back: time.Duration(rapid.IntRange(1001, 20_000).Draw(t, "back")) * time.Millisecond,
				Of:   rapid.Int64Range(1, 5).Draw(t, "of"),
			})
		}
		for range rapid.IntRange(0, 10).Draw(t, "redelivered") {
			id := rapid.Int64Range(0, chaosRecords-1).Draw(t, "offset") + 1000*rapid.Int64Range(0, chaosPartitions-1).Draw(t, "partition")
			s.Counts[id] = rapid.Int16Range(2, 6).Draw(t, "count")
		}
	}
	for _, ws := range [][]window{s.Down, s.NoLetters, s.Frozen, s.Pauses} {
		for _, w := range ws {
			s.Calm = max(s.Calm, w.To)
		}
	}
	for _, l := range s.Losses {
		s.Calm = max(s.Calm, l.At)
	}
	s.Calm += time.Second
	return s
}

// in returns the window at is in, if any.
func in(ws []window, at time.Duration) *window {
	for i := range ws {
		if at >= ws[i].From && at < ws[i].To {
			return &ws[i]
		}
	}
	return nil
}

// play runs a task through the schedule and the calm after it.
func (c *chaos) play(ctx context.Context) (*Task, error) {
	cfg := testConfig(c, nil)
	cfg.MakeSink, cfg.Letters, cfg.Convert = c.makeSink, c, c
	cfg.Ordered, cfg.CanCheck, cfg.Parallelism, cfg.Batch.MaxRecords = c.Ordered, c.Checks, c.Writers, c.Batch
	cfg.Implicit = c.Implicit
	cfg.MaxDeliveryCount, cfg.HoldTimeout, cfg.Retry.MaxElapsed = c.Max, c.Hold, c.Elapsed
	cfg.PutTimeout, cfg.StartTimeout, cfg.MaxOpenRecords = 5*time.Second, 5*time.Second, max(40, c.Batch*c.Writers)
	cfg.DeliveryLimit = chaosLimit
	if c.Ordered {
		cfg.MaxDeliveryCount, cfg.DeliveryLimit = 0, 0
	}
	if c.Parks {
		cfg.Parking, cfg.ParkAfter = c, c.ParkAfter
	}
	count := &rounds{most: 50_000}
	cfg.Metrics = count
	task, err := New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- task.Run(ctx) }()
	for _, l := range c.Losses {
		go func() { time.Sleep(l.At); c.lose(l) }()
	}
	go func() {
		for _, w := range c.Pauses {
			time.Sleep(w.From - c.at())
			task.Pause()
			time.Sleep(w.To - c.at())
			task.Resume()
		}
	}()
	time.Sleep(c.Calm)
	for range 300 {
		time.Sleep(10 * time.Second)
		c.mu.Lock()
		c.grow()
		c.mu.Unlock()
		c.wake()
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	c.judge(task, count)
	cancel()
	return task, <-done
}

// judge looks at what became of all.
func (c *chaos) judge(task *Task, count *rounds) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.fates {
		for o, f := range c.fates[p] {
			if id := int64(1000*p + o); f.ended != Accept {
				c.fault(f, id, "did not end: "+task.Status().Degraded)
			} else if !f.written && f.letter == nil && c.Kinds[id] != "filtered" {
				c.fault(f, id, "is lost")
			}
		}
	}
	for _, f := range c.parked {
		if f.ended != Accept {
			c.fault(f.of, 1000*int64(f.origin.Partition)+f.origin.Offset, "its copy did not end: "+task.Status().Degraded)
		}
	}
	if l := task.ledger; (l.parked != 0 || l.parkedSize != 0) && len(c.faults) == 0 {
		c.faults = append(c.faults, fmt.Sprintf("the task keeps %d parked records and %d bytes", l.parked, l.parkedSize))
	}
	if l := task.ledger; (l.records != 0 || l.bytes != 0) && len(c.faults) == 0 {
		c.faults = append(c.faults, fmt.Sprintf("the task keeps %d records and %d bytes", l.records, l.bytes))
	}
	if n := count.n.Load(); n > count.most {
		c.faults = append(c.faults, fmt.Sprintf("%d rounds of the loop", n))
	}
}

// TestWhateverHappensEveryRecordEndsOnce: once all is well again, each is written
// or in the dead letter queue, and only a bad one is there.
func TestWhateverHappensEveryRecordEndsOnce(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("ordered=%t", ordered), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				s := drawSchedule(rt, ordered)
				var faults []string
				synctest.Test(t, func(t *testing.T) {
					c := newChaos(s)
					if _, err := c.play(t.Context()); err != nil {
						c.faults = append(c.faults, err.Error())
					}
					faults = slices.Clone(c.faults)
				})
				if len(faults) > 0 {
					rt.Fatalf("%d faults, the first: %s\nof %+v", len(faults), faults[0], s)
				}
			})
		})
	}
}
