package sharetask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

var orders = TopicPartition{Topic: "orders", Partition: 0}

// Tests of tasks run in a bubble (testing/synctest): time.Sleep in them, in the
// fakes too, is a step of its clock and waits for nothing.

// fakeSource is a broker with one partition: it hands out records while there
// is room, keeps their locks by the clock, and confirms every decision.
type fakeSource struct {
	lock   time.Duration // Zero: a consumer group.
	mu     sync.Mutex
	kick   chan struct{}
	events chan Event
	quit   chan struct{}
	over   chan struct{}

	next     int64 // Next offset to hand out.
	end      int64
	room     Room
	expires  map[int64]time.Time // Open records.
	count    map[int64]int16     // Delivery count to hand out with, where above 1.
	ended    map[int64]Verdict
	order    []int64 // In which records were decided.
	renewals int
	late     []int64 // Records whose lock ran out.
	queued   []Decision
	refuse   map[int64]bool // Accepts of these are refused, once.
	again    []int64        // Released: to be handed out again first.
	lost     []Range        // Refused in the step.
	window   int64          // From the first record that is handed out; 0 is no bound.
	handed   int64          // Records handed out, each time counted.
	maxOpen  int
	stalled  bool           // Report Stalled after each run.
	broken   map[int64]bool // Records that cannot be read.
	inUse    atomic.Int32   // Runs not freed yet; what is freed is overwritten.
}

func newFakeSource(records int64, lock time.Duration) *fakeSource {
	return &fakeSource{
		lock: lock, end: records, kick: make(chan struct{}, 1), events: make(chan Event, 4),
		quit: make(chan struct{}), over: make(chan struct{}), expires: map[int64]time.Time{},
		ended: map[int64]Verdict{}, count: map[int64]int16{},
	}
}

func (f *fakeSource) Start(context.Context) error { go f.run(); return nil }
func (f *fakeSource) Events() <-chan Event        { return f.events }

func (f *fakeSource) wake() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

func (f *fakeSource) Request(r Room) {
	f.mu.Lock()
	f.room = r
	f.mu.Unlock()
	f.wake()
}

func (f *fakeSource) Decide(d []Decision) {
	f.mu.Lock()
	f.queued = append(f.queued, d...)
	f.mu.Unlock()
	f.wake()
}

func (f *fakeSource) Close(ctx context.Context) error {
	close(f.quit)
	select {
	case <-f.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeSource) run() {
	defer close(f.over)
	defer close(f.events)
	for {
		for _, ev := range f.step() {
			f.events <- ev
		}
		select {
		case <-f.kick:
		case <-f.quit:
			for _, ev := range f.step() {
				f.events <- ev
			}
			return
		}
	}
}

func (f *fakeSource) step() []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	var out []Event
	for _, d := range f.queued {
		ack := &Acknowledged{TopicPartition: d.TopicPartition, Session: d.Session, Verdict: d.Verdict}
		for _, r := range d.Ranges {
			for o := r.First; o <= r.Last; o++ {
				until, open := f.expires[o]
				if f.lock > 0 && (!open || now.After(until)) {
					f.late = append(f.late, o)
					continue
				}
				if d.Verdict == Renew {
					f.renewals++
					f.expires[o] = now.Add(f.lock)
					continue
				}
				delete(f.expires, o)
				if d.Verdict == Accept && f.refuse[o] {
					f.refused(o)
					continue
				}
				if d.Verdict == Release {
					f.count[o] = max(1, f.count[o]) + 1
					f.again = append(f.again, o)
					continue
				}
				f.ended[o] = d.Verdict
				f.order = append(f.order, o)
			}
			ack.Ranges = append(ack.Ranges, r)
		}
		if d.Verdict == Renew {
			ack.LockedUntil, ack.Lock = now.Add(f.lock), f.lock
		}
		if len(f.lost) > 0 {
			ack.Ranges = without(ack.Ranges, f.lost)
			lost := &Lost{TopicPartition: d.TopicPartition, Session: d.Session, Verdict: Accept, Ranges: f.lost, Cause: errors.New("not written")}
			out = append(out, ack, lost)
			f.lost = nil
			continue
		}
		out = append(out, ack)
	}
	decided := len(f.queued) > 0
	f.queued = nil
	slices.Sort(f.again)
	for len(f.again) > 0 && f.room.Records > f.handed {
		o := f.again[0]
		f.again = f.again[1:]
		out = append(out, f.deliver(o, now))
	}
	n := min(f.end-f.next, f.room.Records-f.handed)
	if f.window > 0 {
		for o := range f.expires {
			n = min(n, o+f.window-f.next)
		}
	}
	if n <= 0 {
		if decided && f.stalled && f.window > 0 && len(f.expires) > 0 && f.next < f.end {
			out = append(out, &Stalled{}) // A decision ends it, and it may be so again.
		}
		return out
	}
	ev := &Acquired{TopicPartition: orders, Session: 1}
	if f.lock > 0 {
		ev.Lock, ev.LockedUntil = f.lock, now.Add(f.lock)
	}
	for k := range n {
		if f.broken[f.next] { // A run of its own.
			if k > 0 {
				break
			}
			ev.Unreadable = fmt.Errorf("wrong checksum")
		} else if ev.Unreadable != nil {
			break
		}
		ev.Records = append(ev.Records, testRecord(f.next))
		if f.lock > 0 {
			ev.DeliveryCounts = append(ev.DeliveryCounts, max(1, f.count[f.next]))
		}
		f.expires[f.next] = now.Add(f.lock)
		ev.Bytes += 4
		f.next++
		f.handed++
	}
	f.inUse.Add(1)
	vanishing(ev)
	vanish := ev.Free
	ev.Free = func() {
		vanish()
		f.inUse.Add(-1)
	}
	f.maxOpen = max(f.maxOpen, len(f.expires))
	out = append(out, ev)
	if f.stalled {
		out = append(out, &Stalled{})
	}
	return out
}

