package sharegroup

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/sharetask/sharegroup/fetchconn"
	"github.com/sluicehq/sluice/sharetask/sharegroup/recordbatch"
)

const (
	// eventBuffer is how many events wait for the task at most.
	eventBuffer = 64
	// lockMargin is taken off every lock's end: the broker's timer and our
	// reading of it differ by that at most.
	lockMargin = 100 * time.Millisecond
	// firstRecords is what a leader's first fetch asks for: how large records
	// are, once they are decompressed, is not known before.
	firstRecords = 500
	// defaultLock is Kafka's default of share.record.lock.duration.ms.
	defaultLock = 30 * time.Second
	// leaveTimeout bounds the end of a source that failed.
	leaveTimeout = 5 * time.Second
)

var _ sharetask.Source = (*Source)(nil)

// Source is one member of a share group. Make it with [New].
type Source struct {
	opts    Options
	log     *slog.Logger
	events  chan sharetask.Event
	conn    []kgo.Opt // The connection's options.
	member  *membership
	topics  *topics
	creds   *credentials
	pool    *recordbatch.Pool
	fetches *fetchconn.Exchange

	// Set by Start.
	client *kgo.Client
	life   context.Context    // Ends requests and connections; it lives from Start to the end of run.
	drop   context.CancelFunc // Ends life.
	ending chan struct{}      // Closed by Close and fail.
	done   chan struct{}      // Closed when run has ended.

	mu          sync.Mutex
	room        sharetask.Room // In all, as the contract has it.
	had         sharetask.Room // Delivered so far.
	coming      sharetask.Room // Acquired, and not delivered yet.
	asked       int            // Records of the fetches under way.
	recordBytes int64          // Average size of the records that came lately; 0 before the first.
	lock        time.Duration  // The group's lock duration, as far as known.
	lastStall   bool           // Stalled was reported, and nothing was decided or acquired since.
	parts       map[partitionKey]*partition
	unplaced    map[partitionKey]*partition // Those of parts that no leader has.
	leaders     map[int32]*leader
	lastSession sharetask.Session
	running     sync.WaitGroup  // The leaders' goroutines.
	closing     context.Context // Close's, nil before; bounds the rest.
	failure     error           // Why the source must end.
	leaveErr    error
}

// New returns a source. It opens no connection, but reads the connection's TLS
// files. An error tells every setting that is wrong.
func New(opts Options) (*Source, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("share source: %w", err)
	}
	s := &Source{
		opts:     opts,
		log:      opts.Logger.With("group", opts.Group),
		events:   make(chan sharetask.Event, eventBuffer),
		pool:     recordbatch.NewPool(),
		fetches:  fetchconn.New(),
		ending:   make(chan struct{}),
		done:     make(chan struct{}),
		lock:     opts.Lock,
		parts:    map[partitionKey]*partition{},
		unplaced: map[partitionKey]*partition{},
		leaders:  map[int32]*leader{},
	}
	s.member, s.topics, s.creds = newMembership(s), newTopics(s), newCredentials(s)
	dial, err := opts.Connection.Dialer()
	if err != nil {
		return nil, fmt.Errorf("share source: %w", err)
	}
	s.conn = opts.Connection.FranzOver(s.fetches.Dialer(dial))
	return s, nil
}

// Start looks at the group's kind, which fails with [sharetask.ErrGroupKind]
// if it is not a share group, and begins to read.
func (s *Source) Start(ctx context.Context) error {
	client, err := kgo.NewClient(slices.Concat(s.conn, []kgo.Opt{kgo.WithLogger(clientLog{s.log})})...)
	if err == nil {
		if err = s.checkKind(ctx, client); err != nil {
			client.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("start share source of group %s: %w", s.opts.Group, err)
	}
	s.begin(client)
	return nil
}

// begin joins the group. The source owns the client from then on.
func (s *Source) begin(client *kgo.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = client
	s.life, s.drop = context.WithCancel(context.Background())
	go s.run()
}

// Events returns the channel of events.
func (s *Source) Events() <-chan sharetask.Event { return s.events }

// Request replaces the allowance.
func (s *Source) Request(total sharetask.Room) {
	s.mu.Lock()
	s.room = total
	s.mu.Unlock()
	s.signal()
}

// Decide hands decisions to the sessions they belong to.
func (s *Source) Decide(decisions []sharetask.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range decisions {
		d := &decisions[i]
		p := s.parts[partitionKey{d.TopicID, d.Partition}]
		if p == nil || p.session != d.Session || d.Verdict < sharetask.Accept || d.Verdict > sharetask.Renew {
			continue
		}
		for _, r := range d.Ranges {
			if p.decide(d.Verdict, r) {
				s.lastStall = false
			}
		}
	}
	s.wakeLeaders()
}

// Close ends the membership in order.
func (s *Source) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.life == nil { // Never started.
		s.mu.Unlock()
		return nil
	}
	if s.closing == nil && s.failure == nil {
		s.closing = ctx
		close(s.ending)
	}
	drop := s.drop
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-ctx.Done():
		drop()
		<-s.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.leaveErr
	s.leaveErr = nil // Told once.
	if err != nil {
		return fmt.Errorf("close share source of group %s: %w", s.opts.Group, err)
	}
	return nil
}

