package consumergroup

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// leaveTimeout bounds the end of a source that failed.
const leaveTimeout = 5 * time.Second

// run holds the membership until the source is closed or fails.
func (s *Source) run() {
	defer close(s.done)
	defer close(s.events)
	defer s.abort()
	var helpers sync.WaitGroup
	helpers.Go(s.watchErrors)
	helpers.Go(s.commitLoop)

	s.consume()

	s.mu.Lock()
	failure := s.failure
	s.mu.Unlock()
	if failure != nil {
		time.AfterFunc(leaveTimeout, s.conns.cutAll)
	}
	err := s.group.Close() // Leaves; ends watchErrors.
	s.abort()              // Ends commitLoop.
	s.disconnect()
	helpers.Wait()
	if failure != nil {
		s.events <- &sharetask.Failed{Err: failure}
		return
	}
	s.closeErr = err
}

// consume joins the group again and again.
func (s *Source) consume() {
	for failures := 0; ; {
		if _, end := s.ending(); end {
			return
		}
		began := time.Now()
		err := s.once()
		switch {
		case errors.Is(err, sarama.ErrInconsistentGroupProtocol):
			// What a classic member is told that comes to a share group's
			// name, but also one none of whose strategies the others know.
			if kind := s.checkKind(); kind != nil {
				err = kind
			}
			s.fail(err)
		case err != nil && fatal(err):
			s.fail(err)
		case err == nil, time.Since(began) > s.opts.SessionTimeout:
			failures = 0
		default:
			if _, end := s.ending(); end {
				return
			}
			s.log.Warn("group membership failed", "err", err)
			s.pause(backoff(failures))
			failures++
		}
	}
}

// once is one membership, from joining to the end of the assignment.
func (s *Source) once() error {
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	s.mu.Lock()
	if s.closing != nil || s.failure != nil {
		s.mu.Unlock()
		return nil
	}
	s.stop = cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.stop = nil
		s.mu.Unlock()
	}()

	topics, err := s.topics()
	if err != nil {
		return err
	}
	if len(topics) == 0 {
		if s.regex == nil {
			return errAbsent
		}
		s.log.Warn("no topic matches", "expression", s.opts.TopicRegex)
		return s.wait(ctx, s.opts.MetadataInterval)
	}
	s.mu.Lock()
	s.replaced = nil
	s.mu.Unlock()
	var watch sync.WaitGroup
	watch.Go(func() { s.watchTopics(ctx, topics, cancel) })
	watch.Go(func() { s.watchIdentity(ctx, cancel) })
	err = s.group.Consume(ctx, slices.Sorted(maps.Keys(topics)), handler{s})
	cancel()
	watch.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(err, s.replaced)
}

// topics returns what to subscribe to, with the ids: the topics that exist, and
// those of which the broker tells something else.
func (s *Source) topics() (map[string]pluginapi.TopicID, error) {
	names := s.opts.Topics
	if s.regex != nil {
		all, err := s.admin.ListTopics()
		if err != nil {
			return nil, err
		}
		names = nil
		for name := range all {
			if s.regex.MatchString(name) && name != "__consumer_offsets" && name != "__share_group_state" && name != "__transaction_state" {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return nil, nil // An empty request would mean all.
		}
	}
	described, err := s.admin.DescribeTopics(names)
	if err != nil {
		return nil, err
	}
	topics := make(map[string]pluginapi.TopicID, len(described))
	for _, t := range described {
		if t.Err == sarama.ErrUnknownTopicOrPartition {
			continue
		}
		topics[t.Name] = pluginapi.TopicID(t.Uuid)
		if t.Err == sarama.ErrNoError {
			s.remember(t.Name, topics[t.Name])
		}
	}
	return topics, nil
}

// watchTopics ends the membership when there are other topics than those it was
// begun with.
func (s *Source) watchTopics(ctx context.Context, subscribed map[string]pluginapi.TopicID, end func()) {
	for s.wait(ctx, s.opts.MetadataInterval) == nil {
		topics, err := s.topics()
		if err != nil {
			s.log.Warn("topics cannot be listed", "err", err)
			continue
		}
		if !maps.Equal(topics, subscribed) {
			s.log.Info("other topics match, subscribing again", "topics", len(topics))
			s.suspect()
			end()
			return
		}
	}
}

// wait returns nil after d, or ctx's error.
func (s *Source) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause waits for d or until the source is to end.
func (s *Source) pause(d time.Duration) {
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	s.mu.Lock()
	if s.closing != nil || s.failure != nil {
		s.mu.Unlock()
		return
	}
	s.stop = cancel
	s.mu.Unlock()
	_ = s.wait(ctx, d) // either way the caller looks what to do
	s.mu.Lock()
	s.stop = nil
	s.mu.Unlock()
}

// watchErrors reads what the library reports beside its calls. Most of it mends
// itself.
func (s *Source) watchErrors() {
	for err := range s.group.Errors() {
		if fatal(err) {
			s.fail(err)
			continue
		}
		var of *sarama.ConsumerError
		if errors.As(err, &of) {
			s.log.Warn("fetch failed", "topic", of.Topic, "partition", of.Partition, "err", of.Err)
			continue
		}
		s.log.Warn("group membership reports", "err", err)
	}
}
