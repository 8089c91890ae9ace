package recordbatch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// Where the fields of a batch are. Before crcAt all magics agree.
const (
	lengthAt       = 8
	magicAt        = 16
	crcAt          = 17
	attributesAt   = 21
	lastDeltaAt    = 23
	firstTimeAt    = 27
	maxTimeAt      = 35
	countAt        = 57
	recordsAt      = 61
	minLegacyBytes = lengthAt + 4 + 14 // Magic 0: checksum, magic, attributes, two lengths.

	attrCodec   = 0x07
	attrLogTime = 0x08
	attrControl = 0x20
)

// frame is one complete batch. With err the checksum is wrong, or there is none
// that is understood, and so nothing is sure but where the batch's bytes end: first
// and last are what it says of itself.
type frame struct {
	first, last int64
	attributes  uint16
	count       int32
	firstTime   int64
	maxTime     int64
	body        []byte
	err         error
}

// split splits raw into d.frames and returns why it ends before the log does. It
// returns false if the batches that are right are not in order.
func (d *Decoder) split(raw []byte) (ordered bool, tail error) {
	d.frames = d.frames[:0]
	next := int64(0)
	for len(raw) > 0 {
		if len(raw) <= magicAt {
			return true, errEnds
		}
		length := int64(int32(binary.BigEndian.Uint32(raw[lengthAt:])))
		if length < minLegacyBytes-lengthAt-4 {
			return true, fmt.Errorf("%w: batch at %d has length %d", ErrMissing, int64(binary.BigEndian.Uint64(raw)), length)
		}
		if length+lengthAt+4 > int64(len(raw)) {
			return true, errEnds
		}
		f := d.frame(raw[:length+lengthAt+4])
		raw = raw[length+lengthAt+4:]
		if f.err == nil {
			if f.first < next {
				return false, fmt.Errorf("%w: batch at %d is out of order", ErrMissing, f.first)
			}
			next = f.last + 1
		}
		d.frames = append(d.frames, f)
	}
	return true, errEnds
}

// frame reads the head of the one batch that is b.
func (d *Decoder) frame(b []byte) frame {
	f := frame{first: int64(binary.BigEndian.Uint64(b))}
	f.last = f.first
	switch magic := b[magicAt]; {
	case magic < 2:
		// A compressed set bears the offset of its last message.
		f.first = 0
		f.err = fmt.Errorf("magic is %d, want 2: message sets of before Kafka 0.11 are not supported", magic)
		return f
	case magic > 2 || len(b) < recordsAt:
		f.first, f.last = 0, -1 // It cannot be trusted to be what it looks like.
		f.err = fmt.Errorf("batch has magic %d and %d bytes, want magic 2 and %d bytes at least", magic, len(b), recordsAt)
		return f
	}
	delta := int32(binary.BigEndian.Uint32(b[lastDeltaAt:]))
	f.count = int32(binary.BigEndian.Uint32(b[countAt:]))
	f.last = f.first + int64(delta)
	want := binary.BigEndian.Uint32(b[crcAt:])
	switch got := crc32.Checksum(b[attributesAt:], d.castagnoli); {
	case f.first < 0 || delta < 0 || f.last < f.first || f.last == math.MaxInt64 || f.count < 0:
		f.err = fmt.Errorf("batch at %d has last offset delta %d and %d records", f.first, delta, f.count)
		f.last = f.first
		if f.first < 0 {
			f.first, f.last = 0, -1
		}
		return f
	case got != want:
		f.err = fmt.Errorf("checksum is %08x, want %08x", got, want)
		return f
	}
	f.attributes = binary.BigEndian.Uint16(b[attributesAt:])
	f.firstTime = int64(binary.BigEndian.Uint64(b[firstTimeAt:]))
	f.maxTime = int64(binary.BigEndian.Uint64(b[maxTimeAt:]))
	f.body = b[recordsAt:]
	return f
}
