package sharetask

import (
	"errors"
	"math"
	"slices"
	"time"
)

// errOverslept is the cause of records whose lock ended because the task did not
// run: the process was stopped, or its machine was.
var errOverslept = errors.New("the worker did not run until the acquisition lock had ended")

// slotState is where one open record stands.
type slotState uint8

const (
	slotBuffered slotState = iota + 1 // Acquired, in a lane of the queue.
	slotPutting                       // With a writer.
	slotWaiting                       // To be put again later.
	slotLetter                        // Its dead letter is being written.
	slotDone                          // Decided, or lost.
)

// delivery is one acquired run of records while any of it is open.
// Invariant: open == number of slots that are not slotDone.
type delivery struct {
	*Acquired
	slots    []slot
	open     int
	refs     int // Puts and dead letter jobs that still read Records.
	freed    bool
	since    time.Time // When it came.
	troubles map[int32]*trouble
	// counts are the DeliveryCounts without what the records survived in this
	// worker.
	counts []int16
	unsent []Range   // Accepted, not handed out yet, and still locked.
	sendBy time.Time // When they are, at the latest; zero before the first flush.
}

// slot is the state of one record of a delivery.
type slot struct{ state slotState }

// trouble is what is known of a record that failed at least once.
type trouble struct {
	attempts int           // Puts that did not end in Accept.
	kills    int           // Puts of it alone whose result is unknown.
	unknown  bool          // One of them ended without a result.
	own      bool          // The last failure may be its own: transient.
	spent    time.Duration // From one such failure to the next, while the target was up.
	since    time.Time     // End of the first of them.
	here     time.Time     // Since when it waits in its partition.
	last     time.Time     // End of the last of them.
}

// span is a run of records of one delivery, by index: lo to hi-1.
type span struct {
	d      *delivery
	lo, hi int32
}

// ledger holds what is owed for every open record of a task. It has no clock,
// goroutine or client, so that a test can replay any schedule: times come in
// as arguments and decisions go out by flush.
type ledger struct {
	partitions map[TopicPartition]*partition
	pending    []Decision // Ranges not yet merged.
	moved      bool       // They are not of the retry topic alone.
	records    int        // Open records.
	parked     int        // Those of them that are of the retry topic.
	parkedSize int        // Bytes of their deliveries.
	accepted   unconfirmed
	lock       time.Duration              // Of the last delivery; 0 in a consumer group.
	survived   func(d *delivery, i int32) // Called when a delivery of a record ends without an acknowledgement; nil for nobody.
	bytes      int                        // Bytes of deliveries whose memory is still in use.
	holding    []*delivery                // Those with unsent accepts.
	flushBy    time.Time                  // When the next of those is due; zero means never.
	implicit   bool                       // Accepts of a delivery are handed out together.
}

// partition is the part of the ledger of one partition.
type partition struct {
	TopicPartition
	deliveries []*delivery // Those with open records, in the order they came.
	renewing   bool        // A renewal is on its way.
	revoking   bool        // It is about to be taken away; nothing new is put.
}

func newLedger() *ledger {
	return &ledger{partitions: map[TopicPartition]*partition{}, accepted: unconfirmed{}}
}

// acquire enters an acquired run and returns its delivery, all of it buffered.
func (l *ledger) acquire(ev *Acquired) *delivery {
	d := &delivery{Acquired: ev, slots: make([]slot, len(ev.Records)), open: len(ev.Records), counts: ev.DeliveryCounts}
	for i := range d.slots {
		d.slots[i].state = slotBuffered
	}
	l.lock = ev.Lock
	p := l.partitions[ev.TopicPartition]
	if p == nil {
		p = &partition{TopicPartition: ev.TopicPartition}
		l.partitions[ev.TopicPartition] = p
	}
	if len(p.deliveries) == 0 {
		p.renewing, p.revoking = false, false // A new hold on it.
	}
	p.deliveries = append(p.deliveries, d)
	l.bytes += d.Bytes
	l.count(d, d.open)
	if d.Origins != nil {
		l.parkedSize += d.Bytes
	}
	return d
}

// decide closes the records of s that are open, with verdict v, which flush
// hands out.
func (l *ledger) decide(s span, v Verdict) int {
	n := 0
	d := s.d
	for i := s.lo; i < s.hi; {
		if d.slots[i].state == slotDone {
			i++
			continue
		}
		first := i
		for i < s.hi && d.slots[i].state != slotDone && d.Records[i].Offset == d.Records[first].Offset+int64(i-first) {
			d.slots[i].state = slotDone
			if v == Release && l.survived != nil {
				l.survived(d, i)
			}
			i++
		}
		r := Range{First: d.Records[first].Offset, Last: d.Records[i-1].Offset}
		if v == Accept && d.Lock > 0 {
			l.accepted.add(d, first, i)
		}
		if v == Accept && d.Lock > 0 {
			if len(d.unsent) == 0 {
				l.holding = append(l.holding, d)
			}
			d.unsent = append(d.unsent, r)
		} else {
			l.add(d, v, r)
		}
		n += int(i - first)
	}
	l.close(d, n)
	return n
}

