package consumergroup

import (
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/sluicehq/sluice/sharetask"
)

// commitRetry is the pause between attempts of a last commit.
const commitRetry = 200 * time.Millisecond

// commitLoop commits what was accepted, every interval and when kicked, until
// the source's life ends.
func (s *Source) commitLoop() {
	tick := time.NewTicker(s.opts.CommitInterval)
	defer tick.Stop()
	for {
		kicked := false
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		case <-s.kick:
			kicked = true
		}
		s.mu.Lock()
		a := s.current
		s.mu.Unlock()
		if a == nil {
			continue
		}
		s.reportReleased(a)
		if kicked && !s.hasFirstPositions(a) {
			continue
		}
		if err := s.commit(a); err != nil && !errors.Is(err, sarama.ErrRebalanceInProgress) {
			s.log.Warn("commit failed", "err", err)
		}
	}
}

// hasFirstPositions reports whether a partition has no committed position yet.
func (s *Source) hasFirstPositions(a *assignment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range a.parts {
		if p.gone == nil && p.tracker.committed < 0 {
			return true
		}
	}
	return false
}

// commit sends one request for all positions of a that moved, and reports what
// the broker confirmed. Some may be confirmed even if an error is returned.
func (s *Source) commit(a *assignment) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	req := &sarama.OffsetCommitRequest{
		Version:                 7,
		ConsumerGroup:           s.opts.Group,
		ConsumerGroupGeneration: a.group.GenerationID(),
		ConsumerID:              a.group.MemberID(),
	}
	sent := make(map[*partition]int64)
	s.mu.Lock()
	for _, p := range a.parts {
		// Where a topic is absent there is nothing to commit to. If it is back
		// before it is given up, the next commit has all of it.
		if p.gone == nil && a.absent[p.Topic].IsZero() && p.tracker.dirty() {
			sent[p] = p.tracker.position
			req.AddBlockWithLeaderEpoch(p.Topic, p.Partition, p.tracker.position, -1, 0, tag(p.TopicID))
		}
	}
	s.mu.Unlock()
	if len(sent) == 0 {
		return nil
	}
	resp, err := s.sendCommit(req)
	if err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	var errs []error
	var events []sharetask.Event
	s.mu.Lock()
	for p, offset := range sent {
		kerr, answered := resp.Errors[p.Topic][p.Partition]
		if !answered || kerr != sarama.ErrNoError {
			errs = append(errs, fmt.Errorf("%s-%d: %w", p.Topic, p.Partition, kerr))
			if kerr == sarama.ErrUnknownTopicOrPartition {
				s.suspect()
			}
			continue
		}
		if p.gone != nil {
			continue
		}
		covered := p.tracker.commit(offset)
		for _, v := range []sharetask.Verdict{sharetask.Accept, sharetask.Reject} {
			e := &sharetask.Acknowledged{TopicPartition: p.TopicPartition, Session: a.session, Verdict: v}
			for _, c := range covered {
				if c.verdict == v {
					e.Ranges = append(e.Ranges, c.Range)
				}
			}
			if e.Ranges != nil {
				events = append(events, e)
			}
		}
	}
	s.mu.Unlock()
	for _, e := range events {
		s.events <- e
	}
	if len(errs) > 0 {
		s.coordinatorMoved(errs[0])
		return fmt.Errorf("commit offsets: %w", errors.Join(errs...))
	}
	return nil
}

func (s *Source) sendCommit(req *sarama.OffsetCommitRequest) (*sarama.OffsetCommitResponse, error) {
	coordinator, err := s.side.Coordinator(s.opts.Group)
	if err != nil {
		return nil, err
	}
	resp, err := coordinator.CommitOffset(req)
	if err != nil {
		_ = coordinator.Close() // the next attempt opens another connection
		s.coordinatorMoved(sarama.ErrNotCoordinatorForConsumer)
		return nil, err
	}
	return resp, nil
}

// coordinatorMoved looks for the coordinator anew where err says so.
func (s *Source) coordinatorMoved(err error) {
	if !errors.Is(err, sarama.ErrNotCoordinatorForConsumer) && !errors.Is(err, sarama.ErrConsumerCoordinatorNotAvailable) {
		return
	}
	if err := s.side.RefreshCoordinator(s.opts.Group); err != nil {
		s.log.Debug("group coordinator not found", "err", err)
	}
}

// commitFinally commits until it succeeds, cannot any more, or time is over. It
// returns the last error.
func (s *Source) commitFinally(a *assignment, deadline time.Time) error {
	s.reportReleased(a)
	for {
		err := s.commit(a)
		if err == nil || fenced(err) || time.Now().After(deadline) {
			return err
		}
		if bound, end := s.ending(); end && bound.Err() != nil {
			return err
		}
		if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
			_ = s.proveAll(a) // what is absent is committed no more
		}
		if wait := s.wait(s.life, commitRetry); wait != nil {
			return err
		}
	}
}

// reportReleased confirms releases: there is no broker to ask.
func (s *Source) reportReleased(a *assignment) {
	var events []sharetask.Event
	s.mu.Lock()
	for _, p := range a.parts {
		if ranges := p.tracker.takeReleased(); ranges != nil {
			events = append(events, &sharetask.Acknowledged{TopicPartition: p.TopicPartition, Session: a.session, Verdict: sharetask.Release, Ranges: ranges})
		}
	}
	s.mu.Unlock()
	for _, e := range events {
		s.events <- e
	}
}
