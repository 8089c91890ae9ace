package sharegroup

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// Model of a broker that leads share-partitions: what an offset is, and whose.
type (
	modelState  uint8
	modelRecord struct {
		state modelState
		count int16
	}
	modelBroker struct {
		epoch   int32 // Of the next request; 0 without a session.
		session map[partitionKey]bool
		log     map[partitionKey][]modelRecord
	}
)

const (
	available modelState = iota
	taken
	accepted
	archived
)

// release gives everything taken back, as when a session ends.
func (b *modelBroker) release() {
	for _, log := range b.log {
		for i := range log {
			if log[i].state == taken {
				log[i].state = available
			}
		}
	}
}

// turn returns the session's partitions, at each request beginning with another.
func (b *modelBroker) turn() []partitionKey {
	keys := slices.SortedFunc(maps.Keys(b.session), func(x, y partitionKey) int { return cmp.Compare(x.partition, y.partition) })
	if len(keys) == 0 {
		return nil
	}
	first := int(b.epoch) % len(keys)
	return append(keys[first:], keys[:first]...)
}

// handle answers a request as a broker does (KIP-932).
func (b *modelBroker) handle(t *rapid.T, req *request, locks int64) answer {
	a := answer{lock: 30 * time.Second, parts: map[partitionKey]*partAnswer{}}
	switch {
	case req.epoch == epochClose:
		if b.epoch == epochOpen {
			return answer{err: kerr.ShareSessionNotFound}
		}
		b.epoch = epochOpen
		clear(b.session)
		b.release()
		return a
	case req.epoch == epochOpen:
		if len(req.acks) > 0 {
			t.Fatal("acknowledgements in the first request of a session (SHARE-04)")
		}
		b.epoch = epochOpen
		clear(b.session)
	case b.epoch == epochOpen:
		return answer{err: kerr.ShareSessionNotFound}
	case req.epoch != b.epoch:
		return answer{err: kerr.InvalidShareSessionEpoch}
	}
	b.epoch = nextEpoch(b.epoch)
	part := func(key partitionKey) *partAnswer {
		if a.parts[key] == nil {
			a.parts[key] = &partAnswer{leader: -1}
		}
		return a.parts[key]
	}
	for _, pa := range req.acks {
		key := partitionKey{pa.part.TopicID, pa.part.Partition}
		part(key).ackErr = b.acknowledge(t, key, pa.acks)
	}
	if req.kind != fetch {
		return a
	}
	for _, key := range req.add {
		b.session[key] = true
	}
	for _, pa := range req.acks { // All that is named is in the session.
		b.session[partitionKey{pa.part.TopicID, pa.part.Partition}] = true
	}
	for _, key := range req.forget {
		delete(b.session, key)
	}
	left := int64(req.records)
	for _, key := range b.turn() {
		log := b.log[key]
		start := int64(0)
		for start < int64(len(log)) && log[start].state >= accepted {
			start++
		}
		for o := start; o < min(start+locks, int64(len(log))) && left > 0; o++ {
			if log[o].state != available {
				continue
			}
			log[o].state = taken
			log[o].count++
			left--
			p := part(key)
			if n := len(p.acquired); n > 0 && p.acquired[n-1].Last+1 == o && p.acquired[n-1].deliveryCount == log[o].count {
				p.acquired[n-1].Last = o
			} else {
				p.acquired = append(p.acquired, acquired{sharetask.Range{First: o, Last: o}, log[o].count})
			}
		}
	}
	return a
}

// acknowledge is all or nothing.
func (b *modelBroker) acknowledge(t *rapid.T, key partitionKey, acks []ack) error {
	log, last := b.log[key], int64(-1)
	for _, a := range acks {
		if a.First <= last || a.Last < a.First || a.Last >= int64(len(log)) {
			t.Fatalf("ranges are not in order: %v", acks)
		}
		last = a.Last
		for o := a.First; o <= a.Last; o++ {
			if log[o].state != taken {
				return kerr.InvalidRecordState
			}
		}
	}
	for _, a := range acks {
		for o := a.First; o <= a.Last; o++ {
			switch a.verdict {
			case sharetask.Accept:
				log[o].state = accepted
			case sharetask.Reject, gap:
				log[o].state = archived
			case sharetask.Release:
				log[o].state = available
			case sharetask.Renew:
			}
		}
	}
	return nil
}

// ledgerOf is what a task knows of one offset in one hold.
type offsetOf struct {
	key     partitionKey
	session sharetask.Session
	offset  int64
}

