package sharegroup

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/sharetask"
)

// scripted is an embedded cluster that answers as a test says, where it says
// something, and notes the share requests it was sent.
type scripted struct {
	*kfake.Cluster
	bootstrap    []string
	topic, group string

	mu       sync.Mutex
	sessions []sessionRequest
	beats    []int32 // Member epochs of the heartbeats.
	script   func(kmsg.Request) kmsg.Response
	skipped  map[string]int32 // By member and broker: requests of its session the cluster has not seen.
}

// sessionRequest is one request of a share session.
type sessionRequest struct {
	name  string
	epoch int32
	acks  int
	renew bool
}

func newScripted(t *testing.T, partitions int32, brokers int, opts ...kfake.Opt) *scripted {
	t.Helper()
	s := &scripted{topic: "orders", group: "g-" + strconv.FormatInt(time.Now().UnixNano(), 36), skipped: map[string]int32{}}
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(brokers), kfake.SeedTopics(partitions, s.topic))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s.Cluster, s.bootstrap = c, c.ListenAddrs()
	configure(t, s.bootstrap, s.group, map[string]string{"share.auto.offset.reset": "earliest"})
	for _, key := range []int16{
		kmsg.NewPtrShareFetchRequest().Key(), kmsg.NewPtrShareAcknowledgeRequest().Key(), kmsg.NewPtrShareGroupHeartbeatRequest().Key(),
	} {
		c.ControlKey(key, func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.note(req)
			var resp kmsg.Response
			if s.script != nil {
				resp = s.script(req)
			}
			s.keepEpoch(req, c.CurrentNode(), resp != nil)
			if resp == nil {
				return nil, nil, false
			}
			resp.SetVersion(req.GetVersion())
			return resp, nil, true
		})
	}
	return s
}

// keepEpoch makes the cluster's count of a session's requests leave out those
// that the script answered with success.
func (s *scripted) keepEpoch(req kmsg.Request, node int32, answered bool) {
	var epoch *int32
	var member string
	switch r := req.(type) {
	case *kmsg.ShareFetchRequest:
		epoch, member = &r.ShareSessionEpoch, *r.MemberID
	case *kmsg.ShareAcknowledgeRequest:
		epoch, member = &r.ShareSessionEpoch, *r.MemberID
	default:
		return
	}
	key := fmt.Sprint(member, node)
	switch {
	case *epoch < 1:
		delete(s.skipped, key)
	case answered:
		s.skipped[key]++
	default:
		*epoch -= s.skipped[key]
	}
}

func (s *scripted) note(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.ShareFetchRequest:
		n := 0
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				n += len(p.AcknowledgementBatches)
			}
		}
		s.sessions = append(s.sessions, sessionRequest{"fetch", r.ShareSessionEpoch, n, false})
	case *kmsg.ShareAcknowledgeRequest:
		n := 0
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				n += len(p.AcknowledgementBatches)
			}
		}
		s.sessions = append(s.sessions, sessionRequest{"acknowledge", r.ShareSessionEpoch, n, r.IsRenewAck})
	case *kmsg.ShareGroupHeartbeatRequest:
		s.beats = append(s.beats, r.MemberEpoch)
	}
}

// answer makes the cluster answer by f, which is called with each share
// request; nil leaves it to the cluster. It replaces the script before.
func (s *scripted) answer(f func(kmsg.Request) kmsg.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = f
}

// once makes f answer the first request it answers, and nothing more.
func (s *scripted) once(f func(kmsg.Request) kmsg.Response) (asked <-chan struct{}) {
	done := make(chan struct{})
	s.answer(func(req kmsg.Request) kmsg.Response {
		resp := f(req)
		if resp != nil {
			s.script = nil
			close(done)
		}
		return resp
	})
	return done
}

func (s *scripted) requests() []sessionRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sessionRequest(nil), s.sessions...)
}

// fetchError answers a session's fetches with a top-level error, but not the
// one that opens it.
func fetchError(err *kerr.Error) func(kmsg.Request) kmsg.Response {
	return func(req kmsg.Request) kmsg.Response {
		r, ok := req.(*kmsg.ShareFetchRequest)
		if !ok || r.ShareSessionEpoch < 1 {
			return nil
		}
		resp := kmsg.NewPtrShareFetchResponse()
		resp.ErrorCode = err.Code
		return resp
	}
}