// fail ends the source with err.
func (s *Source) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil && s.closing == nil {
		s.failure = err
		close(s.ending)
	}
}

// run keeps the membership until the source is closed or fails, and ends it.
func (s *Source) run() {
	defer close(s.done)
	defer close(s.events)
	defer s.drop()
	var keepers sync.WaitGroup
	keeping, stop := context.WithCancel(s.life)
	keepers.Go(func() { s.member.run(keeping) })
	keepers.Go(func() { s.topics.run(keeping) })
	keepers.Go(func() { s.creds.run(keeping) })
	<-s.ending

	s.mu.Lock()
	ctx, failure := s.closing, s.failure
	s.mu.Unlock()
	if ctx == nil {
		timed, cancel := context.WithTimeout(s.life, leaveTimeout)
		defer cancel()
		ctx = timed
	}
	context.AfterFunc(ctx, s.drop) // When there is no more time, closing the connections gives everything back.
	s.closeSessions()
	s.running.Wait()
	stop()
	keepers.Wait()
	err := s.member.leave(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	s.drop()
	s.client.Close()
	if failure != nil {
		s.events <- &sharetask.Failed{Err: failure}
		return
	}
	s.mu.Lock()
	s.leaveErr = err
	s.mu.Unlock()
}

// closeSessions lets every session send what was decided and close.
func (s *Source) closeSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leaders {
		l.session.closing = true
		open := false
		for _, p := range l.session.parts {
			open = open || p.open > 0
		}
		if l.cancel != nil && !open {
			l.cancel() // A fetch that may wait for seconds, and nothing to lose with its connection.
		}
	}
	s.wakeLeaders()
}

// wakeLeaders must be called with s.mu held.
func (s *Source) wakeLeaders() {
	for _, l := range s.leaders {
		l.signal()
	}
}

func (s *Source) signal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLeaders()
}

// share returns what a leader may fetch now: its part of what is left, so that
// none takes it all. s.mu must be held.
func (s *Source) share(l *leader) room {
	records := s.room.Records - s.had.Records - s.coming.Records
	bytes := s.room.Bytes - s.had.Bytes - s.coming.Bytes
	if records <= 0 || bytes <= 0 || s.creds.refused {
		return room{}
	}
	switch {
	case s.recordBytes > 0:
		records = min(records, max(bytes/s.recordBytes, 1))
	case s.coming.Records > 0:
		return room{} // What comes first tells how large records are.
	}
	single := records == 1
	others := int64(0)
	for _, o := range s.leaders {
		if o != l && len(o.session.parts) > 0 {
			others++
		}
	}
	fair := max(records/(others+1), 1)
	if s.recordBytes == 0 {
		fair = min(fair, firstRecords)
	}
	return room{records: int(min(fair, records-int64(s.asked))), bytes: int(min(bytes, 1<<30)), single: single}
}

// stalled reports that only decisions can make anything more come, once.
func (s *Source) stalled(l *leader) {
	now := time.Now()
	s.mu.Lock()
	report := !s.lastStall && s.coming.Records == 0
	for _, o := range s.leaders {
		report = report && (o == l || len(o.session.parts) == 0 || o.session.stuck(now))
	}
	if report {
		s.lastStall = true
	}
	s.mu.Unlock()
	if report {
		l.outbox <- outcome{events: []sharetask.Event{&sharetask.Stalled{}}}
	}
}