// taskModel accounts for every offset the session told of.
type taskModel struct {
	t       *rapid.T
	open    map[offsetOf]sharetask.Verdict // The final verdict decided, 0 before.
	settled map[offsetOf]bool
	wrote   map[partitionKey]map[int64]bool // Confirmed accepts and rejects.
}

func (m *taskModel) enter(out outcome) {
	for _, e := range out.events {
		switch e := e.(type) {
		case *sharetask.Acknowledged:
			if e.Verdict == sharetask.Renew {
				continue
			}
			m.settle(e.TopicPartition, e.Session, e.Ranges, e.Verdict, true)
		case *sharetask.Lost:
			m.settle(e.TopicPartition, e.Session, e.Ranges, e.Verdict, false)
		}
	}
	for _, f := range out.fetched {
		for _, a := range f.acquired {
			for o := a.First; o <= a.Last; o++ {
				id := offsetOf{partitionKey{f.part.TopicID, f.part.Partition}, f.session, o}
				m.open[id] = 0 // A second time in one hold, the first was reported lost.
				delete(m.settled, id)
			}
		}
	}
}

func (m *taskModel) settle(tp sharetask.TopicPartition, session sharetask.Session, ranges []sharetask.Range, v sharetask.Verdict, confirmed bool) {
	key := partitionKey{tp.TopicID, tp.Partition}
	one := func(id offsetOf) {
		decided, ok := m.open[id]
		if !ok {
			m.t.Fatalf("%v is reported, and was settled: %t", id, m.settled[id])
		}
		if confirmed {
			if decided != v {
				m.t.Fatalf("%v: %v is confirmed, decided was %v", id, v, decided)
			}
			if v != sharetask.Release {
				if m.wrote[key] == nil {
					m.wrote[key] = map[int64]bool{}
				}
				m.wrote[key][id.offset] = true
			}
		}
		delete(m.open, id)
		m.settled[id] = true
	}
	if ranges == nil {
		for id := range m.open {
			if id.key == key && id.session == session {
				one(id)
			}
		}
		return
	}
	last := int64(-1)
	for _, r := range ranges {
		if r.First <= last {
			m.t.Fatalf("ranges of an event are not in order: %v", ranges)
		}
		last = r.Last
		for o := r.First; o <= r.Last; o++ {
			one(offsetOf{key, session, o})
		}
	}
}

// checkCounts compares a partition's counters with its cells.
func checkCounts(t *rapid.T, p *partition) {
	open, held, want := 0, 0, tally{}
	last := int64(-1)
	for _, r := range p.runs {
		if r.first <= last || r.open == 0 {
			t.Fatalf("run at %d is empty, or overlaps the one before, which ends at %d", r.first, last)
		}
		last = r.last()
		ro, rw := 0, tally{}
		for _, c := range r.cells {
			if c == closed {
				continue
			}
			ro++
			if !c.decided() {
				held++
			}
			switch {
			case final(c.want()):
				rw.final++
			case c.want() == sharetask.Renew:
				rw.renew++
			}
		}
		if ro != r.open || rw != r.want {
			t.Fatalf("run at %d counts %d open, %+v; it has %d, %+v", r.first, r.open, r.want, ro, rw)
		}
		open += ro
		want.final += rw.final
		want.renew += rw.renew
	}
	if open != p.open || held != p.held || want != p.want {
		t.Fatalf("partition counts %d open, %d held, %+v; it has %d, %d, %+v", p.open, p.held, p.want, open, held, want)
	}
}

