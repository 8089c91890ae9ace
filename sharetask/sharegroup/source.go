package sharegroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// eventBuffer is how many events wait for the task at most.
const eventBuffer = 64

var _ sharetask.Source = (*Source)(nil)

// Source is one member of a share group. Make it with [New].
type Source struct {
	opts   Options
	log    *slog.Logger
	events chan sharetask.Event
	wake   chan struct{} // Capacity 1: something changed for the loop.
	done   chan struct{} // Closed when the loop has ended.

	conn   []kgo.Opt          // The connection's options.
	client *kgo.Client        // The member; made by Start, since it joins by itself. s.mu guards it until then.
	life   context.Context    // Ends the client's requests and connections; it lives from Start to the end of the loop.
	drop   context.CancelFunc // Ends life.

	// incoming is the fetch in the client's buffer. The client's goroutine
	// appends to it until BufferedFetchRecords is not zero, the loop owns it
	// from then on until it drains the buffer.
	incoming []*kgo.Record

	mu       sync.Mutex
	room     sharetask.Room  // In all, as the contract has it.
	had      sharetask.Room  // Delivered so far.
	closing  context.Context // Close's, nil before; bounds the rest of the loop.
	arriving bool            // incoming has records that are not in open yet.
	pollStop func()          // Ends the poll under way; nil if there is none.
	pollDone chan struct{}   // Closed when the poll under way has returned; nil if there is none.
	open     *batch          // The fetch the task works on, nil if there is none.
	ackErrs  map[partitionKey]error
	fetch    fetchTimes
	beats    beatRate
	failure  error // Why the source must end.

	loop loop
}

// partitionKey is a partition as the client's callbacks name it.
type partitionKey struct {
	topic     string
	partition int32
}

// New returns a source. It opens no connection, but reads the connection's TLS
// files. An error tells every setting that is wrong.
func New(opts Options) (*Source, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("share source: %w", err)
	}
	s := &Source{
		opts:    opts,
		log:     opts.Logger.With("group", opts.Group),
		events:  make(chan sharetask.Event, eventBuffer),
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		ackErrs: make(map[partitionKey]error),
		loop:    loop{sessions: make(map[partitionKey]sharetask.Session), topicIDs: make(map[string]pluginapi.TopicID)},
	}
	if s.conn, err = opts.Connection.Franz(); err != nil {
		return nil, fmt.Errorf("share source: %w", err)
	}
	return s, nil
}

// newMember returns a client that joins the group.
func (s *Source) newMember() (*kgo.Client, error) {
	opts := slices.Concat(s.conn, []kgo.Opt{
		kgo.WithContext(s.life),
		kgo.ShareGroup(s.opts.Group),
		kgo.ShareMaxRecords(int32(s.opts.MaxRecords)), //nolint:gosec // at most LimitMaxRecords
		kgo.ShareAckCallback(s.onAcks),
		kgo.MaxConcurrentFetches(0), // Nothing is fetched but by a poll, and from one broker at a time.
		kgo.FetchMaxWait(s.opts.MaxWait),
		kgo.FetchMaxBytes(int32(s.opts.MaxBytes)),          //nolint:gosec // at most 1 GiB
		kgo.FetchMaxPartitionBytes(int32(s.opts.MaxBytes)), //nolint:gosec // at most 1 GiB
		kgo.WithHooks(hooks{s}),
		kgo.WithLogger(clientLog{s.log}),
	})
	if s.opts.TopicRegex != "" {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(s.opts.TopicRegex))
	} else {
		opts = append(opts, kgo.ConsumeTopics(s.opts.Topics...))
	}
	return kgo.NewClient(opts...)
}

// Start looks at the group's kind, which fails with [sharetask.ErrGroupKind]
// if it is not a share group, and begins to read.
func (s *Source) Start(ctx context.Context) error {
	client, err := kgo.NewClient(slices.Concat(s.conn, []kgo.Opt{kgo.WithLogger(clientLog{s.log})})...)
	if err == nil {
		err = s.checkKind(ctx, client)
		client.Close()
	}
	if err == nil {
		err = s.begin()
	}
	if err != nil {
		return fmt.Errorf("start share source of group %s: %w", s.opts.Group, err)
	}
	return nil
}

