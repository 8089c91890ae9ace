package intent

import (
	"cmp"
	"fmt"
	"slices"
)

// Fate is what became of a claim's transaction.
type Fate uint8

// The fates.
const (
	Undecided Fate = iota
	Committed
	Aborted
)

// String returns the fate in lower case.
func (f Fate) String() string { return [...]string{"undecided", "committed", "aborted"}[f] }

// Intent is a claim as it stands in the ledger.
type Intent struct {
	*Claim
	Offset   int64 // In the ledger: the order of intents.
	Producer int64
	Epoch    int16
	Fate     Fate
}

// Ledger is what is known of one partition of a ledger. The zero Ledger knows
// nothing. It is not safe for concurrent use.
type Ledger struct {
	next    int64 // Offset of what comes next; 0 before anything came.
	sources map[Source]*source
	open    map[int64][]*Intent // Undecided, by producer id.
}

// source is what is known of one source partition.
type source struct {
	committed offsets
	undecided []*Intent // In log order.
	// records are all claims of it but those that were aborted, in log order.
	records []record
}

// record is where a claim is, and how far it reaches.
type record struct {
	at, last int64
	decided  bool
}

// ClashError says that two committed claims share an offset: something was
// written twice. It cannot happen while every writer keeps to the rule.
type ClashError struct {
	Second *Intent
	Range  Range
}

// Error says which.
func (e *ClashError) Error() string {
	return fmt.Sprintf("offsets %d to %d of %s are committed twice, the second time by %s: was something else than Sluice writing to the ledger?",
		e.Range.First, e.Range.Last, e.Second.Source, e.Second.Writer)
}

// HoleError says that something of the ledger was not seen.
type HoleError struct{ Want, Got int64 }

// Error says where.
func (e *HoleError) Error() string {
	return fmt.Sprintf("ledger offset %d follows where %d was to come", e.Got, e.Want)
}

// Next returns the offset of what is to come next.
func (l *Ledger) Next() int64 { return l.next }

// advance takes the next offset. The first may be any.
func (l *Ledger) advance(offset int64) error {
	if l.sources == nil {
		l.sources, l.open = map[Source]*source{}, map[int64][]*Intent{}
		l.next = offset
	}
	if offset != l.next {
		return &HoleError{Want: l.next, Got: offset}
	}
	l.next = offset + 1
	return nil
}

// Claimed enters a claim that was read at offset, written by a producer. After an
// error the ledger must not be used any more.
func (l *Ledger) Claimed(offset, producer int64, epoch int16, c *Claim) (*Intent, error) {
	if err := l.advance(offset); err != nil {
		return nil, err
	}
	s := l.sources[c.Source]
	if s == nil {
		s = &source{}
		l.sources[c.Source] = s
	}
	in := &Intent{Claim: c, Offset: offset, Producer: producer, Epoch: epoch}
	s.undecided = append(s.undecided, in)
	s.records = append(s.records, record{at: offset, last: c.Ranges[len(c.Ranges)-1].Last})
	l.open[producer] = append(l.open[producer], in)
	return in, nil
}

// Ended enters the end of a producer's transaction, read at offset, and returns
// the intents it decides. After an error, which may be a [*ClashError], the ledger
// must not be used any more.
func (l *Ledger) Ended(offset, producer int64, commit bool) ([]*Intent, error) {
	if err := l.advance(offset); err != nil {
		return nil, err
	}
	decided := l.open[producer]
	delete(l.open, producer)
	for _, in := range decided {
		s := l.sources[in.Source]
		s.undecided = slices.DeleteFunc(s.undecided, func(o *Intent) bool { return o == in })
		i, _ := slices.BinarySearchFunc(s.records, in.Offset, func(r record, at int64) int { return cmp.Compare(r.at, at) })
		if !commit {
			in.Fate = Aborted
			s.records = slices.Delete(s.records, i, i+1)
			continue
		}
		in.Fate = Committed
		s.records[i].decided = true
		for _, r := range in.Ranges {
			if s.committed.overlaps(r) {
				return nil, &ClashError{Second: in, Range: r}
			}
		}
		for _, r := range in.Ranges {
			s.committed = s.committed.with(r)
		}
	}
	return decided, nil
}

// Skipped enters an offset at which there is nothing that matters.
func (l *Ledger) Skipped(offset int64) error { return l.advance(offset) }

// Done reports whether a committed claim is known to cover an offset.
func (l *Ledger) Done(of Source, offset int64) bool {
	s := l.sources[of]
	return s != nil && s.committed.overlaps(Range{offset, offset})
}

// Verdict is the answer to whether a claim may be committed.
type Verdict struct {
	// May is that it may, now and for good.
	May bool
	// Lost is that it must not: its own transaction is over, or another one has
	// written some of it.
	Lost bool
	// Waits are earlier claims that share offsets with it and are undecided. It
	// may be committed when all of them were aborted.
	Waits []*Intent
}

// Judge says whether in may be committed.
//
// A later claim that shares offsets with it cannot be committed while in is
// undecided, so all that is committed can be looked at.
func (l *Ledger) Judge(in *Intent) Verdict {
	s := l.sources[in.Source]
	if in.Fate != Undecided {
		return Verdict{Lost: true}
	}
	for _, r := range in.Ranges {
		if s.committed.overlaps(r) {
			return Verdict{Lost: true}
		}
	}
	var v Verdict
	for _, o := range s.undecided {
		if o.Offset >= in.Offset {
			break
		}
		if overlap(o.Ranges, in.Ranges) {
			v.Waits = append(v.Waits, o)
		}
	}
	v.May = len(v.Waits) == 0
	return v
}

// Forget drops what is known of offsets of a source partition below from, which
// will not be delivered again.
func (l *Ledger) Forget(of Source, from int64) {
	s := l.sources[of]
	if s == nil {
		return
	}
	s.committed = s.committed.from(from)
	s.records = slices.DeleteFunc(s.records, func(r record) bool { return r.last < from && r.decided })
	if len(s.records) == 0 && len(s.committed) == 0 {
		delete(l.sources, of)
	}
}

// Needed returns the ledger offset from which on records matter.
func (l *Ledger) Needed() int64 {
	at := l.next
	for _, s := range l.sources {
		if len(s.records) > 0 {
			at = min(at, s.records[0].at)
		}
	}
	return at
}

// Sources returns the source partitions that something is known of.
func (l *Ledger) Sources() []Source {
	out := make([]Source, 0, len(l.sources))
	for of := range l.sources {
		out = append(out, of)
	}
	return out
}