// Whatever fails, and whatever is decided when: each acquired offset is
// reported exactly once, what is reported as accepted is accepted at the
// broker, requests keep to the protocol, and when the faults end every record
// is accepted.
func TestSessionAgainstAModelOfTheBroker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const locks = 20
		now := time.Unix(1_000_000, 0)
		broker := &modelBroker{session: map[partitionKey]bool{}, log: map[partitionKey][]modelRecord{}}
		numbers := sharetask.Session(0)
		s := newSession(limits{locks: locks, records: 30, bytes: 1 << 20, maxWait: idleWait, careful: rapid.SampledFrom([]int16{0, 2, 4}).Draw(t, "careful")}, func() sharetask.Session { numbers++; return numbers })
		task := &taskModel{t: t, open: map[offsetOf]sharetask.Verdict{}, settled: map[offsetOf]bool{}, wrote: map[partitionKey]map[int64]bool{}}
		parts := map[partitionKey]*partition{}
		var keys []partitionKey
		for i := range rapid.IntRange(1, 3).Draw(t, "partitions") {
			p := &partition{}
			p.TopicID, p.Partition, p.Topic = pluginapi.TopicID{1}, int32(i), "orders"
			key := partitionKey{p.TopicID, p.Partition}
			parts[key] = p
			keys = append(keys, key)
			broker.log[key] = make([]modelRecord, rapid.IntRange(1, 60).Draw(t, "records"))
			s.place(key, p)
		}
		check := func() {
			for _, p := range parts {
				checkCounts(t, p)
			}
		}
		decide := func(id offsetOf, n int64, v sharetask.Verdict) {
			p := parts[id.key]
			if p.session != id.session {
				return
			}
			p.decide(v, sharetask.Range{First: id.offset, Last: id.offset + n - 1})
			if v == sharetask.Renew {
				return
			}
			for ; n > 0; n, id.offset = n-1, id.offset+1 {
				if was, ok := task.open[id]; ok && was == 0 {
					task.open[id] = v
				}
			}
		}
		answered := func(a answer) {
			for key, p := range a.parts {
				if len(p.acquired) > 0 && s.parts[key] == nil {
					t.Fatalf("%v is acquired from partition %d, which is not ours", p.acquired, key.partition)
				}
			}
			out := s.answered(a, now)
			if out.fatal != nil {
				t.Fatalf("fatal: %v", out.fatal)
			}
			task.enter(out)
			for _, m := range out.moved { // It comes back to this leader.
				s.place(m.key, m.part)
			}
			check()
		}
		// As the source does.
		sweep := func() {
			for _, key := range s.swept {
				parts[key].Topic = "" // It is to be placed anew.
			}
			s.swept = nil
		}
		assign := func(key partitionKey, on bool) {
			sweep()
			p := parts[key]
			if p.revoked = !on; on && p.Topic == "" {
				p = &partition{}
				p.TopicID, p.Partition, p.Topic = key.topic, key.partition, "orders"
				parts[key] = p
				s.place(key, p)
			}
		}
		step := func(faults bool) bool {
			req, until := s.plan(now, room{records: rapid.IntRange(0, 40).Draw(t, "room"), bytes: 1 << 20})
			if !faults && req == nil {
				if !until.IsZero() {
					now = until
					return true
				}
				req, until = s.plan(now, room{records: 100, bytes: 1 << 20})
				if req == nil {
					if !until.IsZero() {
						now = until
						return true
					}
					return false
				}
			}
			if req == nil {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
				return true
			}
			if again, _ := s.plan(now, room{records: 10, bytes: 10}); again != nil {
				t.Fatal("two requests are under way")
			}
			fault := "none"
			if faults {
				fault = rapid.SampledFrom([]string{"none", "none", "none", "none", "cut before", "cut after", "session", "epoch", "retriable", "refused", "expiry", "moved"}).Draw(t, "fault")
			}
			switch fault {
			case "cut before":
				broker.epoch = epochOpen
				broker.release()
				answered(answer{err: io.EOF})
			case "cut after":
				broker.handle(t, req, locks)
				broker.epoch = epochOpen
				broker.release()
				answered(answer{err: io.EOF})
			case "session":
				broker.epoch = epochOpen
				broker.release()
				answered(broker.handle(t, req, locks))
			case "epoch":
				if req.epoch > 0 {
					broker.epoch += 7
				}
				answered(broker.handle(t, req, locks))
			case "retriable", "refused":
				err := error(kerr.CoordinatorNotAvailable)
				if fault == "refused" {
					err = fmt.Errorf("%w (said the broker)", kerr.InvalidRecordState)
				}
				kept := req.acks
				req.acks = nil // None reaches the model.
				a := broker.handle(t, req, locks)
				req.acks = kept
				for _, pa := range kept {
					key := partitionKey{pa.part.TopicID, pa.part.Partition}
					if a.parts != nil {
						if a.parts[key] == nil {
							a.parts[key] = &partAnswer{leader: -1}
						}
						a.parts[key].ackErr = err
						if fault == "refused" { // They stay taken until the lock ends.
							defer func() { expire(broker, key) }()
						}
					}
				}
				answered(a)
			case "expiry":
				for key := range broker.log {
					expire(broker, key)
				}
				answered(broker.handle(t, req, locks))
			case "moved":
				a := broker.handle(t, req, locks)
				for key, p := range a.parts {
					if len(p.acquired) == 0 && p.ackErr == nil {
						p.err = kerr.NotLeaderForPartition
						expire(broker, key)
						if broker.epoch != epochOpen {
							delete(broker.session, key)
						}
					}
				}
				answered(a)
			default:
				answered(broker.handle(t, req, locks))
			}
			return true
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(task.open) > 0 && rapid.Bool().Draw(t, "decides") {
				id := smallest(task.open)
				id.offset += int64(rapid.IntRange(0, 5).Draw(t, "skip"))
				v := sharetask.Verdict(rapid.IntRange(1, 4).Draw(t, "verdict"))
				if v == sharetask.Reject {
					v = sharetask.Accept
				}
				decide(id, int64(rapid.IntRange(1, 10).Draw(t, "n")), v)
				check()
			}
			if rapid.IntRange(0, 5).Draw(t, "reassigned") == 0 {
				for _, key := range keys {
					assign(key, rapid.Bool().Draw(t, "assigned"))
				}
			}
			step(true)
		}
		for _, key := range keys {
			assign(key, true)
		}
		// Without faults all is accepted in the end. What was lost at the client
		// only comes again when its lock ends.
		for round := 0; ; round++ {
			for key := range broker.log {
				for o := range broker.log[key] {
					id := offsetOf{key, parts[key].session, int64(o)}
					if _, ok := task.open[id]; ok {
						decide(id, 1, sharetask.Accept)
					} else if broker.log[key][o].state == taken {
						broker.log[key][o].state = available
					}
				}
			}
			if !step(false) || round > 1000 {
				if len(task.open) > 0 {
					t.Fatalf("open for ever: %v", task.open)
				}
				left := 0
				for _, log := range broker.log {
					for _, r := range log {
						if r.state < accepted {
							left++
						}
					}
				}
				if left == 0 {
					break
				}
				if round > 1000 {
					t.Fatalf("%d records are never accepted", left)
				}
			}
		}
		for key, offsets := range task.wrote {
			for o := range offsets {
				if broker.log[key][o].state < accepted {
					t.Fatalf("offset %d is said to be accepted and is not", o)
				}
			}
		}
		// Close.
		s.closing = true
		for !s.over {
			req, until := s.plan(now, room{records: 5, bytes: 5})
			switch {
			case req != nil:
				if req.kind == fetch {
					t.Fatal("a fetch after close")
				}
				answered(broker.handle(t, req, locks))
			case !until.IsZero():
				now = until
			case !s.over:
				t.Fatal("a session that is closing does nothing")
			}
		}
		if broker.epoch != epochOpen {
			t.Fatal("the broker still has the session")
		}
	})
}