// ackErrors answers the verdicts of a request with err and acquires nothing.
func ackErrors(err *kerr.Error, renewals bool) func(kmsg.Request) kmsg.Response {
	return func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.ShareFetchRequest:
			resp, n := kmsg.NewPtrShareFetchResponse(), 0
			for _, t := range r.Topics {
				rt := kmsg.NewShareFetchResponseTopic()
				rt.TopicID = t.TopicID
				for _, p := range t.Partitions {
					rp := kmsg.NewShareFetchResponseTopicPartition()
					rp.Partition, rp.AcknowledgeErrorCode = p.Partition, err.Code
					n += len(p.AcknowledgementBatches)
					rt.Partitions = append(rt.Partitions, rp)
				}
				resp.Topics = append(resp.Topics, rt)
			}
			if n == 0 || renewals {
				return nil
			}
			return resp
		case *kmsg.ShareAcknowledgeRequest:
			if len(r.Topics) == 0 || r.IsRenewAck != renewals {
				return nil
			}
			resp := kmsg.NewPtrShareAcknowledgeResponse()
			for _, t := range r.Topics {
				rt := kmsg.NewShareAcknowledgeResponseTopic()
				rt.TopicID = t.TopicID
				for _, p := range t.Partitions {
					rp := kmsg.NewShareAcknowledgeResponseTopicPartition()
					rp.Partition, rp.ErrorCode = p.Partition, err.Code
					rt.Partitions = append(rt.Partitions, rp)
				}
				resp.Topics = append(resp.Topics, rt)
			}
			return resp
		default:
			return nil
		}
	}
}

// holding joins a member that holds the topic's records.
func (s *scripted) holding(t *testing.T, n int) (*member, *sharetask.Acquired) {
	t.Helper()
	produce(t, s.bootstrap, s.topic, numbered(n)...)
	m := join(t, options(s.bootstrap, s.topic, s.group))
	m.Request(plenty())
	a := next[*sharetask.Acquired](m)
	if len(a.Records) != n {
		t.Fatalf("got %d records, want %d", len(a.Records), n)
	}
	return m, a
}

// A session the broker no longer knows, or knows under another epoch, takes all
// that is held with it. It is closed where it may be there still, opened again,
// and the records come again.
func TestSessionErrorsLoseEverythingHeld(t *testing.T) {
	for _, tt := range []struct {
		err    *kerr.Error
		closes bool
	}{
		{kerr.ShareSessionNotFound, false},
		{kerr.InvalidShareSessionEpoch, true},
		{kerr.UnknownServerError, true},
	} {
		t.Run(tt.err.Message, func(t *testing.T) {
			s := newScripted(t, 1, 1)
			m, a := s.holding(t, 3)
			before := len(s.requests())
			<-s.once(fetchError(tt.err))
			lost := next[*sharetask.Lost](m)
			if lost.Session != a.Session || lost.Ranges != nil || !errors.Is(lost.Cause, tt.err) {
				t.Errorf("got %+v, want all of session %d lost for %v", lost, a.Session, tt.err)
			}
			if tt.closes {
				again := next[*sharetask.Acquired](m)
				if again.Session == a.Session || again.DeliveryCounts[0] != 2 {
					t.Errorf("came again in session %d with count %d", again.Session, again.DeliveryCounts[0])
				}
				m.decide(again, sharetask.Accept, span(again))
				next[*sharetask.Acknowledged](m)
			}
			closed, opened := false, false
			for _, r := range s.requests()[before:] {
				closed = closed || r.epoch == epochClose
				if r.epoch == epochOpen {
					opened = true
					if r.acks > 0 {
						t.Error("acknowledgements in the request that opens a session (SHARE-04)")
					}
				}
			}
			if tt.closes && (!closed || !opened) {
				t.Errorf("closed %t, opened %t; want both: %v", closed, opened, s.requests()[before:])
			}
		})
	}
}

