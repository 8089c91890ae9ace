package sharegroup

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/sharetask/sharegroup/recordbatch"
)

// outboxSize is how many answers may wait to be decoded and read by the task.
const outboxSize = 8

// leader runs the share session with one broker: one goroutine sends, another
// decodes what came and hands the events on, in order.
type leader struct {
	s       *Source
	id      int32
	session *session // Guarded by s.mu.
	wire    wire
	wake    chan struct{} // Capacity 1: something changed for the session.
	outbox  chan outcome

	asked  int                // Records of the fetch under way. Guarded by s.mu.
	cancel context.CancelFunc // Ends the fetch under way if it may be: nothing is held. Guarded by s.mu.
	drop   context.CancelFunc // Ends the request under way. Guarded by s.mu.
	late   bool               // It has taken longer than a lock. Guarded by s.mu.
}

// run sends requests until the session is closed or the source's life ends.
func (l *leader) run() {
	s := l.s
	var deliver sync.WaitGroup
	deliver.Go(l.deliver)
	defer deliver.Wait()
	defer close(l.outbox)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		s.mu.Lock()
		req, until := l.session.plan(now, s.share(l))
		for _, key := range l.session.swept {
			delete(s.parts, key)
		}
		l.session.swept = nil
		over := l.session.over
		var ctx context.Context
		if req != nil {
			ctx, l.drop = l.begin(req)
		}
		if req != nil && req.kind == fetch {
			l.asked = req.records
			s.asked += req.records
			if req.maxWait > busyWait {
				l.cancel = l.drop
			}
		}
		stuck := req == nil && l.session.stuck(now)
		s.mu.Unlock()
		switch {
		case over:
			return
		case req == nil:
			if stuck {
				s.stalled(l)
			}
			if !until.IsZero() {
				timer.Reset(until.Sub(now))
			}
			select {
			case <-l.wake:
			case <-timer.C:
			case <-s.life.Done():
				l.abandon()
				return
			}
			continue
		}
		l.received(l.wire.send(ctx, req))
	}
}