// expire gives back what is taken of one partition.
func expire(b *modelBroker, key partitionKey) {
	for i := range b.log[key] {
		if b.log[key][i].state == taken {
			b.log[key][i].state = available
		}
	}
}

func smallest(open map[offsetOf]sharetask.Verdict) offsetOf {
	var out offsetOf
	first := true
	for id := range open {
		if first || id.session < out.session || id.session == out.session && (id.key.partition < out.key.partition || id.key == out.key && id.offset < out.offset) {
			out, first = id, false
		}
	}
	return out
}

func TestErrorsAreClassified(t *testing.T) {
	for _, tt := range []struct {
		err              error
		scope            scope
		retriable, fatal bool
	}{
		{nil, scopeRecords, false, false},
		{io.EOF, scopeSession, false, false},
		{errors.New("dial: refused"), scopeSession, false, false},
		{kerr.InvalidRecordState, scopeRecords, false, false},
		{fmt.Errorf("%w (text)", kerr.NotLeaderForPartition), scopePartition, false, false},
		{kerr.UnknownTopicID, scopePartition, false, false},
		{kerr.ShareSessionNotFound, scopeSession, false, false},
		{kerr.CoordinatorNotAvailable, scopeRecords, true, false},
		{kerr.TopicAuthorizationFailed, scopeRecords, false, true},
	} {
		if got := scopeOf(tt.err); got != tt.scope {
			t.Errorf("%v: scope %d, want %d", tt.err, got, tt.scope)
		}
		if got := retriable(tt.err); got != tt.retriable {
			t.Errorf("%v: retriable %t", tt.err, got)
		}
		if got := fatal(tt.err); got != tt.fatal {
			t.Errorf("%v: fatal %t", tt.err, got)
		}
	}
}

// planned is a session with one partition and the answers that let time pass.
type planned struct {
	*session
	t   *testing.T
	now time.Time
	key partitionKey
}

func newPlanned(t *testing.T, l limits) *planned {
	t.Helper()
	n := sharetask.Session(0)
	p := &planned{t: t, now: time.Unix(1_000_000, 0), key: partitionKey{pluginapi.TopicID{1}, 0}}
	p.session = newSession(l, func() sharetask.Session { n++; return n })
	part := &partition{}
	part.TopicID, part.Topic = p.key.topic, "orders"
	p.place(p.key, part)
	return p
}

