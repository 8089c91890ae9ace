package sharegroup

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/sharetask/sharegroup/fetchconn"
)

// Waits of a share session.
const (
	// busyWait is how long the broker may hold a fetch while records are open:
	// their acknowledgements wait behind it.
	busyWait = 50 * time.Millisecond
	// quietWait is the same with nothing open. It grows with the time since
	// the last record to idleWait, which is reached after a minute.
	quietWait = 500 * time.Millisecond
	idleWait  = 5 * time.Second
	quietPart = 12
	// idleGrid is what long waits of all sessions of a worker end on: they
	// then wake it together, and seldom.
	idleGrid = 500 * time.Millisecond
	// gatherWait is how long acknowledgements that make room wait for company
	// where there is no room to fetch.
	gatherWait = 3 * time.Millisecond
)

// Pauses after a failed request.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// epochs of a share session (KIP-932).
const (
	epochOpen  = 0
	epochClose = -1
)

// session is the share session with one leader (KIP-932): its epoch, its
// partitions, and the request under way, of which there is one at most. It is a
// plain state machine without a clock: the source's mutex guards it.
type session struct {
	limits limits
	next   func() sharetask.Session // Numbers a hold.

	epoch int32 // Of the next request; epochOpen with no session at the broker.
	parts map[partitionKey]*partition
	known map[partitionKey]bool // What the broker's session may have; false has to be named again.

	flying  *request
	broken  bool           // The broker may hold a session of ours with another epoch: close it first.
	swept   []partitionKey // Taken out, no longer assigned; the source has to forget them.
	closing bool           // Nothing more is fetched.
	over    bool           // Closed.
	notice  error          // Why the last try failed; nil after a success.
	pause   pause          // After failures.
	gather  time.Time      // Since when acknowledgements wait for company; zero if none does.
	records time.Time      // When a fetch last brought records.
}

// limits of a session, which do not change.
type limits struct {
	locks   int64 // The record-lock window of a partition.
	records int   // Of one fetch.
	bytes   int   // Of one fetch.
	careful int16 // The delivery count from which few are acquired at a time; 0 is never.
	maxWait time.Duration
}

// pause spaces what is tried again.
type pause struct {
	failures int
	until    time.Time
}

func (p *pause) failed(now time.Time) {
	p.until = now.Add(min(firstPause<<min(p.failures, 10), maxPause))
	p.failures++
}

// request is one request of a session, and what it was built from.
type request struct {
	kind     kind
	epoch    int32
	renewals bool
	acks     []partAcks
	add      []partitionKey // Of a fetch: partitions new to the broker's session.
	forget   []partitionKey
	records  int
	bytes    int
	exact    bool // Not a record more than records, even if that splits a producer batch (KIP-1206).
	maxWait  time.Duration
	sent     time.Time
}

type kind uint8

const (
	fetch kind = iota
	acknowledge
	finish // Closes the session: what is held is given back.
)

// partAcks are the verdicts of a request on one partition.
type partAcks struct {
	part *partition
	acks []ack
}

func newSession(l limits, next func() sharetask.Session) *session {
	return &session{limits: l, next: next, parts: map[partitionKey]*partition{}, known: map[partitionKey]bool{}}
}

// place gives a partition to this session's leader.
func (s *session) place(key partitionKey, p *partition) {
	s.parts[key] = p
	if s.known[key] {
		s.known[key] = false // Named again, in case the broker has dropped it.
	}
	p.session = s.next()
	p.watch = watch{count: -1}
}

// room is what may still be acquired.
type room struct {
	records int // Zero stops fetching.
	bytes   int
	single  bool // One record is wanted, to try the target with.
}

// plan returns the next request, which is under way then; or none, and until
// when nothing is to be done unless something changes. The zero time means for
// ever.
func (s *session) plan(now time.Time, r room) (*request, time.Time) {
	switch {
	case s.flying != nil || s.over:
		return nil, time.Time{}
	case now.Before(s.pause.until):
		return nil, s.pause.until
	}
	s.sweep()
	final, renew, open := s.count(now)
	req := &request{epoch: s.epoch, sent: now}
	switch {
	case s.broken:
		req.kind, req.epoch = finish, epochClose
	case s.epoch != epochOpen && renew:
		req.kind, req.renewals, req.acks = acknowledge, true, s.take(now, true)
	case s.mayFetch(now, r):
		s.fetch(req, now, r, open)
	case s.epoch != epochOpen && final:
		if s.gathers(now) && now.Before(s.gather.Add(gatherWait)) {
			return nil, s.gather.Add(gatherWait)
		}
		req.kind, req.acks = acknowledge, s.take(now, false)
	case !s.dueAt(now, r).IsZero():
		return nil, s.dueAt(now, r)
	case s.epoch != epochOpen && (s.closing || len(s.parts) == 0):
		req.kind, req.epoch = finish, epochClose
	default:
		s.over = s.closing
		return nil, time.Time{}
	}
	s.gather = time.Time{}
	s.flying = req
	return req, time.Time{}
}

