package sharetask

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// fate is what the broker, the target and the queue know of a record.
type fate struct {
	until    time.Time // Of its lock.
	held     bool
	due      time.Time // Not delivered before.
	count    int16
	lost     int
	released int
	spared   int // Deliveries it had survived when it was delivered last.
	putting  int
	tries    int
	written  bool
	letter   *DeadLetter
	ended    Verdict
	story    []string
	parked   int     // Copies of it in the retry topic.
	of       *fate   // It is such a copy.
	origin   *Origin // It is such a copy.
}

// retries is the retry topic's partition.
var retries = TopicPartition{Topic: "orders.retry"}

// chaos is a broker, a target, plugin processes and a dead letter queue that
// follow a schedule.
type chaos struct {
	schedule
	start  time.Time
	events chan Event
	kick   chan struct{}
	quit   chan struct{}

	mu      sync.Mutex
	fates   [chaosPartitions][]*fate
	parked  []*fate
	room    Room
	handed  Room
	queued  []Decision
	faults  []string
	process uint64
	shared  uint64
	stalled bool // Said so, and nothing was decided or delivered since.
	died    map[uint64]chan struct{}
}

func newChaos(s schedule) *chaos {
	c := &chaos{
		schedule: s, start: time.Now(), events: make(chan Event, 4), kick: make(chan struct{}, 1),
		quit: make(chan struct{}), died: map[uint64]chan struct{}{},
	}
	for range chaosRecords {
		c.grow()
	}
	for o := range int64(chaosRecords) {
		if x, ok := s.Copies[o]; ok {
			c.park(x, o)
		}
	}
	return c
}

// park puts copies of records of the first partition, that another worker parked,
// in the retry topic.
func (c *chaos) park(x parkedCopy, offsets ...int64) {
	for _, o := range offsets {
		f := c.fates[0][o]
		f.ended = Accept // The original.
		f.parked++
		c.parked = append(c.parked, &fate{count: x.Count, of: f, origin: &Origin{
			Topic: orders.Topic, Offset: o, Due: c.start.Add(x.Due), Since: c.start.Add(-time.Minute), Attempts: 5,
		}})
	}
}

// grow makes a record of each partition.
func (c *chaos) grow() {
	for p := range c.fates {
		id := int64(1000*p + len(c.fates[p]))
		c.fates[p] = append(c.fates[p], &fate{count: max(1, c.Counts[id])})
	}
}

func (c *chaos) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *chaos) at() time.Duration { return time.Since(c.start) }

func (c *chaos) say(f *fate, format string, args ...any) {
	f.story = append(f.story, fmt.Sprintf("%v %s", c.at(), fmt.Sprintf(format, args...)))
}

func (c *chaos) fault(f *fate, id int64, what string) {
	c.faults = append(c.faults, fmt.Sprintf("%v record %d (%s): %s: %q", c.at(), id, c.Kinds[id], what, f.story))
}

func (c *chaos) Start(context.Context) error { go c.run(); return nil }
func (c *chaos) Events() <-chan Event        { return c.events }

func (c *chaos) Request(r Room) {
	c.mu.Lock()
	c.room = r
	c.mu.Unlock()
	c.wake()
}

func (c *chaos) Decide(d []Decision) {
	c.mu.Lock()
	c.queued = append(c.queued, d...)
	c.mu.Unlock()
	c.wake()
}

func (c *chaos) Close(context.Context) error { close(c.quit); return nil }

func (c *chaos) run() {
	defer close(c.events)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if c.Delay > 0 {
			time.Sleep(c.Delay)
		}
		out, next := c.step()
		for _, ev := range out {
			c.events <- ev
		}
		timer.Reset(next)
		select {
		case <-c.kick:
		case <-timer.C:
		case <-c.quit:
			return
		}
	}
}

