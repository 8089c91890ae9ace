package consumergroup

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"github.com/sluicehq/sluice/sharetask"
)

// handler is what the library calls during one assignment: Setup first, then
// ConsumeClaim on one goroutine per partition, Cleanup after all of those.
type handler struct{ s *Source }

var _ sarama.ConsumerGroupHandler = handler{}

// Setup finds the first position of each partition and reports the assignment.
func (h handler) Setup(group sarama.ConsumerGroupSession) error {
	s := h.s
	a := &assignment{group: group, parts: make(map[partitionKey]*partition), decided: make(chan struct{}, 1), absent: make(map[string]time.Time)}
	if err := s.positions(group, a); err != nil {
		return err
	}
	s.mu.Lock()
	s.last++
	a.session = s.last
	s.current = a
	s.mu.Unlock()
	assigned := &sharetask.Assigned{}
	for _, p := range a.parts {
		assigned.Partitions = append(assigned.Partitions, p.TopicPartition)
	}
	s.log.Info("partitions assigned", "partitions", len(a.parts), "generation", group.GenerationID())
	s.events <- assigned
	signal(s.kick) // Commits first positions.
	return nil
}

// ConsumeClaim gathers one partition's messages and hands them out.
func (h handler) ConsumeClaim(group sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	s := h.s
	s.mu.Lock()
	a := s.current
	p := a.parts[partitionKey{claim.Topic(), claim.Partition()}]
	p.end = claim.HighWaterMarkOffset
	s.mu.Unlock()
	batch := make([]*sarama.ConsumerMessage, 0, s.opts.MaxRecords)
	for {
		var ok bool
		if batch, ok = s.gather(group.Context(), claim.Messages(), batch[:0]); !ok {
			if group.Context().Err() == nil {
				s.suspect() // The position lies outside of the log.
			}
			return nil
		}
		if len(batch) > 0 {
			if !s.proven(group.Context(), a, p) {
				s.refund(batch)
				return nil
			}
			s.deliver(a, p, batch)
			clear(batch)
		}
	}
}

// gather waits for a message, then for room, and takes what else is there. It
// reports false when the claim has ended.
func (s *Source) gather(ctx context.Context, messages <-chan *sarama.ConsumerMessage, batch []*sarama.ConsumerMessage) ([]*sarama.ConsumerMessage, bool) {
	var first *sarama.ConsumerMessage
	select {
	case <-ctx.Done():
		return nil, false
	case m, ok := <-messages:
		if !ok {
			return nil, false
		}
		first = m
	}
	reserved, bytes, wait := s.gate.reserve(cap(batch))
	for reserved == 0 {
		select {
		case <-ctx.Done():
			return nil, false
		case <-wait:
		}
		reserved, bytes, wait = s.gate.reserve(cap(batch))
	}
	batch = append(batch, first)
	used := size(first)
	for len(batch) < reserved && int64(used) < bytes {
		select {
		case m, ok := <-messages:
			if !ok {
				s.gate.settle(reserved, 0, 0)
				return nil, false
			}
			batch = append(batch, m)
			used += size(m)
			continue
		default:
		}
		break
	}
	s.gate.settle(reserved, len(batch), used)
	return batch, true
}

// refund gives back the room of a batch that is not handed out.
func (s *Source) refund(batch []*sarama.ConsumerMessage) {
	bytes := 0
	for _, m := range batch {
		bytes += size(m)
	}
	s.gate.refund(len(batch), bytes)
}

// deliver hands a batch to the task.
func (s *Source) deliver(a *assignment, p *partition, batch []*sarama.ConsumerMessage) {
	n := 0
	s.mu.Lock()
	if p.gone != nil {
		s.mu.Unlock()
		s.refund(batch)
		return
	}
	for _, m := range batch {
		if p.tracker.deliver(m.Offset) {
			batch[n] = m
			n++
		}
	}
	s.mu.Unlock()
	if batch = batch[:n]; n == 0 {
		return
	}
	e := &sharetask.Acquired{TopicPartition: p.TopicPartition, Session: a.session}
	e.Records, e.Bytes = convert(p, batch)
	s.events <- e
}

// Cleanup ends the assignment: it lets the task finish, commits, and reports
// what is lost. The group waits for it no longer than the rebalance timeout.
func (h handler) Cleanup(group sarama.ConsumerGroupSession) error {
	s := h.s
	s.mu.Lock()
	a := s.current
	s.mu.Unlock()
	if a == nil {
		return nil // Setup failed.
	}
	cause := context.Cause(group.Context())
	deadline := time.Now().Add(s.opts.RebalanceTimeout - s.opts.RebalanceTimeout/10 - s.opts.heartbeatInterval())
	s.log.Info("partitions revoked", "partitions", len(a.parts), "cause", cause)
	s.reportReleased(a)
	if _, end := s.ending(); !end && s.doubtful(a) {
		_ = s.proveAll(a) // what cannot be told now is met again when the next positions are looked up
	}
	s.reportGone(a)
	if !fenced(cause) {
		s.revoke(a, deadline)
		cause = s.commitFinally(a, deadline)
	}
	lost := errRevoked
	if bound, end := s.ending(); end {
		lost = errGivenBack
		if bound.Err() != nil {
			lost = bound.Err()
		}
	}
	if cause != nil && !errors.Is(cause, context.Canceled) {
		lost = cause
	}
	s.mu.Lock()
	s.current = nil
	var events []sharetask.Event
	for _, p := range a.parts {
		if p.tracker.unsettled() && !p.reported {
			events = append(events, &sharetask.Lost{TopicPartition: p.TopicPartition, Session: a.session, Cause: cmp.Or(p.gone, lost)})
		}
	}
	s.mu.Unlock()
	for _, e := range append(events, &sharetask.Assigned{}) {
		s.events <- e
	}
	return nil
}

// doubtful reports whether a topic of a may have been deleted.
func (s *Source) doubtful(a *assignment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range a.parts {
		if p.gone == nil && p.provedDoubts != s.doubts.Load() {
			return true
		}
	}
	return false
}

// reportGone reports what was held of topics that are gone as lost.
func (s *Source) reportGone(a *assignment) {
	var events []sharetask.Event
	s.mu.Lock()
	for _, p := range a.parts {
		if p.gone == nil || p.reported {
			continue
		}
		p.reported = true
		if p.tracker.unsettled() {
			events = append(events, &sharetask.Lost{TopicPartition: p.TopicPartition, Session: a.session, Cause: p.gone})
		}
	}
	s.mu.Unlock()
	for _, e := range events {
		s.events <- e
	}
}

// revoke waits until nothing handed out is undecided, at most until deadline,
// and not at all when the source is to end: the task has decided then.
func (s *Source) revoke(a *assignment, deadline time.Time) {
	if _, end := s.ending(); end {
		return
	}
	if fenced(s.commit(a)) {
		return
	}
	s.mu.Lock()
	var events []sharetask.Event
	for _, p := range a.parts {
		if p.open() > 0 {
			events = append(events, &sharetask.Revoking{TopicPartition: p.TopicPartition, Session: a.session, Deadline: deadline})
		}
	}
	s.mu.Unlock()
	for _, e := range events {
		s.events <- e
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for s.open(a) > 0 {
		select {
		case <-a.decided:
			if _, end := s.ending(); end {
				return
			}
		case <-timer.C:
			return
		case <-s.life.Done():
			return
		}
	}
}

func (s *Source) open(a *assignment) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range a.parts {
		n += p.open()
	}
	return n
}
