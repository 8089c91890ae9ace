package sharetask

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// BatchPolicy says how big a put is and how long records wait for one.
type BatchPolicy struct {
	MaxRecords int           // At least 1.
	MaxBytes   int           // Of keys, values and headers; a single larger record still goes.
	MaxWait    time.Duration // From the first record on.
	// OnePartition makes each put of records of one partition: what puts are for
	// costs the more the more partitions they are of.
	OnePartition bool
}

// lane is a FIFO of spans to be put in order of arrival. In a share group a
// task has one; in a consumer group it has one per partition, which keeps the
// partition's order: a lane with a put in flight or a record waiting for its
// next try gives nothing.
type lane struct {
	spans   []span
	records int // In spans, those closed meanwhile included.
	bytes   int
	retries int // Leading spans that are retries: they do not wait for a full batch.

	writer int       // Only this writer takes from it; -1 for any.
	busy   bool      // Ordered: a put is in flight.
	held   time.Time // Ordered: nothing is given before.
}

// queue holds what waits to be put. It has no clock.
type queue struct {
	policy  BatchPolicy
	ordered bool
	writers int
	lanes   map[TopicPartition]*lane // Ordered.
	shared  lane                     // Not ordered.
	waiting retryHeap                // Not ordered: retries not yet due.
	parked  retryHeap                // Of the retry topic, not yet due: no probe is made of them before.
	next    int                      // Ordered: writer of the next new lane.
}

func newQueue(policy BatchPolicy, ordered bool, writers int) *queue {
	return &queue{
		policy: policy, ordered: ordered, writers: writers,
		lanes: map[TopicPartition]*lane{}, shared: lane{writer: -1},
	}
}

// RecordBytes is what a record counts for in a batch, and in [Acquired].Bytes.
func RecordBytes(r *pluginapi.Record) int {
	n := 0
	if b, ok := r.Key.Bytes(); ok {
		n += len(b)
	}
	if b, ok := r.Value.Bytes(); ok {
		n += len(b)
	}
	for i := range r.Headers {
		b, _ := r.Headers[i].Value.Bytes()
		n += len(r.Headers[i].Key) + len(b)
	}
	return n
}

func (q *queue) lane(tp TopicPartition) *lane {
	if !q.ordered {
		return &q.shared
	}
	l := q.lanes[tp]
	if l == nil {
		l = &lane{writer: q.next % q.writers}
		q.next++
		q.lanes[tp] = l
	}
	return l
}

// push adds a whole delivery at the end of its lane.
func (q *queue) push(d *delivery) {
	l := q.lane(d.TopicPartition)
	l.spans = append(l.spans, span{d: d, hi: int32(len(d.slots))})
	l.records += len(d.slots)
	l.bytes += d.Bytes
}

// retry adds s, whose records are slotWaiting, to be put again at at.
func (q *queue) retry(s span, at time.Time) {
	if !q.ordered {
		heap.Push(&q.waiting, retry{at: at, span: s})
		return
	}
	l := q.lane(s.d.TopicPartition)
	l.unshift(s)
	if at.After(l.held) {
		l.held = at
	}
}

// park adds s, whose records are slotWaiting and of the retry topic, to be put
// at due.
func (q *queue) park(s span, due time.Time) { heap.Push(&q.parked, retry{at: due, span: s}) }

// append adds s, whose records are slotWaiting, behind what waits.
func (q *queue) append(s span) {
	l := &q.shared
	l.take(s)
	l.spans = append(l.spans, s)
}

// take counts the records of s, which are buffered again.
func (l *lane) take(s span) {
	for i := s.lo; i < s.hi; i++ {
		s.d.slots[i].state = settle(s.d.slots[i].state)
		l.bytes += RecordBytes(&s.d.Records[i])
	}
	l.records += int(s.hi - s.lo)
}

// unshift puts spans at the front.
func (l *lane) unshift(spans ...span) {
	for _, s := range spans {
		l.take(s)
	}
	l.spans = append(spans, l.spans...)
	l.retries += len(spans)
}

// choice is what a put of one partition would be made of.
type choice struct {
	lane           *lane
	of             TopicPartition
	records, bytes int
	since          time.Time // Arrival of the oldest.
}