// fetched plans a fetch, which brings n offsets from first on, and returns it.
func (p *planned) fetched(first int64, n int) *request {
	p.t.Helper()
	req, _ := p.plan(p.now, room{records: 1 << 20, bytes: 1 << 20})
	if req == nil || req.kind != fetch {
		p.t.Fatalf("planned %+v, want a fetch", req)
	}
	pa := &partAnswer{leader: -1}
	if n > 0 {
		pa.acquired = []acquired{{sharetask.Range{First: first, Last: first + int64(n) - 1}, 1}}
	}
	p.answered(answer{lock: 30 * time.Second, parts: map[partitionKey]*partAnswer{p.key: pa}}, p.now)
	return req
}

func TestWaitsFollowTheTraffic(t *testing.T) {
	p := newPlanned(t, limits{locks: 100, records: 50, bytes: 1 << 20, maxWait: idleWait})
	for _, tt := range []struct {
		after time.Duration
		want  time.Duration
	}{{0, quietWait}, {5 * time.Second, quietWait}, {7 * time.Second, time.Second}, {48 * time.Second, idleWait}, {time.Hour, idleWait}} {
		p.now = p.now.Add(tt.after)
		if req := p.fetched(0, 0); req.maxWait != tt.want {
			t.Errorf("%v later: waits %v, want %v", tt.after, req.maxWait, tt.want)
		}
	}
	p.fetched(0, 10)
	if req := p.fetched(0, 0); req.maxWait != busyWait {
		t.Errorf("with records open: waits %v, want %v", req.maxWait, busyWait)
	}
	p.parts[p.key].decide(sharetask.Accept, sharetask.Range{First: 0, Last: 9})
	if req := p.fetched(0, 0); len(req.acks) != 1 || req.maxWait != busyWait {
		t.Errorf("a fetch with %d acknowledgements waits %v, want 1 and %v", len(req.acks), req.maxWait, busyWait)
	}
}

// No fetch waits at the broker while the record-lock window is full: it would
// keep the verdicts that make room waiting.
func TestNoFetchIntoAFullWindow(t *testing.T) {
	p := newPlanned(t, limits{locks: 100, records: 1000, bytes: 1 << 20, maxWait: idleWait})
	if req := p.fetched(0, 60); req.records != 100 {
		t.Errorf("asks for %d, want the window of 100", req.records)
	}
	if req := p.fetched(60, 50); req.records != 40 {
		t.Errorf("asks for %d, want the 40 that are left", req.records)
	}
	plenty := room{records: 1 << 20, bytes: 1 << 20}
	if req, _ := p.plan(p.now, plenty); req != nil || !p.stuck(p.now) {
		t.Fatalf("planned %+v (stuck %t), want nothing", req, p.stuck(p.now))
	}
	part := p.parts[p.key]
	part.decide(sharetask.Accept, sharetask.Range{First: 20, Last: 109}) // All but the first, which keep the window.
	req, until := p.plan(p.now, plenty)
	if req != nil || until != p.now.Add(gatherWait) {
		t.Fatalf("planned %+v until %v, want a moment for company", req, until)
	}
	p.now = until
	if req, _ = p.plan(p.now, plenty); req == nil || req.kind != acknowledge || len(req.acks[0].acks) != 1 {
		t.Fatalf("planned %+v, want the acknowledgements alone", req)
	}
	p.answered(answer{parts: map[partitionKey]*partAnswer{p.key: {leader: -1}}}, p.now)
	part.decide(sharetask.Accept, sharetask.Range{First: 0, Last: 18})
	if req := p.fetched(110, 0); req.records != 9 {
		t.Errorf("asks for %d, want the 9 that are left: offset 19 holds 91 of 100", req.records)
	}
}

func TestLongWaitsEndTogether(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tt := range []struct{ since, wait, want time.Duration }{
		{100 * time.Millisecond, busyWait, busyWait},
		{100 * time.Millisecond, quietWait, quietWait},
		{100 * time.Millisecond, time.Second, 900 * time.Millisecond},
		{400 * time.Millisecond, idleWait, 4600 * time.Millisecond},
		{0, idleWait, idleWait},
	} {
		if got := onGrid(now.Add(tt.since), tt.wait); got != tt.want {
			t.Errorf("wait of %v from %v: got %v, want %v", tt.wait, tt.since, got, tt.want)
		}
	}
}