// begin joins the group and starts the loop.
func (s *Source) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life, s.drop = context.WithCancel(context.Background())
	client, err := s.newMember()
	if err != nil {
		s.drop()
		return err
	}
	s.client = client
	go s.run()
	return nil
}

// Events returns the channel of events.
func (s *Source) Events() <-chan sharetask.Event { return s.events }

// Request replaces the allowance.
func (s *Source) Request(total sharetask.Room) {
	s.mu.Lock()
	s.room = total
	if s.full() {
		if s.pollStop != nil {
			s.pollStop()
		}
	} else if s.client != nil {
		s.limitFetch()
	}
	s.mu.Unlock()
	s.signal()
}

// full reports whether the allowance is used up. s.mu must be held.
func (s *Source) full() bool {
	return s.had.Records >= s.room.Records || s.had.Bytes >= s.room.Bytes
}

// limitFetch bounds the next fetch by the allowance, as far as one can: the
// broker answers with one producer batch at least. s.mu must be held.
func (s *Source) limitFetch() {
	limit := min(s.room.Bytes-s.had.Bytes, int64(s.opts.MaxBytes))
	if records := s.room.Records - s.had.Records; records < int64(s.opts.MaxRecords) {
		limit = min(limit, records*s.fetch.recordBytes)
	}
	limit = max(limit, 1)
	s.client.UpdateFetchMaxBytes(int32(limit), int32(limit)) //nolint:gosec // at most MaxBytes, at most 1 GiB
}

// Decide notes the decisions for the next round.
func (s *Source) Decide(decisions []sharetask.Decision) {
	changed := false
	s.mu.Lock()
	if s.open != nil {
		for i := range decisions {
			changed = s.open.decide(&decisions[i]) || changed
		}
	}
	s.mu.Unlock()
	if changed {
		s.signal()
	}
}

// Close stops acquiring, sends what was decided and waits for the broker's
// answers, closes the share session, which gives the rest back, and leaves the
// group. If ctx ends first it drops the connections, which gives the rest back
// too, and returns ctx's error.
func (s *Source) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.client == nil { // Never started.
		s.mu.Unlock()
		return nil
	}
	first := s.closing == nil
	if first {
		s.closing = ctx
	}
	if s.pollStop != nil {
		s.pollStop()
	}
	s.mu.Unlock()
	s.signal()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.drop()
		<-s.done
	}
	if !first {
		return nil
	}
	if err := s.loop.leaveErr; err != nil {
		return fmt.Errorf("close share source of group %s: %w", s.opts.Group, err)
	}
	return nil
}

// signal wakes the loop.
func (s *Source) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// fail makes the loop end with err.
func (s *Source) fail(err error) {
	s.mu.Lock()
	if s.failure == nil {
		s.failure = err
	}
	if s.pollStop != nil {
		s.pollStop()
	}
	s.mu.Unlock()
	s.signal()
}

// onAcks collects the client's reports of a round. The first error of a
// partition that says most stays.
func (s *Source) onAcks(_ *kgo.Client, results kgo.ShareAckResults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range results {
		if r.Err == nil {
			continue
		}
		key := partitionKey{r.Topic, r.Partition}
		if old := s.ackErrs[key]; old == nil || scopeOf(r.Err) > scopeOf(old) {
			s.ackErrs[key] = r.Err
		}
	}
}

// state is what the loop decides on.
type state struct {
	closing  context.Context
	failure  error
	arriving bool
	final    bool // A final verdict waits.
	renew    bool // A renewal waits.
	open     bool // Records are open.
	full     bool
}

func (s *Source) state() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := state{closing: s.closing, failure: s.failure, arriving: s.arriving, full: s.full()}
	if b := s.open; b != nil {
		st.final, st.renew, st.open = b.final > 0, b.renew > 0, b.open > 0
	}
	return st
}

// errClientClosed is the failure of a source whose client ended by itself.
var errClientClosed = errors.New("the client is closed")

// backoff grows from 100 ms to 5 s while polls fail.
func backoff(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures, 10), 5*time.Second)
}