// step applies what was decided and hands out what there is room for.
func (c *chaos) step() (out []Event, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, d := range c.queued {
		ack := &Acknowledged{TopicPartition: d.TopicPartition, Session: d.Session, Verdict: d.Verdict, LockedUntil: now.Add(chaosLock), Lock: chaosLock}
		for _, r := range d.Ranges {
			for o := r.First; o <= r.Last; o++ {
				if c.decide(d.TopicPartition, o, d.Verdict, now) {
					ack.Ranges = append(ack.Ranges, Range{o, o})
				}
			}
		}
		ack.Ranges = mergeRanges(ack.Ranges)
		if len(ack.Ranges) > 0 {
			out = append(out, ack)
		}
	}
	c.queued = nil
	next = time.Hour
	if w := in(c.Frozen, c.at()); w != nil {
		if next = w.To - c.at(); w.Kind == "frozen" {
			return out, next
		}
	}
	for n := 1; n > 0; { // Runs of each partition in turn.
		n = 0
		for p := range c.fates {
			if in(c.Frozen, c.at()) != nil { // Of the retry topic only.
				break
			}
			ev, wait := c.acquire(int32(p), now) //nolint:gosec // Of two.
			next = min(next, wait)
			if ev != nil {
				out = append(out, ev)
				n++
			}
		}
		if ev, wait := c.acquireParked(now); ev != nil {
			out = append(out, ev)
			n++
		} else {
			next = min(next, wait)
		}
	}
	if full := c.Window > 0 && c.full(0) && c.full(1); full && !c.stalled {
		c.stalled = true
		out = append(out, &Stalled{})
	}
	return out, next
}

// first is the first record of a partition that is not decided.
func (c *chaos) first(p int32) int {
	for o, f := range c.fates[p] {
		if f.ended == 0 {
			return o
		}
	}
	return len(c.fates[p])
}

// full reports whether a partition's record-lock window is: nothing more comes of
// it until something in it is decided.
func (c *chaos) full(p int32) bool {
	o := c.first(p) + int(c.Window) - 1
	return o < len(c.fates[p]) && (c.fates[p][o].held || c.fates[p][o].ended != 0)
}

// hand hands a record out.
func (f *fate) hand(now time.Time) {
	f.held, f.until = true, now.Add(chaosLock)
	f.spared = f.lost + f.released
}

// acquire returns the next run of a partition, and when there may be more.
func (c *chaos) acquire(p int32, now time.Time) (ev *Acquired, next time.Duration) {
	next = time.Hour
	first := c.first(p)
	for o, f := range c.fates[p] {
		if c.Window > 0 && o >= first+int(c.Window) {
			break
		}
		switch {
		case f.held || f.ended != 0:
			continue
		case f.due.After(now):
			next = min(next, f.due.Sub(now))
			continue
		case c.handed.Records >= c.room.Records:
			return ev, next
		}
		if ev == nil {
			ev = &Acquired{TopicPartition: TopicPartition{Topic: orders.Topic, Partition: p}, Session: 1}
			vanishing(ev)
			if !c.Ordered {
				ev.Lock, ev.LockedUntil = chaosLock, now.Add(chaosLock)
			}
		} else if ev.Records[len(ev.Records)-1].Offset+1 != int64(o) || len(ev.Records) == 13 {
			return ev, next
		}
		rec := testRecord(int64(o))
		rec.Partition = p
		ev.Records = append(ev.Records, rec)
		ev.Bytes += 4
		if !c.Ordered {
			ev.DeliveryCounts = append(ev.DeliveryCounts, f.count)
		}
		f.hand(now)
		c.handed.Records++
		c.stalled = false
		c.say(f, "delivered, %d", f.count)
	}
	return ev, next
}

// acquireParked is acquire of the retry topic.
func (c *chaos) acquireParked(now time.Time) (ev *Acquired, next time.Duration) {
	next = time.Hour
	for o, f := range c.parked {
		switch {
		case f.held || f.ended != 0:
			continue
		case f.due.After(now):
			next = min(next, f.due.Sub(now))
			continue
		case c.handed.Parked >= c.room.Parked:
			return ev, next
		}
		if ev == nil {
			ev = &Acquired{TopicPartition: retries, Session: 1, Lock: chaosLock, LockedUntil: now.Add(chaosLock)}
			vanishing(ev)
		} else if ev.Records[len(ev.Records)-1].Offset+1 != int64(o) {
			return ev, next
		}
		rec := testRecord(f.origin.Offset)
		rec.Topic, rec.Partition, rec.Offset = retries.Topic, 0, int64(o)
		ev.Records = append(ev.Records, rec)
		ev.Origins = append(ev.Origins, *f.origin)
		ev.Bytes += 4
		ev.DeliveryCounts = append(ev.DeliveryCounts, f.count)
		f.hand(now)
		c.handed.Parked++
		c.say(f.of, "copy delivered, %d", f.count)
	}
	return ev, next
}