// assign takes a new assignment.
func (s *Source) assign(keys []partitionKey) {
	s.mu.Lock()
	assigned := make(map[partitionKey]bool, len(keys))
	for _, key := range keys {
		assigned[key] = true
		if p := s.parts[key]; p != nil {
			p.revoked = false
			continue
		}
		p := &partition{}
		p.TopicID, p.Partition = key.topic, key.partition
		s.parts[key], s.unplaced[key] = p, p
	}
	for key, p := range s.parts {
		if assigned[key] {
			continue
		}
		p.revoked = true
		if s.unplaced[key] != nil {
			delete(s.parts, key)
			delete(s.unplaced, key)
		}
	}
	s.wakeLeaders()
	s.mu.Unlock()
	s.topics.look()
}

// homeless returns the partitions without a leader.
func (s *Source) homeless() []partitionKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]partitionKey, 0, len(s.unplaced))
	for key := range s.unplaced {
		keys = append(keys, key)
	}
	return keys
}

// late reports whether a request takes longer than a lock.
func (s *Source) late() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leaders {
		if l.late {
			return true
		}
	}
	return false
}

// settle places partitions with their leaders, and waits no more for brokers that
// lead none. It reports whether it has to be done again: a partition has no leader,
// or a request takes long.
func (s *Source) settle(leaders map[partitionKey]int32) bool {
	s.mu.Lock()
	placed, late := false, false
	for _, l := range s.leaders {
		late = late || l.late
		if l.late && l.left(leaders) {
			l.drop()
		}
	}
	for key := range s.unplaced {
		if id, ok := leaders[key]; ok && s.place(key, id) {
			placed = true
		}
	}
	homeless := len(s.unplaced) > 0 || late
	if placed {
		s.wakeLeaders()
	}
	report := s.assigned()
	s.mu.Unlock()
	if placed {
		select {
		case s.events <- report:
		case <-s.life.Done():
		}
	}
	return homeless
}

// assigned returns the event of the partitions this member has. s.mu must be
// held.
func (s *Source) assigned() *sharetask.Assigned {
	e := &sharetask.Assigned{}
	for _, p := range s.parts {
		if !p.revoked && p.Topic != "" {
			e.Partitions = append(e.Partitions, p.TopicPartition)
		}
	}
	return e
}

// place gives a partition to a leader. s.mu must be held.
func (s *Source) place(key partitionKey, id int32) bool {
	p := s.unplaced[key]
	name, ok := s.topics.name(key.topic)
	if !ok || s.closing != nil || s.failure != nil {
		return false
	}
	if p.Topic == "" { // It never changes: others read it without s.mu.
		p.Topic = name
	}
	l := s.leaders[id]
	if l == nil {
		l = &leader{
			s: s, id: id, wake: make(chan struct{}, 1), outbox: make(chan outcome, outboxSize),
			session: newSession(limits{
				locks: int64(s.opts.RecordLocks), records: s.opts.MaxRecords, bytes: s.opts.MaxBytes, maxWait: s.opts.MaxWait,
				careful: int16(s.opts.CarefulFrom), //nolint:gosec // Bounded by Options.
			}, s.nextSession),
			wire: wire{
				broker: s.client.Broker(int(id)), fetches: s.fetches, group: s.opts.Group, member: s.member.id,
				batchSize: int32(s.opts.BatchSize), //nolint:gosec // Bounded by Options.
			},
		}
		// With an id that was used before there may be a session of our dead
		// self's. Opening one in its place would leave what it held locked.
		l.session.broken = s.opts.MemberID != ""
		s.leaders[id] = l
		s.running.Go(l.run)
	}
	delete(s.unplaced, key)
	l.session.place(key, p)
	return true
}

// nextSession numbers a hold. s.mu must be held.
func (s *Source) nextSession() sharetask.Session {
	s.lastSession++
	return s.lastSession
}

// move places a partition that its leader no longer has. s.mu must be held.
func (s *Source) move(m moved) {
	s.unplaced[m.key] = m.part
	if m.leader >= 0 && s.leaders[m.leader] != nil && s.place(m.key, m.leader) {
		s.leaders[m.leader].signal()
	}
}

// scatter takes a leader's partitions away, to be placed where the metadata
// says. s.mu must be held.
func (s *Source) scatter(l *leader) {
	for key, p := range l.session.parts {
		delete(l.session.parts, key)
		if p.revoked {
			delete(s.parts, key)
			continue
		}
		s.unplaced[key] = p
	}
}