// The broker has forgotten the session when an acknowledgement arrives, as after a
// reset of its cache: the acknowledgement is reported lost, not taken along into the
// request that opens the next session, and reading goes on (SHARE-04).
func TestAcknowledgementForASessionTheBrokerForgot(t *testing.T) {
	s := newScripted(t, 1, 1, kfake.BrokerConfigs(map[string]string{
		"group.share.record.lock.duration.ms": "2000", "share.record.lock.sweep.interval.ms": "50",
	}))
	m, a := s.holding(t, 3)
	before := len(s.requests())
	forgot := s.once(func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.ShareAcknowledgeRequest:
			resp := kmsg.NewPtrShareAcknowledgeResponse()
			resp.ErrorCode = kerr.ShareSessionNotFound.Code
			return resp
		case *kmsg.ShareFetchRequest:
			if len(r.Topics) == 0 || len(r.Topics[0].Partitions[0].AcknowledgementBatches) == 0 {
				return nil
			}
			resp := kmsg.NewPtrShareFetchResponse()
			resp.ErrorCode = kerr.ShareSessionNotFound.Code
			return resp
		}
		return nil
	})
	m.decide(a, sharetask.Accept, span(a))
	<-forgot
	if lost := next[*sharetask.Lost](m); lost.Verdict != sharetask.Accept || lost.Ranges[0] != span(a) || !errors.Is(lost.Cause, kerr.ShareSessionNotFound) {
		t.Errorf("got %+v, want the accept lost", lost)
	}
	again := next[*sharetask.Acquired](m)
	if again.Session == a.Session || len(again.Records) != 3 || again.DeliveryCounts[0] != 2 {
		t.Errorf("got %d records in session %d, want the three again in another", len(again.Records), again.Session)
	}
	m.decide(again, sharetask.Accept, span(again))
	next[*sharetask.Acknowledged](m)
	opened := 0
	for _, r := range s.requests()[before:] {
		if r.epoch != epochOpen {
			continue
		}
		if opened++; r.acks > 0 {
			t.Errorf("acknowledgements in the request that opens a session: %+v", r)
		}
	}
	if opened != 1 {
		t.Errorf("the session was opened %d times, want once", opened)
	}
}

// A leader falls silent, a fetch waiting there. As long as it leads its partition it
// is waited for; once another broker does, what comes there is read soon, not after
// the long time a request is given (SHARE-08).
func TestALeaderThatIsGoneWithoutAWordIsLeft(t *testing.T) {
	s := newScripted(t, 1, 2, kfake.BrokerConfigs(map[string]string{
		"group.share.record.lock.duration.ms": "2000", "share.record.lock.sweep.interval.ms": "50",
	}))
	m, a := s.holding(t, 1)
	m.decide(a, sharetask.Accept, span(a))
	next[*sharetask.Acknowledged](m)
	leader := s.LeaderFor(s.topic, 0)
	var silenced atomic.Bool
	forEver, asked := make(chan struct{}), make(chan struct{})
	s.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.KeepControl()
		if s.CurrentNode() == leader && req.Key() == int16(kmsg.ShareFetch) {
			if !silenced.Swap(true) {
				close(asked)
			}
			s.SleepControl(func() { <-forEver })
		}
		return nil, nil, false
	})
	t.Cleanup(func() { close(forEver) })
	<-asked
	m.none(2500 * time.Millisecond)
	m.mu.Lock()
	epoch := m.leaders[leader].session.epoch
	m.mu.Unlock()
	if epoch == epochOpen {
		t.Error("the session was given up though its broker leads the partition")
	}
	began := time.Now()
	if err := s.MoveTopicPartition(s.topic, 0, 1-leader); err != nil {
		t.Fatal(err)
	}
	produce(t, s.bootstrap, s.topic, numbered(1)...)
	next[*sharetask.Acquired](m)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it was read after %v", took)
	}
}

// The broker's limits are named, and waited for.
func TestBrokersLimitsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		err  *kerr.Error
		want string
	}{
		{kerr.ShareSessionLimitReached, "group.share.max.share.sessions"},
		{kerr.GroupMaxSizeReached, "group.share.max.size"},
	} {
		t.Run(tt.err.Message, func(t *testing.T) {
			s := newScripted(t, 1, 1)
			produce(t, s.bootstrap, s.topic, numbered(1)...)
			refused := s.once(func(req kmsg.Request) kmsg.Response {
				switch r := req.(type) {
				case *kmsg.ShareFetchRequest:
					if tt.err == kerr.ShareSessionLimitReached && r.ShareSessionEpoch == epochOpen {
						resp := kmsg.NewPtrShareFetchResponse()
						resp.ErrorCode = tt.err.Code
						return resp
					}
				case *kmsg.ShareGroupHeartbeatRequest:
					if tt.err == kerr.GroupMaxSizeReached {
						resp := kmsg.NewPtrShareGroupHeartbeatResponse()
						resp.ErrorCode = tt.err.Code
						return resp
					}
				}
				return nil
			})
			log := newLogged()
			o := options(s.bootstrap, s.topic, s.group)
			o.Logger = log.logger()
			m := join(t, o)
			m.Request(plenty())
			<-refused
			next[*sharetask.Acquired](m)
			if !log.contains(tt.want) {
				t.Errorf("the log does not name %s:\n%s", tt.want, log)
			}
		})
	}
}