// vanishing makes ev's records go when they are free: whoever still reads them
// sees zeros, or panics.
func vanishing(ev *Acquired) {
	ev.Free = func() {
		for i := range ev.Records {
			b, _ := ev.Records[i].Value.Bytes()
			clear(b)
		}
		ev.Records = nil
	}
}

// refused notes an accept that is refused: the record comes again.
func (f *fakeSource) refused(o int64) {
	delete(f.refuse, o)
	f.count[o] = max(1, f.count[o]) + 1
	f.again = append(f.again, o)
	f.lost = append(f.lost, Range{o, o})
}

// without returns the offsets of ranges that are not in lost.
func without(ranges, lost []Range) []Range {
	var out []Range
	for _, r := range ranges {
		for o := r.First; o <= r.Last; o++ {
			if !inRanges(lost, o) {
				out = append(out, Range{o, o})
			}
		}
	}
	return out
}

// deliver hands out one record that was handed out before.
func (f *fakeSource) deliver(o int64, now time.Time) *Acquired {
	f.handed++
	f.expires[o] = now.Add(f.lock)
	f.maxOpen = max(f.maxOpen, len(f.expires))
	ev := &Acquired{
		TopicPartition: orders, Session: 1, Records: []pluginapi.Record{testRecord(o)}, DeliveryCounts: []int16{max(1, f.count[o])},
		Lock: f.lock, LockedUntil: now.Add(f.lock), Bytes: 4,
	}
	vanishing(ev)
	return ev
}

// lose takes records away as a broken session does, and hands them out again.
func (f *fakeSource) lose(offsets ...int64) {
	f.mu.Lock()
	var ranges []Range
	for _, o := range offsets {
		delete(f.expires, o)
		f.count[o] = max(1, f.count[o]) + 1
		f.again = append(f.again, o)
		ranges = append(ranges, Range{o, o})
	}
	f.mu.Unlock()
	f.events <- &Lost{TopicPartition: orders, Session: 1, Ranges: ranges, Cause: errors.New("lock lost")}
	f.wake()
}

// grow makes n more records, one a second.
func (f *fakeSource) grow(n int) {
	for range n {
		time.Sleep(time.Second)
		f.mu.Lock()
		f.end++
		f.mu.Unlock()
		f.wake()
	}
}

// open returns how many records are handed out and undecided.
func (f *fakeSource) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.expires)
}

// verdicts returns how many records ended with each verdict.
func (f *fakeSource) verdicts() map[Verdict]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[Verdict]int{}
	for _, v := range f.ended {
		out[v]++
	}
	return out
}

func testRecord(offset int64) pluginapi.Record {
	return pluginapi.Record{
		Topic: orders.Topic, Offset: offset, Value: pluginapi.BytesDatum(fmt.Appendf(nil, "%04d", offset)),
	}
}

