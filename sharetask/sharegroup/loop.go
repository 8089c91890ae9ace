package sharegroup

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

const (
	// lockMargin is taken off every lock's end: the broker's timer and our
	// reading of it differ by that at most.
	lockMargin = 100 * time.Millisecond

	// leaveTimeout bounds the end of a source that failed.
	leaveTimeout = 5 * time.Second
)

// loop is what the loop's goroutine keeps to itself.
type loop struct {
	lock     time.Duration // The group's lock duration, as far as known.
	sessions map[partitionKey]sharetask.Session
	last     sharetask.Session // The last number given.
	topicIDs map[string]pluginapi.TopicID
	buffered bool              // The client's buffer holds a fetch that was taken over.
	orphans  []*kgo.Record     // Lost without a final verdict; to be released before the next poll.
	marks    [5][]*kgo.Record  // Scratch of rounds, by verdict.
	finals   bool              // The last round was of final verdicts.
	stalled  bool              // Stalled was reported and nothing was decided since.
	failures int               // Polls that failed one after the other.
	leaveErr error             // Of Close.
	pending  []sharetask.Event // Scratch.
}

// run acquires, sends and reports until the source is closed or fails.
func (s *Source) run() {
	defer close(s.done)
	defer s.drop()
	defer close(s.events)
	for {
		st := s.state()
		switch {
		case st.arriving && st.closing == nil && st.failure == nil:
			s.deliver()
		case st.failure != nil:
			s.end(st)
			return
		case st.final || st.renew:
			s.round(st)
		case st.closing != nil:
			s.end(st)
			return
		case st.open && !st.full && !s.loop.stalled:
			s.loop.stalled = true
			s.events <- &sharetask.Stalled{}
		case st.open || st.full:
			<-s.wake
			s.watchKind()
		default:
			s.acquire()
			s.watchKind()
		}
	}
}

// deliver gives the task what was fetched.
func (s *Source) deliver() {
	// The fetch is complete when the client counts it, which it does a few
	// microseconds after the first record.
	for s.client.BufferedFetchRecords() == 0 {
		runtime.Gosched()
		if s.life.Err() != nil {
			s.fail(errClientClosed)
			return
		}
	}
	records := s.incoming
	s.incoming = nil
	s.loop.buffered, s.loop.stalled = true, false

	s.mu.Lock()
	sent := s.fetch.last.sent
	s.mu.Unlock()
	lock := s.lock(records[0])
	b := &batch{open: len(records)}
	bytes := 0
	for len(records) > 0 {
		n := 1
		for n < len(records) && records[n].Partition == records[0].Partition && records[n].Topic == records[0].Topic {
			n++
		}
		p := s.part(records[:n:n])
		records = records[n:]
		b.parts = append(b.parts, p)
		e := &sharetask.Acquired{
			TopicPartition: p.TopicPartition,
			Session:        p.session,
			LockedUntil:    sent.Add(lock - lockMargin),
			Lock:           lock,
		}
		e.Records, e.DeliveryCounts, e.Bytes = convert(p.TopicPartition, p.records)
		bytes += e.Bytes
		s.loop.pending = append(s.loop.pending, e)
	}

	s.mu.Lock()
	s.arriving = false
	s.open = b
	s.had.Records += int64(b.open)
	s.had.Bytes += int64(bytes)
	s.fetch.recordBytes = max(int64(bytes/b.open), 1)
	s.mu.Unlock()
	s.report()
}

func (s *Source) part(records []*kgo.Record) *part {
	key := partitionKey{records[0].Topic, records[0].Partition}
	session, ok := s.loop.sessions[key]
	if !ok {
		s.loop.last++
		session = s.loop.last
		s.loop.sessions[key] = session
	}
	verdicts := make([]sharetask.Verdict, 2*len(records))
	return &part{
		TopicPartition: sharetask.TopicPartition{Topic: key.topic, TopicID: s.topicID(key.topic), Partition: key.partition},
		session:        session,
		records:        records,
		want:           verdicts[:len(records):len(records)],
		sent:           verdicts[len(records):],
	}
}

// lock returns the group's lock duration: the configured one, or the broker's
// if that is shorter or nothing was configured. The client adds the broker's to
// the time it decodes a response, shortly after the answer was read.
func (s *Source) lock(r *kgo.Record) time.Duration {
	s.mu.Lock()
	answered := s.fetch.last.answered
	s.mu.Unlock()
	told := r.AcquisitionDeadline().Sub(answered).Truncate(time.Second)
	s.loop.lock = s.opts.Lock
	if s.loop.lock == 0 || told < s.loop.lock {
		s.loop.lock = max(told, time.Second)
	}
	return s.loop.lock
}

// topicID asks for a topic's id the first time it is seen. It is zero if the
// broker does not answer in time.
func (s *Source) topicID(topic string) pluginapi.TopicID {
	if id, ok := s.loop.topicIDs[topic]; ok {
		return id
	}
	ctx, cancel := context.WithTimeout(s.life, 2*time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, s.client)
	if err != nil {
		s.log.Warn("topic id is not known", "topic", topic, "err", err)
		return pluginapi.TopicID{}
	}
	for _, t := range resp.Topics {
		if t.ErrorCode == 0 && t.Topic != nil && *t.Topic == topic {
			s.loop.topicIDs[topic] = t.TopicID
			return t.TopicID
		}
	}
	return pluginapi.TopicID{}
}