// A verdict the share coordinator could not write is sent again until it can;
// one the broker refuses is lost; both at once, not after the lock.
func TestVerdictsThatFail(t *testing.T) {
	t.Run("for now", func(t *testing.T) {
		s := newScripted(t, 1, 1)
		m, a := s.holding(t, 3)
		for _, err := range []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.UnknownServerError} {
			asked := s.once(ackErrors(err, false))
			m.decide(a, sharetask.Accept, sharetask.Range{First: a.Records[0].Offset, Last: a.Records[0].Offset})
			<-asked
			if e := next[*sharetask.Acknowledged](m); e.Verdict != sharetask.Accept || e.Ranges[0].First != a.Records[0].Offset {
				t.Errorf("got %+v, want the accept", e)
			}
			a.Records = a.Records[1:]
		}
	})
	t.Run("for good", func(t *testing.T) {
		s := newScripted(t, 1, 1)
		m, a := s.holding(t, 3)
		asked := s.once(ackErrors(kerr.InvalidRecordState, false))
		m.decide(a, sharetask.Accept, sharetask.Range{First: 1, Last: 1})
		<-asked
		e := next[*sharetask.Lost](m)
		if e.Verdict != sharetask.Accept || len(e.Ranges) != 1 || e.Ranges[0] != (sharetask.Range{First: 1, Last: 1}) || !errors.Is(e.Cause, kerr.InvalidRecordState) {
			t.Errorf("got %+v, want the accept of 1", e)
		}
		m.decide(a, sharetask.Accept, span(a))
		got := next[*sharetask.Acknowledged](m)
		if len(got.Ranges) != 2 {
			t.Errorf("accepted %v, want the two that are left", got.Ranges)
		}
	})
	t.Run("a renewal", func(t *testing.T) {
		s := newScripted(t, 1, 1)
		m, a := s.holding(t, 3)
		asked := s.once(ackErrors(kerr.InvalidRecordState, true))
		m.Decide([]sharetask.Decision{
			{TopicPartition: a.TopicPartition, Session: a.Session, Verdict: sharetask.Renew, Ranges: []sharetask.Range{{First: 0, Last: 1}}},
			{TopicPartition: a.TopicPartition, Session: a.Session, Verdict: sharetask.Accept, Ranges: []sharetask.Range{{First: 2, Last: 2}}},
		})
		<-asked
		var lost, accepted bool
		for !lost || !accepted {
			switch e := next[sharetask.Event](m).(type) {
			case *sharetask.Lost:
				lost = e.Verdict == sharetask.Renew && e.Ranges[0] == sharetask.Range{First: 0, Last: 1}
			case *sharetask.Acknowledged: // Not taken along by the renewal.
				accepted = e.Verdict == sharetask.Accept && e.Ranges[0] == sharetask.Range{First: 2, Last: 2}
			}
		}
	})
}

// A member whose heartbeat got no good answer joins again, since its assignment
// may have been in an answer before, and goes on with the session it has:
// nothing is lost, nothing comes twice.
func TestRefusedMemberJoinsAgainAndKeepsItsSession(t *testing.T) {
	for _, err := range []*kerr.Error{
		kerr.UnknownMemberID, kerr.FencedMemberEpoch, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress,
	} {
		t.Run(err.Message, func(t *testing.T) {
			s := newScripted(t, 1, 1)
			m, a := s.holding(t, 3)
			refused := s.once(func(req kmsg.Request) kmsg.Response {
				r, ok := req.(*kmsg.ShareGroupHeartbeatRequest)
				if !ok || r.MemberEpoch < 1 {
					return nil
				}
				resp := kmsg.NewPtrShareGroupHeartbeatResponse()
				resp.ErrorCode = err.Code
				return resp
			})
			m.membership().signal()
			<-refused
			rejoined := make(chan struct{})
			s.answer(func(req kmsg.Request) kmsg.Response {
				if r, ok := req.(*kmsg.ShareGroupHeartbeatRequest); ok && r.MemberEpoch == epochJoin {
					s.script = nil
					close(rejoined)
				}
				return nil
			})
			<-rejoined
			m.decide(a, sharetask.Accept, span(a))
			if e := next[*sharetask.Acknowledged](m); e.Session != a.Session {
				t.Errorf("acknowledged in session %d, want %d", e.Session, a.Session)
			}
			m.none(300 * time.Millisecond)
		})
	}
}

