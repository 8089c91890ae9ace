package recordbatch

import (
	"fmt"

	"github.com/sluicehq/sluice/pluginapi"
)

// Source says where the bytes were read: what is stamped into each record.
type Source struct {
	Topic     string
	TopicID   pluginapi.TopicID
	Partition int32
}

// Range is the offsets from First to Last, both of them included.
type Range struct{ First, Last int64 }

// String returns "FIRST-LAST".
func (r Range) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// Lost is acquired offsets about which the answer tells nothing, and why. They
// must not be acknowledged as gaps.
type Lost struct {
	Range
	Err error // Names topic, partition and offsets. [ErrMissing] where no batch has them.
}

// String returns the error's text.
func (l Lost) String() string { return l.Err.Error() }

// Batch is what [Decoder.Decode] found. Each acquired offset is in exactly one
// of Records, Gaps and Lost.
type Batch struct {
	Records []pluginapi.Record // In the order of their offsets. Valid until Free.
	Bytes   int                // Of the records' keys, values, header names and header values.
	Gaps    []Range            // Offsets that have no record and never will; sorted, not touching.
	Lost    []Lost             // Sorted, not overlapping.

	pool *Pool
	slab *slab
}

// Free gives the memory of the records back to the pool. Afterwards the records
// and all their slices are invalid; Bytes, Gaps and Lost stay. Only the first call
// does anything. It may be called by another goroutine than the decoder's.
func (b *Batch) Free() {
	if b.slab == nil {
		return
	}
	b.pool.putSlab(b.slab)
	b.slab, b.Records = nil, nil
}