// begin returns the context of a request. One that takes longer than a lock is
// looked into: its broker may be gone without a word. s.mu must be held.
func (l *leader) begin(req *request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(l.s.life)
	timer := time.AfterFunc(req.maxWait+cmp.Or(l.s.lock, defaultLock), func() {
		l.s.mu.Lock()
		l.late = l.session.flying == req
		l.s.mu.Unlock()
		l.s.topics.look()
	})
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// left reports whether other brokers lead all that this one led: it holds nothing
// of ours any more, and its answer is not worth waiting for. s.mu must be held.
func (l *leader) left(leaders map[partitionKey]int32) bool {
	for key := range l.session.parts {
		if id, ok := leaders[key]; !ok || id == l.id {
			return false
		}
	}
	return len(l.session.parts) > 0
}

// received enters an answer and hands its outcome to the goroutine that
// delivers.
func (l *leader) received(a answer) {
	s := l.s
	now := time.Now()
	s.mu.Lock()
	l.drop()
	l.cancel, l.late = nil, false
	s.asked -= l.asked
	l.asked = 0
	if a.lock > 0 {
		s.lock = a.lock
	} else {
		a.lock = s.lock
	}
	out := l.session.answered(a, now)
	for i := range out.fetched {
		f := &out.fetched[i]
		f.body = a.body
		f.body.Retain()
		for _, r := range f.acquired {
			f.coming.Records += r.Len()
			if r.deliveryCount > 1 {
				s.creds.doubt()
			}
		}
		// Compressed, they may be many times what came.
		f.coming.Bytes = max(int64(len(f.raw)), f.coming.Records*s.recordBytes)
		s.coming.Records += f.coming.Records
		s.coming.Bytes += f.coming.Bytes
		l.s.lastStall = false
	}
	for _, m := range out.moved {
		s.move(m)
	}
	if out.lost != nil && out.relook { // The broker may be gone for good.
		s.scatter(l)
	}
	notice := l.session.notice
	if l.session.closing && errors.Is(notice, context.Canceled) {
		notice = nil // Its wait was ended by us.
	}
	s.mu.Unlock()
	if notice != nil {
		s.creds.doubt()
		s.log.Warn("share session with a broker is disturbed", "broker", l.id, "err", explain(notice))
	}
	if out.relook {
		s.topics.look()
	}
	if out.fatal != nil {
		s.fail(explain(out.fatal))
	}
	a.body.Release()
	if len(out.fetched) > 0 || len(out.events) > 0 {
		l.outbox <- out
	}
	s.signal()
}

// abandon reports what is held as lost when the source's life ends.
func (l *leader) abandon() {
	var out outcome
	l.s.mu.Lock()
	l.session.giveBack(&out)
	l.session.over = true
	l.s.mu.Unlock()
	l.outbox <- out
}

// deliver decodes what the session fetched and sends events.
func (l *leader) deliver() {
	decoder := recordbatch.NewDecoder(l.s.pool)
	for out := range l.outbox {
		for _, e := range out.events {
			l.s.events <- e
		}
		memory := 0 // One response is one piece of memory.
		for i := range out.fetched {
			memory += len(out.fetched[i].raw)
		}
		if len(out.fetched) > 0 {
			memory = max(memory, out.fetched[0].body.Memory())
		}
		for i := range out.fetched {
			l.decode(decoder, &out.fetched[i], memory)
		}
	}
}

// decode makes events of what was fetched from one partition, in a response of
// memory bytes.
func (l *leader) decode(decoder *recordbatch.Decoder, f *fetched, memory int) {
	s := l.s
	ranges := make([]recordbatch.Range, len(f.acquired))
	for i, a := range f.acquired {
		ranges[i] = recordbatch.Range{First: a.First, Last: a.Last}
	}
	b, err := decoder.Decode(f.raw, recordbatch.Source{Topic: f.part.Topic, TopicID: f.part.TopicID, Partition: f.part.Partition}, ranges)
	if err != nil { // Ranges out of order, which wire.go lets nobody say.
		s.fail(err)
		return
	}
	unreadable := l.unreadable(f, b.Lost)
	s.mu.Lock()
	s.coming.Records -= f.coming.Records
	s.coming.Bytes -= f.coming.Bytes
	s.had.Records += int64(len(b.Records))
	for _, e := range unreadable {
		s.had.Records += int64(len(e.Records))
	}
	s.had.Bytes += int64(b.Bytes)
	if n := len(b.Records); n > 0 {
		if s.recordBytes == 0 {
			s.wakeLeaders() // They wait to know.
		}
		s.recordBytes = max(int64(b.Bytes/n), 1)
	}
	if f.part.session == f.session {
		for _, r := range b.Gaps {
			f.part.decide(gap, sharetask.Range(r))
		}
		for _, lost := range b.Lost { // A task decides those that are its.
			if !slices.ContainsFunc(unreadable, func(e *sharetask.Acquired) bool { return e.Records[0].Offset == lost.First }) {
				f.part.decide(sharetask.Release, sharetask.Range(lost.Range))
			}
		}
	}
	s.mu.Unlock()
	if len(b.Gaps) > 0 || len(b.Lost) > 0 || len(b.Records) == 0 {
		l.signal()
	}
	l.handOver(f, b, memory)
	for _, e := range unreadable {
		s.events <- e
	}
}

// unreadable says what cannot be decoded, and returns an event of each run that
// could not be the last time either. What fails for the first time is given
// back: it may be read well the next time.
func (l *leader) unreadable(f *fetched, all []recordbatch.Lost) []*sharetask.Acquired {
	var events []*sharetask.Acquired
	for _, lost := range all {
		count := f.deliveryCount(lost.First)
		l.s.log.Error("records cannot be decoded", "topic", f.part.Topic, "partition", f.part.Partition,
			"first", lost.First, "last", lost.Last, "deliveries", count, "err", lost.Err)
		if count < 2 {
			continue
		}
		n := lost.Last - lost.First + 1
		e := &sharetask.Acquired{
			TopicPartition: f.part.TopicPartition, Session: f.session, Records: make([]pluginapi.Record, n), DeliveryCounts: make([]int16, n),
			LockedUntil: f.sent.Add(f.lock - lockMargin), Lock: f.lock, Unreadable: lost.Err,
		}
		for i := range e.Records {
			e.Records[i] = pluginapi.Record{Topic: f.part.Topic, TopicID: f.part.TopicID, Partition: f.part.Partition, Offset: lost.First + int64(i)}
			e.DeliveryCounts[i] = count
		}
		events = append(events, e)
	}
	return events
}

// deliveryCount is how often an acquired offset was delivered, this time
// included.
func (f *fetched) deliveryCount(offset int64) int16 {
	for _, a := range f.acquired {
		if a.First <= offset && offset <= a.Last {
			return a.deliveryCount
		}
	}
	return 0
}

// handOver makes an event of each acquired range: that is how the broker keeps
// its accounts, and deciding a range as a whole costs it least.
func (l *leader) handOver(f *fetched, b *recordbatch.Batch, memory int) {
	records, left := b.Records, int64(len(f.acquired))
	free := func() {
		if atomic.AddInt64(&left, -1) == 0 {
			b.Free()
			f.body.Release()
		}
	}
	counts := make([]int16, len(records))
	for _, a := range f.acquired {
		n := 0
		for n < len(records) && records[n].Offset <= a.Last {
			counts[n] = a.deliveryCount
			n++
		}
		if n == 0 {
			free()
			continue
		}
		bytes := 0
		for i := range n {
			bytes += sharetask.RecordBytes(&records[i])
		}
		l.s.events <- &sharetask.Acquired{
			TopicPartition: f.part.TopicPartition, Session: f.session,
			Records: records[:n:n], DeliveryCounts: counts[:n:n], Bytes: bytes,
			LockedUntil: f.sent.Add(f.lock - lockMargin), Lock: f.lock, Memory: max(memory, b.Bytes), Free: free,
		}
		records, counts = records[n:], counts[n:]
	}
}

// signal wakes the sending goroutine.
func (l *leader) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