// Closing sends what was decided, then closes the session, then leaves.
func TestCloseInOrder(t *testing.T) {
	s := newScripted(t, 1, 1)
	m, a := s.holding(t, 3)
	m.Request(sharetask.Room{})
	m.decide(a, sharetask.Accept, sharetask.Range{First: 0, Last: 1})
	m.leave()
	requests := s.requests()
	last := requests[len(requests)-1]
	if last.epoch != epochClose || last.acks != 0 {
		t.Errorf("the last request is %+v, want the close", last)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.beats[len(s.beats)-1]; got != epochLeave {
		t.Errorf("the last heartbeat has epoch %d, want %d", got, epochLeave)
	}
}

// Transaction markers take offsets that no record has: they are acknowledged as
// gaps, or the group would never get past them.
func TestGapsAreAcknowledged(t *testing.T) {
	s := newScripted(t, 1, 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.bootstrap...), kgo.TransactionalID("x"), kgo.DefaultProduceTopic(s.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(t.Context(), numbered(2)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	// 0 1 marker 3 4 marker
	m := join(t, options(s.bootstrap, s.topic, s.group))
	m.Request(plenty())
	var offsets []int64
	for len(offsets) < 4 {
		a := next[*sharetask.Acquired](m)
		for i := range a.Records {
			offsets = append(offsets, a.Records[i].Offset)
			m.decide(a, sharetask.Accept, sharetask.Range{First: a.Records[i].Offset, Last: a.Records[i].Offset})
		}
	}
	if want := []int64{0, 1, 3, 4}; !slices.Equal(offsets, want) {
		t.Errorf("got offsets %v, want %v", offsets, want)
	}
	m.awaitIdle()
	m.leave()
	// Nothing is left for another member.
	other := join(t, options(s.bootstrap, s.topic, s.group))
	other.Request(plenty())
	other.none(500 * time.Millisecond)
}

// What cannot be decoded is given back once. When it comes broken again it is
// the task's to decide, by its coordinates.
func TestUnreadableRecords(t *testing.T) {
	s := newScripted(t, 1, 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(s.bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topic := metadata(t, client, s.topic)
	var verdicts []int8 // Of what was acknowledged, in order.
	deliveries := int16(0)
	s.answer(func(req kmsg.Request) kmsg.Response {
		r, ok := req.(*kmsg.ShareFetchRequest)
		if !ok || r.ShareSessionEpoch < 1 {
			return nil
		}
		acknowledged := false
		for _, rt := range r.Topics {
			for _, p := range rt.Partitions {
				for _, b := range p.AcknowledgementBatches {
					verdicts = append(verdicts, b.AcknowledgeTypes...)
					acknowledged = true
				}
			}
		}
		resp := kmsg.NewPtrShareFetchResponse()
		resp.AcquisitionLockTimeoutMillis = 30_000
		rt := kmsg.NewShareFetchResponseTopic()
		rt.TopicID = topic.TopicID
		rp := kmsg.NewShareFetchResponseTopicPartition()
		if deliveries == 0 || deliveries == 1 && acknowledged {
			deliveries++
			rp.Records = []byte("this is no batch of records, whatever the broker says of it")
			a := kmsg.NewShareFetchResponseTopicPartitionAcquiredRecord()
			a.FirstOffset, a.LastOffset, a.DeliveryCount = 5, 7, deliveries
			rp.AcquiredRecords = append(rp.AcquiredRecords, a)
		}
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp
	})
	m := join(t, options(s.bootstrap, s.topic, s.group))
	m.Request(plenty())
	if e := next[*sharetask.Acknowledged](m); e.Verdict != sharetask.Release || e.Ranges[0] != (sharetask.Range{First: 5, Last: 7}) {
		t.Errorf("first time: got %v %v, want them released", e.Verdict, e.Ranges)
	}
	a := next[*sharetask.Acquired](m)
	if a.Unreadable == nil || len(a.Records) != 3 || a.Records[2].Offset != 7 || a.Records[2].Topic != s.topic || a.DeliveryCounts[2] != 2 {
		t.Fatalf("second time: got %+v", a)
	}
	m.decide(a, sharetask.Accept, span(a))
	if e := next[*sharetask.Acknowledged](m); e.Verdict != sharetask.Accept {
		t.Errorf("got %v, want accept", e.Verdict)
	}
	s.answer(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := []int8{2, 1}; !slices.Equal(verdicts, want) {
		t.Errorf("acknowledged %v, want %v", verdicts, want)
	}
}