// add appends a range to the pending decision it belongs to.
func (l *ledger) add(d *delivery, v Verdict, r Range) {
	l.moved = l.moved || d.Origins == nil
	for i := len(l.pending) - 1; i >= 0; i-- {
		p := &l.pending[i]
		if p.Verdict != v || p.Session != d.Session || p.TopicPartition != d.TopicPartition {
			continue
		}
		if last := &p.Ranges[len(p.Ranges)-1]; last.Last+1 == r.First {
			last.Last = r.Last
		} else {
			p.Ranges = append(p.Ranges, r)
		}
		return
	}
	l.pending = append(l.pending, Decision{
		TopicPartition: d.TopicPartition, Session: d.Session, Verdict: v, Ranges: []Range{r},
	})
}

// count adds n records of d to the ledger's account.
func (l *ledger) count(d *delivery, n int) {
	l.records += n
	if d.Origins != nil {
		l.parked += n
	}
}

// close takes n records of d off the ledger's account, and d with its last.
func (l *ledger) close(d *delivery, n int) {
	d.open -= n
	l.count(d, -n)
	if n == 0 || d.open > 0 {
		return
	}
	l.send(d)
	if p := l.partitions[d.TopicPartition]; p != nil {
		p.deliveries = slices.DeleteFunc(p.deliveries, func(o *delivery) bool { return o == d })
		if len(p.deliveries) == 0 {
			delete(l.partitions, d.TopicPartition)
		}
	}
	l.free(d)
}

// send hands out the accepts that d holds back.
func (l *ledger) send(d *delivery) {
	for _, r := range d.unsent {
		l.add(d, Accept, r)
	}
	d.unsent, d.sendBy = nil, time.Time{}
}

// holdAccepts is how long accepts of a part of what was acquired together wait
// for the rest. The broker keeps a verdict on the whole in one entry, and takes
// much longer over one on a part, record by record (SharePartition,
// acknowledgePerOffsetBatchRecords): on six partitions with ranges of 967 records
// and puts of 500, one dead letter in 1,000 cost it 1.7 s of CPU per million
// records where accepts waited for letters alone.
const holdAccepts = 100 * time.Millisecond

// sendAll hands out the accepts that are held back.
func (l *ledger) sendAll() {
	for _, d := range l.holding {
		l.send(d)
	}
	clear(l.holding)
	l.holding, l.flushBy = l.holding[:0], time.Time{}
}

// sendDue hands out the accepts of deliveries that have ended or have waited for
// long enough. In implicit mode they wait for the last record.
func (l *ledger) sendDue(now time.Time) {
	kept := l.holding[:0]
	l.flushBy = time.Time{}
	for _, d := range l.holding {
		if d.sendBy.IsZero() {
			d.sendBy = now.Add(holdAccepts)
		}
		if d.open == 0 || len(d.unsent) == 0 || !l.implicit && !now.Before(d.sendBy) {
			l.send(d)
			continue
		}
		kept = append(kept, d)
		if !l.implicit && (l.flushBy.IsZero() || d.sendBy.Before(l.flushBy)) {
			l.flushBy = d.sendBy
		}
	}
	clear(l.holding[len(kept):])
	l.holding = kept
}

// letter enters that record i of d is to be written to another topic.
func (l *ledger) letter(d *delivery, i int32) {
	d.slots[i].state = slotLetter
	l.hold(d)
}

// hold counts a reader of d's records, unhold counts it off.
func (l *ledger) hold(d *delivery) { d.refs++ }

func (l *ledger) unhold(d *delivery) {
	d.refs--
	l.free(d)
}

// free gives d's memory back once nothing is open and nobody reads it.
func (l *ledger) free(d *delivery) {
	if d.open > 0 || d.refs > 0 || d.freed {
		return
	}
	d.freed = true
	l.bytes -= d.Bytes
	if d.Origins != nil {
		l.parkedSize -= d.Bytes
	}
	if d.Free != nil {
		d.Free()
	}
}

// flush returns the decisions made since the last flush that are due, ranges in
// offset order and merged.
func (l *ledger) flush(now time.Time) []Decision {
	l.sendDue(now)
	out := l.pending
	l.pending, l.moved = nil, false
	for i := range out {
		out[i].Ranges = mergeRanges(out[i].Ranges)
	}
	return out
}