// fakeSink answers what its put function says.
type fakeSink struct {
	put     func(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error
	start   func() error
	check   func() error
	gone    bool
	process uint64
	stops   atomic.Int32
}

func (s *fakeSink) Start(context.Context) error {
	if s.start != nil {
		return s.start()
	}
	return nil
}

func (s *fakeSink) Check(context.Context) error {
	if s.check != nil {
		return s.check()
	}
	return nil
}
func (s *fakeSink) Stop(context.Context) error { s.stops.Add(1); return nil }
func (s *fakeSink) Gone() bool                 { return s.gone }
func (s *fakeSink) Process() uint64            { return s.process }
func (s *fakeSink) Put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error {
	return s.put(ctx, batch, results)
}

func acceptAll(results []pluginapi.Result) {
	for i := range results {
		results[i].Outcome = pluginapi.Accept
	}
}

// fakeLetters is a dead letter queue.
type fakeLetters struct {
	mu      sync.Mutex
	letters []DeadLetter
	last    time.Time // When the newest was written.
	refuse  int       // Writes to refuse first.
}

func (q *fakeLetters) Write(_ context.Context, letters []DeadLetter) []error {
	q.mu.Lock()
	defer q.mu.Unlock()
	errs := make([]error, len(letters))
	if q.refuse > 0 {
		q.refuse--
		for i := range errs {
			errs[i] = fmt.Errorf("queue is down")
		}
		return errs
	}
	q.letters, q.last = append(q.letters, letters...), time.Now()
	return errs
}

// offsets returns the offsets of the letters in order.
func (q *fakeLetters) offsets() []int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []int64
	for _, l := range q.letters {
		out = append(out, l.Record.Offset)
	}
	slices.Sort(out)
	return out
}

func testConfig(src Source, sink *fakeSink) Config {
	return Config{
		Connector: "test", Source: src,
		MakeSink:    func(context.Context, int, bool) (Sink, error) { return sink, nil },
		Parallelism: 1,
		Batch:       BatchPolicy{MaxRecords: 10, MaxBytes: 1 << 20, MaxWait: 50 * time.Millisecond},
		Retry:       RetryPolicy{Initial: 300 * time.Millisecond, Max: time.Minute, MaxElapsed: 5 * time.Minute},
		Breaker:     BreakerPolicy{Failures: 3, Max: time.Minute},
		Isolate:     IsolatePolicy{Attempts: 3},
		Tolerance:   ToleranceAll, PutTimeout: time.Minute, StartTimeout: time.Minute, StopTimeout: 25 * time.Second,
		MaxDeliveryCount: 5, MaxOpenRecords: 40, MaxOpenBytes: 1 << 20,
	}
}

// runFor runs a task for d of virtual time, then stops it in order.
func runFor(t *testing.T, cfg Config, d time.Duration) (*Task, error) {
	t.Helper()
	task, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := make(chan error, 1)
	go func() { out <- task.Run(ctx) }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-out:
		return task, err
	case <-timer.C:
	}
	synctest.Wait()
	cancel()
	return task, <-out
}

// hang is a put that does not return before its time is over.
func hang(ctx context.Context, s *fakeSink) error {
	<-ctx.Done()
	s.gone = true
	return errors.New("killed: its put did not return")
}

// endingSource ends by itself after a time.
type endingSource struct {
	*fakeSource
	after time.Duration
	out   chan Event
}

func newEndingSource(f *fakeSource, after time.Duration) *endingSource {
	return &endingSource{fakeSource: f, after: after, out: make(chan Event, 8)}
}

func (e *endingSource) Events() <-chan Event { return e.out }

func (e *endingSource) Start(ctx context.Context) error {
	end := time.After(e.after)
	go func() {
		defer close(e.out)
		for {
			select {
			case ev := <-e.events:
				e.out <- ev
			case <-end:
				e.out <- &Failed{Err: errors.New("broker gone")}
				close(e.quit)
				go func() {
					for range e.events { // Nobody listens any more.
					}
				}()
				return
			}
		}
	}()
	return e.fakeSource.Start(ctx)
}

// slowSource takes its time to close.
type slowSource struct {
	*fakeSource
	takes time.Duration
}

func (s slowSource) Close(ctx context.Context) error {
	time.Sleep(s.takes)
	return s.fakeSource.Close(ctx)
}

// rounds counts the rounds of a task's loop. Beyond most it slows them down, so
// that a busy loop comes to an end.
type rounds struct {
	noMetrics
	n    atomic.Int64
	most int64
}

// Open is called once a round.
func (r *rounds) Open(int, int, time.Time) {
	if r.n.Add(1) > r.most {
		time.Sleep(10 * time.Millisecond)
	}
}
