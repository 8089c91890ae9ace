package consumergroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// eventBuffer is how many events wait for the task at most.
const eventBuffer = 64

var _ sharetask.Source = (*Source)(nil)

// Source is one member of a consumer group. Make it with [New].
type Source struct {
	opts   Options
	log    *slog.Logger
	config *sarama.Config
	regex  *regexp.Regexp // Nil with names.
	conns  connections
	gate   *gate

	events chan sharetask.Event
	kick   chan struct{} // Capacity 1: there is something to commit or to report at once.
	done   chan struct{} // Closed when everything has ended.

	life   context.Context    // From Start to the end.
	abort  context.CancelFunc // Ends life.
	member sarama.Client      // Of the group: membership and fetches.
	side   sarama.Client      // For commits and questions.
	admin  sarama.ClusterAdmin
	group  sarama.ConsumerGroup

	commitMu sync.Mutex // One commit at a time.
	proveMu  sync.Mutex // One question to a leader at a time.

	doubts atomic.Int64  // How often a topic may have been deleted.
	doubt  chan struct{} // Capacity 1: one was added.

	mu      sync.Mutex
	closing context.Context // Close's, nil before; bounds what is left.
	stop    func()          // Ends the assignment under way; nil between assignments.
	current *assignment     // Nil between assignments.
	last    sharetask.Session
	failure error

	seen     map[string]seen // By topic.
	replaced error           // What ended the membership, if a topic that is gone did.

	closeErr error // Written before done is closed.
}

// assignment is what the group gave this member at one rebalance.
type assignment struct {
	session sharetask.Session
	group   sarama.ConsumerGroupSession
	parts   map[partitionKey]*partition
	decided chan struct{} // Capacity 1: nothing may be open any more.

	absent map[string]time.Time // Topics that are absent, and since when. The source's mutex guards it.
}

type partitionKey struct {
	topic     string
	partition int32
}

// partition is one claim. The source's mutex guards what changes in it.
type partition struct {
	sharetask.TopicPartition
	timestamps pluginapi.TimestampType
	tracker    *tracker
	end        func() int64 // Of the log, as the last fetch told; nil before the first.
	firstEnd   int64        // The same when it was assigned.

	leader       int32     // Whom proofs come from.
	proved       time.Time // Its topic was the assigned one then or later.
	provedDoubts int64     // The source's doubts then.
	gone         error     // Its topic is gone, and with it all that is held; nil before.
	reported     bool      // What was held is reported as lost.
}

// open returns how many records wait for a decision that counts.
func (p *partition) open() int {
	if p.gone != nil {
		return 0
	}
	return p.tracker.open
}

// New returns a source. It opens no connection, but reads the connection's TLS
// files. An error tells every setting that is wrong.
func New(opts Options) (*Source, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("consumer source: %w", err)
	}
	s := &Source{
		opts:   opts,
		log:    opts.Logger.With("group", opts.Group),
		gate:   newGate(),
		events: make(chan sharetask.Event, eventBuffer),
		kick:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		doubt:  make(chan struct{}, 1),
		seen:   make(map[string]seen),
	}
	if opts.TopicRegex != "" {
		s.regex = regexp.MustCompile(opts.TopicRegex) // withDefaults compiled it.
	}
	if s.config, err = opts.config(&s.conns, s.suspect); err != nil {
		return nil, fmt.Errorf("consumer source: %w", err)
	}
	return s, nil
}

// Start connects, looks at the group's kind, which fails with
// [sharetask.ErrGroupKind] if classic members cannot join, and begins to read.
func (s *Source) Start(ctx context.Context) error {
	s.life, s.abort = context.WithCancel(context.Background())
	connected := make(chan error, 1)
	go func() { connected <- s.connect() }()
	var err error
	select {
	case err = <-connected:
	case <-ctx.Done():
		s.conns.cutAll()
		err = errors.Join(ctx.Err(), <-connected)
	}
	if err != nil {
		s.abort()
		s.disconnect()
		return fmt.Errorf("start consumer source of group %s: %w", s.opts.Group, err)
	}
	go s.run()
	return nil
}