// Park writes to the retry topic.
func (c *chaos) Park(ctx context.Context, records []Parked) []error {
	errs := make([]error, len(records))
	time.Sleep(5 * time.Millisecond)
	w := in(c.NoLetters, c.at())
	if w != nil && w.Kind == "hung" {
		<-ctx.Done()
	}
	c.mu.Lock()
	for i := range records {
		if w != nil {
			if errs[i] = errors.New("not written"); w.Kind == "hung" {
				errs[i] = ctx.Err()
			}
			continue
		}
		f, id := c.fate(records[i].Record)
		c.say(f, "parked until %v", records[i].Origin.Due.Sub(c.start))
		if (f.letter != nil || f.written) && f.lost == 0 {
			c.fault(f, id, "parked, though written or dead-lettered")
		}
		if (f.parked > 0 && c.latest(f).ended != 0) && f.lost == 0 {
			c.fault(f, id, "parked twice")
		}
		f.parked++
		c.parked = append(c.parked, &fate{count: 1, of: f, origin: &records[i].Origin})
	}
	c.mu.Unlock()
	c.wake()
	return errs
}

// latest is the last copy of a record in the retry topic.
func (c *chaos) latest(f *fate) *fate {
	for i := len(c.parked) - 1; i >= 0; i-- {
		if c.parked[i].of == f {
			return c.parked[i]
		}
	}
	return nil
}

// decide applies a verdict and reports whether it has an effect.
func (c *chaos) decide(tp TopicPartition, o int64, v Verdict, now time.Time) bool {
	var f, of *fate // What is decided, and the record it is.
	var id int64
	if tp == retries {
		f = c.parked[o]
		of, id = f.of, int64(f.origin.Partition)*1000+f.origin.Offset
	} else {
		f, id = c.fates[tp.Partition][o], int64(tp.Partition)*1000+o
		of = f
	}
	if !f.held {
		if f.lost == 0 {
			c.fault(of, id, "decided though it is not held: "+v.String())
		}
		return false
	}
	if !c.Ordered && now.After(f.until) {
		c.fault(of, id, "decided after its lock: "+v.String())
	}
	if v == Renew {
		f.until = now.Add(chaosLock)
		return true
	}
	f.held = false
	c.stalled = c.stalled && tp == retries
	c.say(of, "%s of %s", v, tp.Topic)
	elsewhere := of.written || of.letter != nil || of.parked > 0 && c.latest(of) != f
	switch {
	case v == Release:
		f.count++
		f.released++
	case v == Accept && !elsewhere && c.Kinds[id] != "filtered":
		c.fault(of, id, "accepted, and neither written nor dead-lettered nor parked")
		fallthrough
	default:
		f.ended = v
	}
	return true
}

// lose takes locks away, and gives the records back later.
func (c *chaos) lose(l loss) {
	c.mu.Lock()
	var out []Event
	for p := range c.fates {
		ev := &Lost{TopicPartition: TopicPartition{Topic: orders.Topic, Partition: int32(p)}, Session: 1, Cause: errors.New("lock lost")} //nolint:gosec // Of two.
		for o, f := range c.fates[p] {
			if f.held && int64(o)%l.Of == 0 {
				f.held, f.due = false, time.Now().Add(l.Back)
				f.lost++
				f.count++
				c.say(f, "lost")
				ev.Ranges = append(ev.Ranges, Range{int64(o), int64(o)})
			}
		}
		if len(ev.Ranges) > 0 {
			out = append(out, ev)
		}
	}
	ev := &Lost{TopicPartition: retries, Session: 1, Cause: errors.New("lock lost")}
	for o, f := range c.parked {
		if f.held && int64(o)%l.Of == 0 {
			f.held, f.due = false, time.Now().Add(l.Back)
			f.of.lost++
			f.lost++
			f.count++
			c.say(f.of, "copy lost")
			ev.Ranges = append(ev.Ranges, Range{int64(o), int64(o)})
		}
	}
	if len(ev.Ranges) > 0 {
		out = append(out, ev)
	}
	c.mu.Unlock()
	for _, ev := range out {
		c.events <- ev
	}
	c.wake()
}

// makeSink makes a sink in the process all share, or in one of its own.
func (c *chaos) makeSink(ctx context.Context, _ int, apart bool) (Sink, error) {
	if w := in(c.Down, c.at()); w != nil && w.Kind == "start" && c.at() > 0 {
		if w.Seen {
			return nil, pluginapi.NewError(pluginapi.Unavailable, "", "refused at start")
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.shared
	if apart || n == 0 {
		c.process++
		n = c.process
		c.died[n] = make(chan struct{})
		if !apart {
			c.shared = n
		}
	}
	s := &fakeSink{process: n}
	s.check = func() error {
		if w := in(c.Down, c.at()); w != nil && c.Checks && c.at() > 0 && (w.Seen || w.Kind == "crash") {
			return pluginapi.NewError(pluginapi.Unavailable, "", "refused")
		}
		return nil
	}
	s.put = func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
		return c.put(ctx, s, b, r)
	}
	return s, nil
}

func (c *chaos) crash(s *fakeSink) {
	s.gone = true
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.died[s.process]:
	default:
		close(c.died[s.process])
	}
	if c.shared == s.process {
		c.shared = 0
	}
}