// mergeRanges sorts ranges and joins those that touch, in place.
func mergeRanges(r []Range) []Range {
	slices.SortFunc(r, func(a, b Range) int {
		switch {
		case a.First < b.First:
			return -1
		case a.First > b.First:
			return 1
		default:
			return 0
		}
	})
	out := r[:0]
	for _, x := range r {
		if n := len(out); n > 0 && out[n-1].Last+1 >= x.First {
			out[n-1].Last = max(out[n-1].Last, x.Last)
			continue
		}
		out = append(out, x)
	}
	return out
}

// lost closes the open records that ev names, without a decision, and returns
// their number.
func (l *ledger) lost(ev *Lost) int {
	p := l.partitions[ev.TopicPartition]
	if p == nil {
		return 0
	}
	n := 0
	for _, d := range slices.Clone(p.deliveries) {
		if d.Session != ev.Session {
			continue
		}
		k := 0
		for i := range d.slots {
			if d.slots[i].state != slotDone && (ev.Ranges == nil || inRanges(ev.Ranges, d.Records[i].Offset)) {
				d.slots[i].state = slotDone
				if l.survived != nil {
					l.survived(d, int32(i)) //nolint:gosec // Of one delivery.
				}
				k++
			}
		}
		d.unsent = subtract(d.unsent, ev.Ranges)
		l.close(d, k)
		n += k
	}
	p.renewing = false
	return n
}

// subtract returns what lost, in order, leaves of ranges; nothing where it is
// nil.
func subtract(ranges, lost []Range) []Range {
	if lost == nil {
		return nil
	}
	var out []Range
	for _, r := range ranges {
		for _, x := range lost {
			if x.Last < r.First || x.First > r.Last {
				continue
			}
			if x.First > r.First {
				out = append(out, Range{First: r.First, Last: x.First - 1})
			}
			r.First = x.Last + 1
		}
		if r.First <= r.Last {
			out = append(out, r)
		}
	}
	return out
}

func inRanges(ranges []Range, offset int64) bool {
	_, found := slices.BinarySearchFunc(ranges, offset, func(r Range, o int64) int {
		switch {
		case r.Last < o:
			return -1
		case r.First > o:
			return 1
		default:
			return 0
		}
	})
	return found
}

// expired returns as lost what was not renewed before its lock ended: the task
// did not run for so long. Where a renewal is on its way, its answer tells.
func (l *ledger) expired(now time.Time) []*Lost {
	var out []*Lost
	for _, p := range l.partitions {
		for _, d := range p.deliveries {
			if p.renewing || d.LockedUntil.IsZero() || now.Before(d.LockedUntil) {
				continue
			}
			if r := appendRenewal(nil, d); len(r) > 0 {
				out = append(out, &Lost{TopicPartition: d.TopicPartition, Session: d.Session, Ranges: mergeRanges(r[0].Ranges), Cause: errOverslept})
			}
		}
	}
	return out
}

// renewed enters the confirmation of a renewal. A lock that has become shorter
// since the records were acquired ends sooner than theirs did.
func (l *ledger) renewed(ev *Acknowledged) {
	p := l.partitions[ev.TopicPartition]
	if p == nil {
		return
	}
	p.renewing = false
	for _, d := range p.deliveries {
		if d.Session == ev.Session && (ev.LockedUntil.After(d.LockedUntil) || ev.Lock < d.Lock) {
			d.LockedUntil, d.Lock = ev.LockedUntil, ev.Lock
		}
	}
}

// renewAt returns when d's locks are due to be renewed: a third of the lock
// before they end.
func (d *delivery) renewAt() time.Time { return d.LockedUntil.Add(-d.Lock / 3) }

// nextRenewal returns when the next renewal is due; zero means never.
func (l *ledger) nextRenewal() time.Time {
	var next time.Time
	for _, p := range l.partitions {
		if p.renewing {
			continue
		}
		for _, d := range p.deliveries {
			if d.LockedUntil.IsZero() {
				continue
			}
			if at := d.renewAt(); next.IsZero() || at.Before(next) {
				next = at
			}
		}
	}
	return next
}

// renewals returns renewals of all open records of each partition in which
// one's lock is due.
func (l *ledger) renewals(now time.Time) []Decision {
	var out []Decision
	for _, p := range l.partitions {
		due := false
		for _, d := range p.deliveries {
			due = due || !d.LockedUntil.IsZero() && !d.renewAt().After(now)
		}
		if !due || p.renewing {
			continue
		}
		p.renewing = true
		for _, d := range p.deliveries {
			out = appendRenewal(out, d)
		}
	}
	for i := range out {
		out[i].Ranges = mergeRanges(out[i].Ranges)
	}
	return out
}

