package sharegroup

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/sharetask"
)

// Heartbeats of a member (KIP-932).
const (
	// eagerFirst is when a new member asks for its assignment again: the
	// coordinator computes one within a second and tells it at a heartbeat
	// only, of which the next would be due seconds later. It doubles.
	eagerFirst       = 100 * time.Millisecond
	defaultHeartbeat = 5 * time.Second
	heartbeatTimeout = 10 * time.Second
	maxRejoinPause   = 5 * time.Second
	// remindAfter is after how many failures more it is said again.
	remindAfter = 12

	noCoordinator = -1

	epochJoin  = 0
	epochLeave = -1
)

// membership keeps the group membership. Its fields are owned by the goroutine in
// run.
type membership struct {
	s      *Source
	id     string
	epoch  int32
	joined bool // The coordinator may know the member.
	// coordinator is the broker to ask; noCoordinator if it has to be found.
	// The client's own cache is not used: it keeps a coordinator that has moved
	// for as long as its connection lasts.
	coordinator int32
	interval    time.Duration
	eager       time.Duration // Until the next heartbeat of a member without an assignment.
	assigned    bool
	names       []string // As last told to the coordinator; nil tells them again.
	failures    int
	wake        chan struct{} // Capacity 1: the subscription changed.
}

func newMembership(s *Source) *membership {
	id := s.opts.MemberID
	if id == "" {
		id = NewMemberID()
	}
	return &membership{
		s: s, coordinator: noCoordinator, id: id, interval: defaultHeartbeat, eager: eagerFirst,
		wake: make(chan struct{}, 1),
	}
}

// NewMemberID returns an id that no other member has.
func NewMemberID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // It never fails.
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// run heartbeats until ctx ends.
func (m *membership) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-m.wake:
		case <-ctx.Done():
			return
		}
		next := m.beat(ctx)
		timer.Reset(onGrid(time.Now(), next))
	}
}

// beat sends one heartbeat and returns when the next is due.
func (m *membership) beat(ctx context.Context) time.Duration {
	names := m.s.topics.subscription()
	if len(names) == 0 {
		return m.interval // A regular expression that matches nothing yet: woken when it does.
	}
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch = m.s.opts.Group, m.id, m.epoch
	if m.epoch == epochJoin || !slices.Equal(names, m.names) {
		req.SubscribedTopicNames = names
	}
	beatCtx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	m.joined = true
	resp, err := m.ask(beatCtx, req)
	if err != nil {
		return m.refused(ctx, err)
	}
	m.failures, m.names, m.epoch = 0, names, resp.MemberEpoch
	if resp.HeartbeatIntervalMillis > 0 {
		m.interval = time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond
	}
	if a := resp.Assignment; a != nil {
		keys := make([]partitionKey, 0, len(a.TopicPartitions))
		for _, t := range a.TopicPartitions {
			for _, p := range t.Partitions {
				keys = append(keys, partitionKey{t.TopicID, p})
			}
		}
		m.assigned = len(keys) > 0
		m.s.assign(keys)
	}
	if m.assigned || m.eager >= m.interval {
		return m.interval
	}
	m.eager *= 2
	return m.eager / 2
}

// ask sends a request to the group's coordinator.
func (m *membership) ask(ctx context.Context, req *kmsg.ShareGroupHeartbeatRequest) (*kmsg.ShareGroupHeartbeatResponse, error) {
	if m.coordinator == noCoordinator {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKeys = []string{req.GroupID}
		found, err := find.RequestWith(ctx, m.s.client)
		if err != nil {
			return nil, fmt.Errorf("find coordinator: %w", err)
		}
		if len(found.Coordinators) != 1 {
			return nil, fmt.Errorf("find coordinator: %d answers", len(found.Coordinators))
		}
		c := &found.Coordinators[0]
		if err := brokerError(c.ErrorCode, c.ErrorMessage); err != nil {
			return nil, fmt.Errorf("find coordinator: %w", err)
		}
		m.coordinator = c.NodeID
	}
	answer, err := m.s.client.Broker(int(m.coordinator)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.ShareGroupHeartbeatResponse)
	return resp, brokerError(resp.ErrorCode, resp.ErrorMessage)
}

// refused handles a heartbeat that failed and returns when to try again. What
// is held stays: a share session outlives its member's fencing, and the broker
// takes verdicts by member id.
//
// Whatever failed, the coordinator is looked for and the member joins again
// under its id: it is told its assignment when it joins or when that changes,
// and a change may have been in an answer that did not arrive.
func (m *membership) refused(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		return time.Hour
	}
	pause := min(firstPause<<min(m.failures, 10), maxRejoinPause)
	m.failures++
	m.coordinator = noCoordinator
	m.rejoin()
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		checkCtx, cancel := context.WithTimeout(ctx, kindTimeout)
		defer cancel()
		if kindErr := m.s.checkKind(checkCtx, m.s.client); errors.Is(kindErr, sharetask.ErrGroupKind) {
			m.s.fail(kindErr)
			return time.Hour
		} // Else the group was deleted.
	case fatal(err):
		m.s.fail(fmt.Errorf("join group: %w", err))
		return time.Hour
	}
	level := slog.LevelWarn
	if pause == maxRejoinPause && m.failures%remindAfter != 0 { // It has been said.
		level = slog.LevelDebug
	}
	m.s.log.Log(ctx, level, "heartbeat failed, trying again", "again_in", pause.String(), "err", explain(err))
	return pause
}

func (m *membership) rejoin() {
	m.epoch, m.names, m.assigned, m.eager = epochJoin, nil, false, eagerFirst
}

// leave tells the coordinator that the member is gone.
func (m *membership) leave(ctx context.Context) error {
	if !m.joined {
		return nil
	}
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch = m.s.opts.Group, m.id, epochLeave
	resp, err := req.RequestWith(ctx, m.s.client)
	if err == nil {
		err = brokerError(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil && !errors.Is(err, kerr.UnknownMemberID) && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("leave group: %w", err)
	}
	return nil
}

// signal wakes the goroutine in run.
func (m *membership) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