// sweep takes out the partitions that are no longer assigned and of which
// nothing is held. It is done between requests, so that what a fetch under way
// brings of one still has its place.
func (s *session) sweep() {
	for key, p := range s.parts {
		if p.revoked && p.open == 0 {
			delete(s.parts, key)
			s.swept = append(s.swept, key)
		}
	}
}

// gathers reports whether acknowledgements should wait a moment for those that
// make room to fetch: what remains undecided may be decided any time.
func (s *session) gathers(now time.Time) bool {
	if s.closing {
		return false
	}
	for _, p := range s.parts {
		if p.held > 0 && !p.revoked {
			if s.gather.IsZero() {
				s.gather = now
			}
			return true
		}
	}
	return false
}

// count reports whether verdicts or renewals wait that may be sent now, and
// whether anything is open.
func (s *session) count(now time.Time) (final, renew, open bool) {
	for _, p := range s.parts {
		ready := !now.Before(p.pause.until)
		final = final || ready && p.want.final > 0
		renew = renew || ready && p.want.renew > 0
		open = open || p.open > 0
	}
	return final, renew, open
}

// dueAt returns when something may be sent by time alone: a verdict that was put
// back, or a fetch that care has put off; zero means that none waits.
func (s *session) dueAt(now time.Time, r room) time.Time {
	at := s.retryAt(now)
	if r.records > 0 && !s.closing && s.careful() > 0 {
		if _, until := s.near(now); !until.IsZero() && (at.IsZero() || until.Before(at)) {
			return until
		}
	}
	return at
}

// retryAt returns when the next verdict that was put back may be sent again;
// zero means that none waits.
func (s *session) retryAt(now time.Time) time.Time {
	var at time.Time
	for _, p := range s.parts {
		if p.want != (tally{}) && now.Before(p.pause.until) && (at.IsZero() || p.pause.until.Before(at)) {
			at = p.pause.until
		}
	}
	return at
}

// mayFetch reports whether a fetch could bring anything.
func (s *session) mayFetch(now time.Time, r room) bool {
	return r.records > 0 && r.bytes > 0 && !s.closing && s.free(now) > 0
}

// free returns the offsets that the record-lock windows leave, and care.
func (s *session) free(now time.Time) int64 {
	var sum int64
	for _, p := range s.parts {
		if !p.revoked {
			sum += max(0, s.limits.locks-p.window())
		}
	}
	if most := s.careful(); most > 0 {
		near, _ := s.near(now)
		sum = min(sum, most-near)
	}
	return sum
}

// stuck reports whether only decisions can make the session fetch again.
func (s *session) stuck(now time.Time) bool {
	if s.closing || s.free(now) > 0 {
		return false
	}
	for _, p := range s.parts {
		if p.held > 0 {
			return true
		}
	}
	return false
}

func (s *session) fetch(req *request, now time.Time, r room, open bool) {
	req.kind = fetch
	req.records = int(min(int64(r.records), int64(s.limits.records), s.free(now)))
	req.bytes = min(r.bytes, s.limits.bytes)
	req.exact = r.single || s.careful() > 0
	for key, p := range s.parts {
		if !p.revoked && !s.known[key] {
			req.add = append(req.add, key)
		}
	}
	if s.records.IsZero() {
		s.records = now // Counts from the start.
	}
	wait := busyWait
	if !open {
		wait = min(max(now.Sub(s.records)/quietPart, quietWait), idleWait)
	}
	req.maxWait = onGrid(now, min(wait, s.limits.maxWait))
	if s.epoch != epochOpen {
		req.acks = s.take(now, false)
	}
	// The broker fetches from every partition that a fetch names, and goes on
	// with it: also from one that is named for its verdicts alone.
	for _, pa := range req.acks {
		s.known[partitionKey{pa.part.TopicID, pa.part.Partition}] = true
	}
	for key := range s.known {
		if p := s.parts[key]; p == nil || p.revoked {
			req.forget = append(req.forget, key)
		}
	}
}