// round sends what was decided and waits for the answers.
func (s *Source) round(st state) {
	// Renewals must not wait for ever behind final verdicts, nor these behind
	// renewals: they take turns.
	renewals := !st.final || st.renew && s.loop.finals
	s.loop.finals, s.loop.stalled = !renewals, false
	s.mu.Lock()
	b := s.open
	b.begin(renewals, &s.loop.marks)
	clear(s.ackErrs)
	s.mu.Unlock()

	start := time.Now()
	for v, records := range s.loop.marks {
		if len(records) > 0 {
			s.client.MarkAcks(kgo.AckStatus(v), records...) //nolint:gosec // 1 to 4
			clear(records)
			s.loop.marks[v] = records[:0]
		}
	}
	answered := s.confirm()

	s.mu.Lock()
	until := start.Add(s.loop.lock - lockMargin)
	broken := s.sessionError(b, answered)
	for _, p := range b.parts {
		a := answer{err: s.ackErrs[p.key()], ended: broken}
		if !answered {
			a.err = errDropped
		}
		if a.ended == nil && scopeOf(a.err) == scopePartition {
			a.ended = a.err
		}
		s.loop.pending, s.loop.orphans = b.end(p, a, until, s.loop.pending, s.loop.orphans)
		if a.ended != nil {
			delete(s.loop.sessions, p.key())
			delete(s.loop.topicIDs, p.Topic)
		}
	}
	if b.open == 0 {
		s.open = nil
	}
	s.mu.Unlock()
	s.report()
}

// sessionError returns the error that ended the share session in the round
// under way, nil if there was none. All of b came by one fetch, so from one
// session; an answer that a partition got before the session broke stands.
// s.mu must be held.
func (s *Source) sessionError(b *batch, answered bool) error {
	if !answered {
		return errDropped
	}
	for _, p := range b.parts {
		if err := s.ackErrs[p.key()]; scopeOf(err) == scopeSession {
			return err
		}
	}
	return nil
}

// confirm waits until the client has an answer for every mark. It reports
// false if the connections were dropped meanwhile. The client does not wake for
// a mark it must send again, so it is asked over and over.
func (s *Source) confirm() bool {
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		ctx, cancel := context.WithTimeout(s.life, wait)
		err := s.client.FlushAcks(ctx)
		cancel()
		if err == nil {
			return s.life.Err() == nil
		}
		if s.life.Err() != nil {
			return false
		}
	}
}

// report sends the events gathered.
func (s *Source) report() {
	for i, e := range s.loop.pending {
		s.events <- e
		s.loop.pending[i] = nil
	}
	s.loop.pending = s.loop.pending[:0]
}

// acquire drains the client's buffer, of which everything is decided, and
// polls until a fetch arrives, the allowance ends or the source is closed.
func (s *Source) acquire() {
	if len(s.loop.orphans) > 0 {
		s.client.MarkAcks(kgo.AckRelease, s.loop.orphans...)
		clear(s.loop.orphans)
		s.loop.orphans = s.loop.orphans[:0]
		if !s.confirm() { // Whatever the answer: they are lost already.
			return
		}
	}
	if s.loop.buffered {
		s.loop.buffered = false
		over, cancel := context.WithCancel(s.life)
		cancel()
		s.client.PollRecords(over, -1)
	}

	s.mu.Lock()
	if s.arriving || s.closing != nil || s.full() || s.failure != nil {
		s.mu.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(s.life)
	done := make(chan struct{})
	s.pollStop, s.pollDone = cancel, done
	s.limitFetch()
	s.mu.Unlock()

	fetches := s.client.PollRecords(ctx, -1)

	s.mu.Lock()
	s.pollStop, s.pollDone = nil, nil
	s.mu.Unlock()
	close(done)
	ended := ctx.Err() != nil
	cancel()
	s.checkPoll(fetches, ended)
}

// checkPoll looks at a poll's errors. A poll never returns records here: they
// are taken over before.
func (s *Source) checkPoll(fetches kgo.Fetches, ended bool) {
	failed := false
	for _, e := range fetches.Errors() {
		switch {
		case ended && errors.Is(e.Err, context.Canceled):
		case errors.Is(e.Err, kgo.ErrClientClosed):
			s.fail(errClientClosed)
			return
		case fatal(e.Err):
			s.fail(e.Err)
			return
		default:
			failed = true
			s.log.Warn("fetch failed", "topic", e.Topic, "partition", e.Partition, "err", e.Err)
		}
	}
	if !failed {
		s.loop.failures = 0
		return
	}
	// The client does not wait after an error it passes on.
	wait := time.NewTimer(backoff(s.loop.failures))
	defer wait.Stop()
	s.loop.failures++
	select {
	case <-wait.C:
	case <-s.wake:
	}
}

// end leaves the group. What is open is given back.
func (s *Source) end(st state) {
	ctx := st.closing
	if ctx == nil {
		timed, cancel := context.WithTimeout(s.life, leaveTimeout)
		defer cancel()
		ctx = timed
	}
	err := s.client.LeaveGroupContext(ctx)
	if ctx.Err() != nil {
		s.drop()
	}
	s.client.Close()
	if st.failure != nil {
		s.events <- &sharetask.Failed{Err: st.failure}
		return
	}
	s.loop.leaveErr = err
	s.mu.Lock()
	if b := s.open; b != nil {
		for _, p := range b.parts {
			s.loop.pending, _ = b.lose(p, errGivenBack, s.loop.pending, nil)
		}
		s.open = nil
	}
	s.mu.Unlock()
	s.report()
}