// appendRenewal adds d's open records, and those whose accept is held back, to
// the renewal of its session.
func appendRenewal(out []Decision, d *delivery) []Decision {
	ranges := slices.Clone(d.unsent)
	for i := range d.slots {
		if d.slots[i].state == slotDone {
			continue
		}
		o := d.Records[i].Offset
		if n := len(ranges); n > 0 && ranges[n-1].Last+1 == o {
			ranges[n-1].Last = o
		} else {
			ranges = append(ranges, Range{First: o, Last: o})
		}
	}
	if len(ranges) == 0 {
		return out
	}
	for i := range out {
		if out[i].TopicPartition == d.TopicPartition && out[i].Session == d.Session {
			out[i].Ranges = append(out[i].Ranges, ranges...)
			return out
		}
	}
	return append(out, Decision{TopicPartition: d.TopicPartition, Session: d.Session, Verdict: Renew, Ranges: ranges})
}

// deliveryCount returns record i's delivery count, 0 in a consumer group.
func (d *delivery) deliveryCount(i int32) int {
	if d.DeliveryCounts == nil {
		return 0
	}
	return int(d.DeliveryCounts[i])
}

// counted returns how many deliveries of record i count against it; 0 in a
// consumer group.
func (d *delivery) counted(i int32) int {
	if d.counts == nil {
		return 0
	}
	return int(d.counts[i])
}

// killed reports whether record i was in a put whose result is unknown.
func (d *delivery) killed(i int32) bool { return d.troubles[i] != nil && d.troubles[i].unknown }

// oldest returns since when the record longest held is; zero without one. The
// first delivery of a partition is its oldest, but for those made of survivors.
func (l *ledger) oldest() time.Time {
	var oldest time.Time
	for _, p := range l.partitions {
		for _, d := range p.deliveries {
			if oldest.IsZero() || d.since.Before(oldest) {
				oldest = d.since
			}
		}
	}
	return oldest
}

// heldSince returns the deliveries that came, or were held through a failure at
// from, before until.
func (l *ledger) heldSince(from, until time.Time) []*delivery {
	var out []*delivery
	for _, p := range l.partitions {
		for _, d := range p.deliveries {
			if !later(d.since, from).After(until) {
				out = append(out, d)
			}
		}
	}
	return out
}

// oldestFirst returns since when the delivery longest held is, from from on,
// that has a record which may be given back; zero without one.
func (l *ledger) oldestFirst(from time.Time) time.Time {
	var oldest time.Time
	for _, p := range l.partitions {
		for _, d := range p.deliveries {
			if at := later(d.since, from); (oldest.IsZero() || at.Before(oldest)) && d.releasable(1) {
				oldest = at
			}
		}
	}
	return oldest
}

// releasable reports whether a record of d that was delivered at most count
// times waits.
func (d *delivery) releasable(count int16) bool {
	for i := range d.slots {
		if s := d.slots[i].state; (s == slotBuffered || s == slotWaiting) && d.DeliveryCounts != nil && d.DeliveryCounts[i] <= count {
			return true
		}
	}
	return false
}

// release gives back the waiting records of d that were delivered at most count
// times, and returns their number.
func (l *ledger) release(d *delivery, count int16) int {
	n := 0
	for i := range d.slots {
		if s := d.slots[i].state; (s == slotBuffered || s == slotWaiting) && d.DeliveryCounts != nil && d.DeliveryCounts[i] <= count {
			n += l.decide(span{d: d, lo: int32(i), hi: int32(i) + 1}, Release) //nolint:gosec // Of one delivery.
		}
	}
	return n
}

// releaseAll gives back all that waits.
func (l *ledger) releaseAll() {
	for _, p := range l.partitions {
		for _, d := range slices.Clone(p.deliveries) {
			l.release(d, math.MaxInt16)
		}
	}
}

// failed notes a failed put of record i and returns what is known of it, and
// when it had failed before; the zero time if it had not.
func (d *delivery) failed(i int32, now time.Time) (tr *trouble, before time.Time) {
	tr = d.trouble(i)
	if tr.attempts++; tr.attempts == 1 {
		tr.since, tr.here = now, now
	}
	before, tr.last = tr.last, now
	return tr, before
}

// trouble returns what is known of record i, which may be changed.
func (d *delivery) trouble(i int32) *trouble {
	tr := d.troubles[i]
	if tr == nil {
		if d.troubles == nil {
			d.troubles = map[int32]*trouble{}
		}
		tr = &trouble{}
		d.troubles[i] = tr
	}
	return tr
}

// revoke marks the partition as being taken away and returns its deliveries.
func (l *ledger) revoke(tp TopicPartition, s Session) []*delivery {
	p := l.partitions[tp]
	if p == nil {
		return nil
	}
	p.revoking = true
	var out []*delivery
	for _, d := range p.deliveries {
		if d.Session == s {
			out = append(out, d)
		}
	}
	return out
}

// revoking reports whether d's partition is being taken away.
func (l *ledger) revoking(d *delivery) bool {
	p := l.partitions[d.TopicPartition]
	return p != nil && p.revoking
}