// onGrid shortens a wait so that it ends at a time that others end at too, if
// it is long.
func onGrid(now time.Time, wait time.Duration) time.Duration {
	if wait < 2*idleGrid {
		return wait
	}
	return now.Add(wait).Truncate(idleGrid).Sub(now)
}

func (s *session) take(now time.Time, renewals bool) []partAcks {
	var out []partAcks
	for _, p := range s.parts {
		if now.Before(p.pause.until) {
			continue
		}
		if acks := p.take(renewals); acks != nil {
			out = append(out, partAcks{p, acks})
		}
	}
	return out
}

// answer is a response, in the session's terms.
type answer struct {
	err   error // No answer, or one about the request as a whole.
	lock  time.Duration
	parts map[partitionKey]*partAnswer
	body  *fetchconn.Body // What raw of parts points into, held once; nil without one.
}

// partAnswer is what a response says of one partition.
type partAnswer struct {
	err      error // Of fetching from it.
	ackErr   error // Of the verdicts on it.
	leader   int32 // The new one, -1 where it is not told.
	acquired []acquired
	raw      []byte
}

// acquired is a range a fetch acquired, all with one delivery count.
type acquired struct {
	sharetask.Range
	deliveryCount int16
}

// outcome is what an answer means for the source.
type outcome struct {
	events  []sharetask.Event
	fetched []fetched
	moved   []moved // Partitions that this leader no longer has.
	fatal   error   // The source cannot go on.
	lost    error   // The session ended; its partitions are to be placed again where renewed is set.
	relook  bool    // The leader may be gone.
}

// fetched is what a fetch brought from one partition. The events of it are to
// follow those in outcome.
type fetched struct {
	part     *partition
	session  sharetask.Session
	acquired []acquired
	raw      []byte
	body     *fetchconn.Body // What raw points into, held once; the leader sets it.
	sent     time.Time
	lock     time.Duration
	coming   sharetask.Room // What it is reckoned to be, until it is decoded.
}

// moved is a partition that has another leader.
type moved struct {
	key    partitionKey
	part   *partition
	leader int32 // -1 where it is not known.
}

// answered takes the answer to the request under way.
func (s *session) answered(a answer, now time.Time) outcome {
	req := s.flying
	s.flying = nil
	var out outcome
	switch {
	case req.kind == finish:
		s.broken, s.epoch = false, epochOpen
		clear(s.known)
		s.giveBack(&out)
		if a.err != nil && !errors.Is(a.err, kerr.ShareSessionNotFound) {
			out.relook = true
			s.pause.failed(now)
		}
		s.over = s.closing
		return out
	case a.err != nil:
		s.failed(req, a.err, now, &out)
		return out
	}
	s.notice = nil
	s.epoch = nextEpoch(s.epoch)
	if req.kind == fetch {
		for _, key := range req.add {
			s.known[key] = true
		}
		for _, key := range req.forget {
			delete(s.known, key)
		}
	}
	s.verdicts(req, a, now, &out)
	faulty := false
	for key, pa := range a.parts {
		if p := s.parts[key]; p != nil {
			faulty = s.partition(req, key, p, pa, a.lock, now, &out) || faulty
		}
	}
	if req.kind == fetch && !faulty {
		s.learn(a, now)
	}
	if faulty && len(out.fetched) == 0 {
		s.pause.failed(now) // The next fetch would be answered as fast.
	} else {
		s.pause = pause{}
	}
	return out
}

// nextEpoch counts a session's requests; after the highest number comes 1.
func nextEpoch(e int32) int32 {
	if e == 1<<31-1 {
		return 1
	}
	return e + 1
}

// errNoAnswer is the cause of verdicts on a partition the response did not name.
var errNoAnswer = errors.New("the broker's response does not name the partition")

