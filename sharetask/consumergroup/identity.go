package consumergroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/sluicehq/sluice/pluginapi"
)

const (
	// proofAge is how old a proof may be when a batch is handed out.
	proofAge = 500 * time.Millisecond
	// proofRetry is the pause between attempts to get a proof.
	proofRetry = time.Second
	// absentFor is how long a topic must be absent to be taken for deleted: a
	// broker that has just started may not know it yet.
	absentFor = 3 * time.Second
	// maxSeen bounds how many topics a source remembers.
	maxSeen = 100_000

	tagPrefix = "sluice.topic_id="
)

// seen is what a source knows of a topic since it started.
type seen struct {
	id    pluginapi.TopicID
	young bool // Its name had another id before: all of it was made while this source ran.
}

// tag is the metadata of a position: the topic it is a position in. It is empty
// where the broker tells no ids.
func tag(id pluginapi.TopicID) string {
	if id == (pluginapi.TopicID{}) {
		return ""
	}
	return tagPrefix + id.String()
}

// ofAnother reports whether a position's metadata says it belongs to a topic
// that is not id.
func ofAnother(metadata string, id pluginapi.TopicID) bool {
	return id != (pluginapi.TopicID{}) && strings.HasPrefix(metadata, tagPrefix) && metadata != tag(id)
}

// remember notes the id a topic has now, and reports whether the topic was made
// while this source ran.
func (s *Source) remember(topic string, id pluginapi.TopicID) (young bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.seen[topic]
	if known && was.id == id {
		return was.young
	}
	if len(s.seen) >= maxSeen {
		clear(s.seen) // Costs what it is for, of topics deleted just now.
	}
	s.seen[topic] = seen{id, known}
	return known
}

// suspect notes that a topic may have been deleted: nothing is handed out before
// the leaders have been asked again.
func (s *Source) suspect() {
	s.doubts.Add(1)
	signal(s.doubt)
}

// proven reports whether p's topic was the assigned one a moment ago. It asks
// until it knows, and reports false when ctx ends.
func (s *Source) proven(ctx context.Context, a *assignment, p *partition) bool {
	for {
		err := s.prove(a, p, time.Now().Add(-proofAge))
		if err == nil {
			return true
		}
		if errors.Is(err, errReplaced) || s.wait(ctx, proofRetry) != nil {
			return false
		}
	}
}

// proveAll does the same once for all partitions of a. It returns an error that
// is errReplaced if any topic is gone.
func (s *Source) proveAll(a *assignment) error {
	since := time.Now()
	var errs []error
	for _, p := range a.parts {
		errs = append(errs, s.prove(a, p, since))
	}
	return errors.Join(errs...)
}

// prove makes sure that p's topic is the assigned one: that its leader said so
// since a time, and since the last doubt. A leader knows a new topic before it
// reads from it, so what was fetched before its answer is of the topic it names.
// The answer counts for all partitions with that leader. The error is
// errReplaced where the topic is gone, which is noted then.
func (s *Source) prove(a *assignment, p *partition, since time.Time) error {
	s.proveMu.Lock()
	defer s.proveMu.Unlock()
	doubts := s.doubts.Load()
	s.mu.Lock()
	gone, done := p.gone, !p.proved.Before(since) && p.provedDoubts == doubts
	s.mu.Unlock()
	switch {
	case gone != nil:
		return gone
	case done:
		return nil
	}
	broker, err := s.leader(p)
	if err != nil {
		return fmt.Errorf("find the leader of %s-%d: %w", p.Topic, p.Partition, err)
	}
	began := time.Now()
	resp, err := broker.GetMetadata(sarama.NewMetadataRequest(s.config.Version, s.ledBy(a, p)))
	if err != nil {
		_ = broker.Close() // the next attempt opens another connection
		return fmt.Errorf("ask for the topic id of %s: %w", p.Topic, err)
	}
	for _, t := range resp.Topics {
		s.judge(a, p.leader, t, began, doubts)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.gone == nil && (p.proved.Before(began) || p.provedDoubts != doubts) {
		return fmt.Errorf("topic %s: %w", p.Topic, errUnproven)
	}
	return p.gone
}

// ledBy returns the topics of which p's leader has partitions.
func (s *Source) ledBy(a *assignment, p *partition) []string {
	names := []string{p.Topic}
	had := map[string]bool{p.Topic: true}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range a.parts {
		if o.leader == p.leader && o.gone == nil && !had[o.Topic] {
			had[o.Topic] = true
			names = append(names, o.Topic)
		}
	}
	return names
}

// judge notes what a leader said of a topic.
func (s *Source) judge(a *assignment, leader int32, t *sarama.TopicMetadata, began time.Time, doubts int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range a.parts {
		if p.Topic != t.Name || p.gone != nil {
			continue
		}
		id := pluginapi.TopicID(t.Uuid)
		switch {
		case t.Err == sarama.ErrUnknownTopicOrPartition:
			if a.absent[t.Name].IsZero() {
				a.absent[t.Name] = began
			}
			if began.Sub(a.absent[t.Name]) >= absentFor {
				p.gone = fmt.Errorf("topic %s was deleted: %w", t.Name, errReplaced)
			}
		case t.Err != sarama.ErrNoError && t.Err != sarama.ErrLeaderNotAvailable:
		case p.TopicID != id && p.TopicID != (pluginapi.TopicID{}) && id != (pluginapi.TopicID{}):
			p.gone = fmt.Errorf("topic %s was deleted and made again: %w", t.Name, errReplaced)
		default:
			delete(a.absent, t.Name)
			if p.leader == leader {
				p.proved, p.provedDoubts = began, doubts
			}
		}
		if p.gone != nil {
			s.replaced = p.gone
		}
	}
}

// leader returns the broker p is fetched from, on a connection that no fetch
// waits on, or any broker where there is no leader. It notes which one.
func (s *Source) leader(p *partition) (*sarama.Broker, error) {
	broker, err := s.member.Leader(p.Topic, p.Partition)
	if err != nil {
		if broker, err = s.side.Controller(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	p.leader = broker.ID()
	s.mu.Unlock()
	if own, err := s.side.Broker(broker.ID()); err == nil {
		return own, nil
	}
	return broker, nil
}

// watchIdentity asks the leaders when there is a doubt, until it is resolved. It
// ends the membership when a topic is gone: with the next one the partitions of
// the new topic are given out.
func (s *Source) watchIdentity(ctx context.Context, end func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.doubt:
		}
		for {
			s.mu.Lock()
			a := s.current
			s.mu.Unlock()
			if a == nil {
				break
			}
			err := s.proveAll(a)
			if errors.Is(err, errReplaced) {
				end()
				return
			}
			if err == nil {
				break
			}
			s.log.Debug("topics are in doubt", "err", err)
			if s.wait(ctx, proofRetry) != nil {
				return
			}
		}
	}
}