// choose returns what writer w puts next where puts are of one partition: retries,
// which are not waited for; else the partition whose oldest record has waited long
// enough, the oldest of these; else the one with most records. The lane is nil if
// there is nothing.
func (q *queue) choose(w int, now time.Time) choice {
	var sums []choice
	q.eligible(w, now, func(l *lane) {
		for _, s := range l.spans {
			i := slices.IndexFunc(sums, func(c choice) bool { return c.of == s.d.TopicPartition })
			if i < 0 {
				i = len(sums)
				sums = append(sums, choice{lane: l, of: s.d.TopicPartition, since: s.d.since})
			}
			sums[i].records += int(s.hi - s.lo)
			sums[i].bytes += s.d.Bytes / len(s.d.slots) * int(s.hi-s.lo)
			if l.retries > 0 {
				break
			}
		}
	})
	if len(sums) == 0 {
		return choice{}
	}
	return slices.MaxFunc(sums, func(a, b choice) int {
		x, y := q.rank(a, now), q.rank(b, now)
		if x == 0 && y == 0 && a.records != b.records {
			return a.records - b.records
		}
		return cmp.Or(x-y, b.since.Compare(a.since))
	})
}

// rank is how urgent a choice is.
func (q *queue) rank(c choice, now time.Time) int {
	switch {
	case c.lane.retries > 0:
		return 2
	case !now.Before(c.since.Add(q.policy.MaxWait)):
		return 1
	default:
		return 0
	}
}

// gather brings the spans of a partition to the front.
func (l *lane) gather(of TopicPartition) {
	slices.SortStableFunc(l.spans, func(a, b span) int {
		switch x, y := a.d.TopicPartition == of, b.d.TopicPartition == of; {
		case x == y:
			return 0
		case x:
			return -1
		default:
			return 1
		}
	})
}

// settle makes a waiting record a buffered one again.
func settle(s slotState) slotState {
	if s == slotWaiting {
		return slotBuffered
	}
	return s
}

// due moves the retries whose time has come, all of them if all is set, and what
// is parked and due, to the front of the lane.
func (q *queue) due(now time.Time, all bool) {
	if spans := append(q.waiting.due(now, all), q.parked.due(now, false)...); len(spans) > 0 {
		q.shared.unshift(spans...)
	}
	if all {
		for _, l := range q.lanes {
			l.held = time.Time{}
		}
	}
}

// open reports whether any record of s is in state.
func (s span) open(state slotState) bool {
	for i := s.lo; i < s.hi; i++ {
		if s.d.slots[i].state == state {
			return true
		}
	}
	return false
}

// for each lane that may give to writer w now.
func (q *queue) eligible(w int, now time.Time, f func(*lane)) {
	if !q.ordered {
		f(&q.shared)
		return
	}
	for _, l := range q.lanes {
		if l.writer == w && !l.busy && len(l.spans) > 0 && !now.Before(l.held) {
			f(l)
		}
	}
}

// ready reports whether writer w should get a put now: a full batch, one whose
// oldest record has waited long enough, a retry that is due, or anything at
// all when full says that no more can come.
func (q *queue) ready(w int, now time.Time, full bool) bool {
	if q.policy.OnePartition {
		c := q.choose(w, now)
		return c.lane != nil && (full || q.rank(c, now) > 0 || c.records >= q.enough() || c.bytes >= q.policy.MaxBytes)
	}
	records, bytes, urgent := 0, 0, false
	var since time.Time
	q.eligible(w, now, func(l *lane) {
		if len(l.spans) == 0 {
			return
		}
		records += l.records
		bytes += l.bytes
		urgent = urgent || l.retries > 0
		if at := q.oldest(l); since.IsZero() || at.Before(since) {
			since = at
		}
	})
	return records > 0 && (full || urgent || records >= q.enough() ||
		bytes >= q.policy.MaxBytes || !now.Before(since.Add(q.policy.MaxWait)))
}

// enough is how many records make a put that need not wait for more. In a
// share group puts are made of what was acquired together, which seldom adds up
// to the most there may be.
func (q *queue) enough() int {
	if q.ordered {
		return q.policy.MaxRecords
	}
	return q.policy.MaxRecords - q.policy.MaxRecords/4
}