// verdicts enters what became of the request's acknowledgements.
func (s *session) verdicts(req *request, a answer, now time.Time, out *outcome) {
	for _, pa := range req.acks {
		key := partitionKey{pa.part.TopicID, pa.part.Partition}
		err := errNoAnswer
		if got := a.parts[key]; got != nil {
			err = got.ackErr
		}
		switch {
		case err == nil:
			pa.part.pause = pause{}
			pa.part.confirmed(pa.acks)
			out.events = append(out.events, events(pa.acks, func(v sharetask.Verdict, ranges []sharetask.Range) sharetask.Event {
				e := &sharetask.Acknowledged{TopicPartition: pa.part.TopicPartition, Session: pa.part.session, Verdict: v, Ranges: ranges}
				if v == sharetask.Renew {
					e.LockedUntil, e.Lock = req.sent.Add(a.lock-lockMargin), a.lock
				}
				return e
			})...)
		case retriable(err):
			pa.part.putBack(pa.acks)
			pa.part.pause.failed(now)
			s.notice = fmt.Errorf("acknowledge records of %s-%d: %w", pa.part.Topic, pa.part.Partition, err)
		default:
			pa.part.refused(pa.acks)
			out.events = append(out.events, lostEvents(pa.part, pa.acks, err)...)
		}
	}
}

func lostEvents(p *partition, acks []ack, cause error) []sharetask.Event {
	return events(acks, func(v sharetask.Verdict, ranges []sharetask.Range) sharetask.Event {
		return &sharetask.Lost{TopicPartition: p.TopicPartition, Session: p.session, Ranges: ranges, Verdict: v, Cause: cause}
	})
}

// partition enters what a response says of one partition. It reports whether
// fetching from it failed.
func (s *session) partition(req *request, key partitionKey, p *partition, pa *partAnswer, lock time.Duration, now time.Time, out *outcome) bool {
	if len(pa.acquired) > 0 {
		s.records = now
		for _, a := range pa.acquired {
			if lost := p.acquire(a.Range); lost != nil {
				out.events = append(out.events, &sharetask.Lost{
					TopicPartition: p.TopicPartition, Session: p.session, Ranges: lost, Cause: errExpired,
				})
			}
		}
		out.fetched = append(out.fetched, fetched{
			part: p, session: p.session, acquired: pa.acquired, raw: pa.raw, sent: req.sent, lock: lock,
		})
	}
	err := pa.err
	if err == nil && scopeOf(pa.ackErr) == scopePartition {
		err = pa.ackErr
	}
	switch {
	case err == nil:
	case scopeOf(err) == scopePartition:
		s.lose(p, err, out)
		delete(s.parts, key)
		out.relook = true
		if p.revoked {
			s.swept = append(s.swept, key)
		} else {
			out.moved = append(out.moved, moved{key: key, part: p, leader: pa.leader})
		}
	case fatal(err):
		out.fatal = fmt.Errorf("fetch from %s-%d: %w", p.Topic, p.Partition, err)
	default:
		s.notice = fmt.Errorf("fetch from %s-%d: %w", p.Topic, p.Partition, err)
	}
	return err != nil
}

// errExpired is the cause of records that were acquired a second time.
var errExpired = errors.New("the acquisition lock had ended")

// failed enters that a request got no answer, or one that refuses it whole.
func (s *session) failed(req *request, err error, now time.Time, out *outcome) {
	s.notice = err
	s.pause.failed(now)
	if fatal(err) {
		out.fatal = err
		return
	}
	// Whatever the broker still holds for us, it is not to be reached by this
	// session. It gives it back when the session is closed, or did so already
	// when the connection broke. A session that was never opened holds nothing.
	s.broken = s.epoch != epochOpen && !errors.Is(err, kerr.ShareSessionNotFound)
	s.epoch = epochOpen
	clear(s.known)
	for _, pa := range req.acks {
		pa.part.refused(pa.acks)
		out.events = append(out.events, lostEvents(pa.part, pa.acks, err)...)
	}
	for _, p := range s.parts {
		s.lose(p, err, out)
		p.session = s.next()
	}
	out.lost = err
	var broker *kerr.Error
	if !errors.As(err, &broker) { // The connection.
		s.broken = false
		out.relook = true
	}
}

// lose closes all that is open of p.
func (s *session) lose(p *partition, cause error, out *outcome) {
	if p.drop() {
		out.events = append(out.events, &sharetask.Lost{TopicPartition: p.TopicPartition, Session: p.session, Cause: cause})
	}
}

// giveBack reports what is still open as given back.
func (s *session) giveBack(out *outcome) {
	for key, p := range s.parts {
		s.lose(p, errGivenBack, out)
		p.session = s.next()
		if p.revoked {
			delete(s.parts, key)
			s.swept = append(s.swept, key)
		}
	}
}