func (c *chaos) put(ctx context.Context, s *fakeSink, b []pluginapi.Record, r []pluginapi.Result) error {
	c.mu.Lock()
	kind := ""
	for i := range b {
		f, id := c.fate(&b[i])
		c.say(f, "put, one of %d", len(b))
		if f.putting++; f.putting > 1 {
			c.fault(f, id, "is in two puts at once")
		}
		if (f.written || f.letter != nil) && f.lost == 0 {
			c.fault(f, id, "put again though it is written or dead-lettered")
		}
		if x := c.latest(f); x != nil && x.held && !f.held && x.origin.Due.After(time.Now()) {
			c.fault(f, id, "put before it is due")
		}
		if k := c.Kinds[id]; k == "kill" || k == "hang" {
			kind = k
		}
	}
	died := c.died[s.process]
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range b {
			f, _ := c.fate(&b[i])
			f.putting--
		}
	}()
	takes := time.After(c.Takes)
	if w := in(c.Down, c.at()); kind == "hang" || kind == "" && w != nil && w.Kind == "hang" {
		takes = nil
	}
	select {
	case <-takes:
	case <-died:
		s.gone = true
		return errors.New("its process has ended")
	case <-ctx.Done():
		c.crash(s)
		return errors.New("killed: its put did not return")
	}
	if w := in(c.Down, c.at()); kind == "" && w != nil {
		kind = w.Kind // Nothing succeeds in a window.
	}
	switch kind {
	case "kill", "crash", "hang":
		c.crash(s)
		return errors.New("plugin crashed")
	case "silent":
		return nil
	case "unavailable", "start":
		return pluginapi.NewError(pluginapi.Unavailable, "", "refused")
	case "throttled":
		return &pluginapi.Error{Class: pluginapi.Throttled, Code: "429", RetryAfter: 5 * time.Second}
	case "transient":
		return outages["transient"](ctx, s, r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range b {
		f, id := c.fate(&b[i])
		f.tries++
		switch k := c.Kinds[id]; {
		case k == "reject":
			r[i] = pluginapi.Rejected("", "bad")
		case k == "transient", k == "some" && f.tries < 4:
			r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "", "later"))
		default:
			r[i].Outcome = pluginapi.Accept
			f.written = true
			c.say(f, "written")
		}
	}
	return nil
}

func (c *chaos) fate(r *pluginapi.Record) (*fate, int64) {
	return c.fates[r.Partition][r.Offset], int64(r.Partition)*1000 + r.Offset
}

// Write writes dead letters.
func (c *chaos) Write(ctx context.Context, letters []DeadLetter) []error {
	errs := make([]error, len(letters))
	time.Sleep(5 * time.Millisecond)
	w := in(c.NoLetters, c.at())
	if w != nil && w.Kind == "hung" {
		<-ctx.Done()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range letters {
		if w != nil {
			errs[i] = errors.New("not written")
			continue
		}
		f, id := c.fate(letters[i].Record)
		c.say(f, "dead letter: %s", letters[i].Message)
		switch c.Kinds[id] {
		case "", "some", "filtered":
			last := f
			if x, ok := c.Copies[id]; ok && c.at() < x.Due {
				c.fault(f, id, "dead-lettered before it was due")
			}
			if f.parked > 0 {
				last = c.latest(f)
			}
			// What it survived in this worker does not count, short of the broker's limit.
			if n := letters[i].DeliveryCount; c.Max == 0 || n-last.spared <= c.Max && n < chaosLimit {
				c.fault(f, id, "dead-lettered, though nothing is wrong with it")
			}
		}
		if (f.letter != nil || f.written) && f.lost == 0 {
			c.fault(f, id, "dead-lettered twice, or written before")
		}
		f.letter = &letters[i]
	}
	return errs
}

// Convert drops and refuses some.
func (c *chaos) Convert(rec, out *pluginapi.Record) (bool, error) {
	*out = *rec
	switch c.Kinds[int64(rec.Partition)*1000+rec.Offset] {
	case "filtered":
		return false, nil
	case "garbled":
		return false, errors.New("not JSON")
	}
	return true, nil
}