// take forms a put for writer w of at most limit records, marks its records
// slotPutting, and returns its spans and their number; none if all that
// waited was closed meanwhile.
func (q *queue) take(w int, now time.Time, limit int) (spans []span, records int) {
	limit = min(limit, q.policy.MaxRecords)
	bytes := 0
	var chosen choice
	if q.policy.OnePartition {
		chosen = q.choose(w, now)
	}
	single := false // It holds a record alone that may be the one of its neighbours that kills the sink.
	q.eligible(w, now, func(l *lane) {
		if q.policy.OnePartition {
			if l != chosen.lane {
				return
			}
			if l.retries == 0 {
				l.gather(chosen.of)
			}
		}
		before := records
		// Where order matters a record that failed is put again alone: what
		// follows it in its partition must not be stored while it is not.
		alone := q.ordered && l.retries > 0
		for len(l.spans) > 0 && !single && records < limit && (records == 0 || bytes < q.policy.MaxBytes) {
			s := &l.spans[0]
			for s.lo < s.hi && s.d.slots[s.lo].state != slotBuffered {
				s.lo++
				l.records--
			}
			if q.policy.OnePartition && records > 0 && s.d.TopicPartition != spans[0].d.TopicPartition {
				break
			}
			if !q.ordered && records > 0 && records+int(s.hi-s.lo) > limit {
				break // Deciding what was acquired together in one go costs the broker least.
			}
			first := s.lo
			others := false
			for s.lo < s.hi && !single && records < limit && s.d.slots[s.lo].state == slotBuffered {
				single = alone && s.d.killed(s.lo)
				if others = single && records > 0; others {
					single = false
					break
				}
				n := RecordBytes(&s.d.Records[s.lo])
				if records > 0 && bytes+n > q.policy.MaxBytes {
					bytes = q.policy.MaxBytes // Full: ends the loops.
					break
				}
				bytes += n
				l.bytes -= n
				s.d.slots[s.lo].state = slotPutting
				s.lo++
				records++
			}
			if s.lo > first {
				spans = append(spans, span{d: s.d, lo: first, hi: s.lo})
			}
			l.records -= int(s.lo - first)
			if s.lo == s.hi {
				*s = span{} // What it held is not kept alive by the array.
				l.spans = l.spans[1:]
				l.retries = max(0, l.retries-1)
			}
			if others || alone && records > before {
				break
			}
		}
		if len(l.spans) == 0 {
			l.spans, l.records, l.bytes, l.retries = nil, 0, 0, 0
		}
		if q.ordered && records > before {
			l.busy = true
		}
	})
	return spans, records
}

// done says that the put of these spans has ended.
func (q *queue) done(spans []span) {
	if !q.ordered {
		return
	}
	for _, s := range spans {
		if l := q.lanes[s.d.TopicPartition]; l != nil {
			l.busy = false
		}
	}
}

// clear drops all that is in no order.
func (q *queue) clear() { q.shared, q.waiting, q.parked = lane{writer: -1}, nil, nil }

// prune drops what waits for its time and is no longer ours.
func (q *queue) prune() {
	for _, h := range []*retryHeap{&q.waiting, &q.parked} {
		if n := len(*h); n > 0 {
			*h = slices.DeleteFunc(*h, func(r retry) bool { return !r.span.open(slotWaiting) })
			if len(*h) < n {
				heap.Init(h)
			}
		}
	}
}

// forget drops the lane of a partition that is no longer ours.
func (q *queue) forget(tp TopicPartition) {
	if l := q.lanes[tp]; l != nil && !l.busy {
		delete(q.lanes, tp)
	}
}

// wake returns when the queue next has something to give to one of the idle
// writers by time alone; zero means never.
func (q *queue) wake(idle []*writer) time.Time {
	var next time.Time
	earlier := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if len(q.waiting) > 0 {
		earlier(q.waiting[0].at)
	}
	if at := q.nextParked(); !at.IsZero() {
		earlier(at)
	}
	if len(q.shared.spans) > 0 && len(idle) > 0 {
		earlier(q.oldest(&q.shared).Add(q.policy.MaxWait))
	}
	for _, w := range idle {
		for _, l := range q.lanes {
			if l.writer != w.number || l.busy || len(l.spans) == 0 {
				continue
			}
			at := q.oldest(l).Add(q.policy.MaxWait)
			if l.retries > 0 || l.held.After(at) {
				at = l.held
			}
			earlier(at)
		}
	}
	return next
}

// oldest returns since when the first record of a lane waits, as far as that
// decides when it is put.
func (q *queue) oldest(l *lane) time.Time {
	if !q.policy.OnePartition {
		return l.spans[0].d.since
	}
	return slices.MinFunc(l.spans, func(a, b span) int { return a.d.since.Compare(b.d.since) }).d.since
}

// nextParked returns when the first of what is parked is due; zero means never.
func (q *queue) nextParked() time.Time {
	if len(q.parked) == 0 {
		return time.Time{}
	}
	return q.parked[0].at
}

// retry is a span to be put again at a time.
type retry struct {
	at   time.Time
	span span
}

// retryHeap orders retries by time; a container/heap.
type retryHeap []retry

func (h retryHeap) Len() int           { return len(h) }
func (h retryHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h retryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// due removes and returns what is due and still waits, in order; all makes all
// due.
func (h *retryHeap) due(now time.Time, all bool) (spans []span) {
	for len(*h) > 0 && (all || !(*h)[0].at.After(now)) {
		if r := heap.Pop(h).(retry); r.span.open(slotWaiting) {
			spans = append(spans, r.span)
		}
	}
	return spans
}

// Push appends a retry; heap.Push calls it.
func (h *retryHeap) Push(x any) { *h = append(*h, x.(retry)) }

// Pop takes the last retry; heap.Pop calls it.
func (h *retryHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = retry{}
	*h = old[:len(old)-1]
	return x
}