func (s *Source) connect() (err error) {
	if s.side, err = sarama.NewClient(s.opts.Connection.Bootstrap, s.config); err != nil {
		return err
	}
	// The client knows neither brokers nor the controller before it asked for a
	// topic. One that does not exist is met again when joining.
	if err = s.side.RefreshMetadata(s.opts.Topics...); err != nil && !errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		return err
	}
	if s.admin, err = sarama.NewClusterAdminFromClient(s.side); err != nil {
		return err
	}
	if err = s.checkKind(); err != nil {
		return err
	}
	if s.member, err = sarama.NewClient(s.opts.Connection.Bootstrap, s.config); err != nil {
		return err
	}
	s.group, err = sarama.NewConsumerGroupFromClient(s.opts.Group, s.member)
	return err
}

// disconnect closes what connect opened.
func (s *Source) disconnect() {
	s.conns.cutAll()
	for _, c := range []sarama.Client{s.member, s.side} {
		if c != nil && !c.Closed() {
			_ = c.Close() // its connections are gone
		}
	}
}

// checkKind asks for the group's kind. A group that does not exist yet, or that
// we may not see, passes, and so does one that new-style consumers left.
func (s *Source) checkKind() error {
	var errs []error
	brokers := s.side.Brokers()
	for _, b := range brokers {
		if err := b.Open(s.config); err != nil && !errors.Is(err, sarama.ErrAlreadyConnected) {
			errs = append(errs, err)
			continue
		}
		resp, err := b.ListGroups(&sarama.ListGroupsRequest{Version: 5})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if kind := resp.GroupsData[s.opts.Group].GroupType; kind == "share" || kind == "streams" {
			return fmt.Errorf("group of type %s: %w", kind, sharetask.ErrGroupKind)
		}
	}
	if len(errs) == len(brokers) {
		return fmt.Errorf("list groups: %w", errors.Join(errs...))
	}
	return nil
}

// Events returns the channel of events.
func (s *Source) Events() <-chan sharetask.Event { return s.events }

// Request replaces the allowance. Without room the partitions stay assigned.
func (s *Source) Request(total sharetask.Room) { s.gate.set(total) }

// Decide notes the decisions. Accepts and rejects are reported once a commit
// has covered them, releases at once, renewals never.
func (s *Source) Decide(decisions []sharetask.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.current
	if a == nil {
		return
	}
	released, open := false, 0
	for i := range decisions {
		d := &decisions[i]
		p := a.parts[partitionKey{d.Topic, d.Partition}]
		if p == nil || d.Session != a.session || p.gone != nil {
			continue
		}
		for _, r := range d.Ranges {
			p.tracker.decide(d.Verdict, r)
		}
		released = released || len(p.tracker.released) > 0
	}
	for _, p := range a.parts {
		open += p.open()
	}
	if open == 0 {
		signal(a.decided)
	}
	if released {
		signal(s.kick)
	}
}

// Close stops reading, commits what was accepted and waits for the broker's
// answer, and leaves the group. If ctx ends first it drops the connections and
// returns ctx's error.
func (s *Source) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closing == nil {
		s.closing = ctx
	}
	stop := s.stop
	if a := s.current; a != nil {
		signal(a.decided)
	}
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		s.abort()
		s.conns.cutAll()
		<-s.done
		return fmt.Errorf("close consumer source of group %s: %w", s.opts.Group, ctx.Err())
	}
	if s.closeErr != nil {
		return fmt.Errorf("close consumer source of group %s: %w", s.opts.Group, s.closeErr)
	}
	return nil
}

// fail makes the source end with err.
func (s *Source) fail(err error) {
	s.mu.Lock()
	if s.failure == nil {
		s.failure = err
	}
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// ending reports whether the source is to end, and the context that bounds it.
func (s *Source) ending() (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing != nil:
		return s.closing, true
	default:
		return s.life, s.failure != nil
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// backoff grows from 250 ms to 10 s while joining fails.
func backoff(failures int) time.Duration {
	return min(250*time.Millisecond<<min(failures, 10), 10*time.Second)
}
