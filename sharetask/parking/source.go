package parking

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicehq/sluice/sharetask"
)

// closeGrace bounds closing one source because the other has failed.
const closeGrace = 10 * time.Second

// source is a connector's source and that of its retry topic as one.
type source struct {
	main, retry sharetask.Source
	topic       string // The retry topic.
	group       string // The connector's.
	events      chan sharetask.Event
	ended       chan struct{} // Closed when either has failed.
	once        sync.Once
}

var _ sharetask.Source = (*source)(nil)

// Join makes one source of main, of the given group, and of retry, which reads
// topic, the retry topic: what that delivers comes with [sharetask.Acquired.Origins]. When one
// of them fails, so does the whole, and the other is closed.
func Join(main, retry sharetask.Source, topic, group string) sharetask.Source {
	return &source{main: main, retry: retry, topic: topic, group: group, events: make(chan sharetask.Event, 4), ended: make(chan struct{})}
}

// Start implements [sharetask.Source].
func (s *source) Start(ctx context.Context) error {
	if err := s.main.Start(ctx); err != nil {
		return err
	}
	if err := s.retry.Start(ctx); err != nil {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		go drain(s.main.Events())
		return errors.Join(fmt.Errorf("read retry topic: %w", err), s.main.Close(closeCtx))
	}
	var forwarders sync.WaitGroup
	forwarders.Go(func() { s.forward(s.main, s.retry, false) })
	forwarders.Go(func() { s.forward(s.retry, s.main, true) })
	go func() {
		forwarders.Wait()
		close(s.events)
	}()
	return nil
}

func drain(events <-chan sharetask.Event) {
	for range events { // Nobody listens any more.
	}
}

// forward passes on from's events, those of the retry topic where parked is
// set, until they end, or the other source has failed.
func (s *source) forward(from, other sharetask.Source, parked bool) {
	for ev := range from.Events() {
		switch ev := ev.(type) {
		case *sharetask.Failed:
			failed := false
			s.once.Do(func() { close(s.ended); failed = true })
			if failed {
				ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
				_ = other.Close(ctx) // The failure is what is told.
				cancel()
				s.events <- ev
			}
			return
		case *sharetask.Acquired:
			if parked {
				ev.Origins = make([]sharetask.Origin, len(ev.Records))
				for i := range ev.Records {
					ev.Origins[i] = unpark(&ev.Records[i], s.group)
				}
			}
		case *sharetask.Stalled, *sharetask.Assigned:
			if parked { // They are about the topics the connector reads.
				continue
			}
		}
		select {
		case <-s.ended:
		default:
			select {
			case s.events <- ev:
			case <-s.ended:
			}
		}
	}
}

// Events implements [sharetask.Source].
func (s *source) Events() <-chan sharetask.Event { return s.events }

// Request implements [sharetask.Source].
func (s *source) Request(total sharetask.Room) {
	s.main.Request(sharetask.Room{Records: total.Records, Bytes: total.Bytes})
	s.retry.Request(sharetask.Room{Records: total.Parked, Bytes: total.ParkedBytes})
}

// Decide implements [sharetask.Source].
func (s *source) Decide(decisions []sharetask.Decision) {
	var main, retry []sharetask.Decision
	for i := range decisions {
		if decisions[i].Topic == s.topic {
			retry = append(retry, decisions[i])
		} else {
			main = append(main, decisions[i])
		}
	}
	if len(main) > 0 {
		s.main.Decide(main)
	}
	if len(retry) > 0 {
		s.retry.Decide(retry)
	}
}

// Close implements [sharetask.Source].
func (s *source) Close(ctx context.Context) error {
	var closing sync.WaitGroup
	errs := make([]error, 2)
	closing.Go(func() { errs[0] = s.main.Close(ctx) })
	closing.Go(func() { errs[1] = s.retry.Close(ctx) })
	closing.Wait()
	return errors.Join(errs...)
}
