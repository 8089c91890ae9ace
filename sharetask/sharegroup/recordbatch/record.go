package recordbatch

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

const (
	minRecordBytes = 7 // Its length, attributes, two deltas, two lengths and a count.
	minHeaderBytes = 2 // Two lengths.
)

// records appends the acquired ones of f's records, which are all of body.
func (t *task) records(f *frame, body []byte) error {
	if int64(f.count)*minRecordBytes > int64(len(body)) {
		return fmt.Errorf("%d records in %d bytes: %w", f.count, len(body), errCount)
	}
	t.b.Records = slices.Grow(t.b.Records, t.expect(f))
	var (
		stamp     time.Time
		stampType pluginapi.TimestampType
		millis    = int64(-1) // Of stamp: none yet.
		logTime   = f.attributes&attrLogTime != 0
	)
	if logTime {
		stamp, stampType = timestamp(f.maxTime, pluginapi.LogAppendTime)
	}
	var (
		previous = int64(-1)
		records  = t.b.Records
		bytes    = 0
	)
	defer func() { t.b.Records, t.b.Bytes = records, t.b.Bytes+bytes }()
	for i := range f.count {
		length, n := varint(body)
		if n <= 0 || length < 0 || length > int64(len(body)-n) {
			return fmt.Errorf("record %d of %d: length: %w", i, f.count, lengthError(length, n))
		}
		r := reader{b: body[n : n+int(length)]}
		body = body[n+int(length):]
		r.skip(1) // Attributes, of which there are none yet.
		timeDelta := r.varint()
		offsetDelta := r.varint()
		switch {
		case r.err != nil:
		case offsetDelta <= previous:
			r.err = errOrder
		case offsetDelta > f.last-f.first:
			r.err = errRange
		}
		if r.err != nil {
			return fmt.Errorf("record %d of %d: %w", i, f.count, r.err)
		}
		previous = offsetDelta
		offset := f.first + offsetDelta
		if offset < t.next {
			if err := r.rest(); err != nil {
				return fmt.Errorf("record at %d: %w", offset, err)
			}
			continue
		}
		if offset > t.next {
			t.gap(offset - 1)
		}
		if offset < t.next { // Between two acquired ranges.
			if err := r.rest(); err != nil {
				return fmt.Errorf("record at %d: %w", offset, err)
			}
			continue
		}
		t.advance(offset)
		if !logTime {
			if ms := f.firstTime + timeDelta; ms != millis {
				millis = ms
				stamp, stampType = timestamp(ms, pluginapi.CreateTime)
			}
		}
		k := len(records)
		if k == cap(records) {
			records = slices.Grow(records, 1)
		}
		records = records[:k+1]
		out := &records[k]
		out.Topic, out.TopicID, out.Partition, out.Offset = t.from.Topic, t.from.TopicID, t.from.Partition, offset
		out.Timestamp, out.TimestampType = stamp, stampType
		key, value := r.bytes(), r.bytes()
		out.Key, out.Value = pluginapi.BytesDatum(key), pluginapi.BytesDatum(value)
		bytes += len(key) + len(value)
		if len(r.b) == 1 && r.b[0] == 0 && r.err == nil { // No headers.
			continue
		}
		out.Headers = t.headers(&r)
		if r.err == nil && len(r.b) > 0 {
			r.err = errTrailing
		}
		if r.err != nil {
			return fmt.Errorf("record at %d: %w", offset, r.err)
		}
	}
	if len(body) > 0 {
		return fmt.Errorf("%d records: %w", f.count, errTrailing)
	}
	return nil
}

// expect returns how many records of f will be kept at most, a hint.
func (t *task) expect(f *frame) int {
	n := int64(0)
	first := max(t.next, f.first)
	for _, r := range t.acquired {
		if r.First > f.last {
			break
		}
		n += min(r.Last, f.last) - max(r.First, first) + 1
	}
	return int(min(n, int64(f.count)))
}

// headers reads a record's headers into the slab.
func (t *task) headers(r *reader) []pluginapi.Header {
	count := r.varint()
	if r.err == nil && (count < 0 || count > int64(len(r.b)/minHeaderBytes)) {
		r.err = errCount
	}
	if r.err != nil || count == 0 {
		return nil
	}
	s := t.b.slab
	start, n := len(s.headers), int(count)
	if cap(s.headers)-start < n {
		// The records so far keep the old array.
		s.headers = make([]pluginapi.Header, 0, max(2*cap(s.headers), n, 64))
		start = 0
	}
	s.headers = s.headers[:start+n]
	out := s.headers[start : start+n : start+n]
	for i := range out {
		key := r.bytes()
		if key == nil && r.err == nil {
			r.err = errLength // A name cannot be null.
		}
		value := r.bytes()
		out[i] = pluginapi.Header{Key: t.d.names.intern(key), Value: pluginapi.BytesDatum(value)}
		t.b.Bytes += len(key) + len(value)
	}
	return out
}

// timestamp returns the time of ms, and none for a producer that set none.
func timestamp(ms int64, kind pluginapi.TimestampType) (time.Time, pluginapi.TimestampType) {
	if ms < 0 {
		return time.Time{}, pluginapi.NoTimestamp
	}
	return time.UnixMilli(ms), kind
}
