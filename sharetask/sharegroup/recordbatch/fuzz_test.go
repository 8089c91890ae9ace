package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/pluginapi"
)

const fuzzLimit = 1 << 20 // Bytes of a decompressed batch.

var errClaim = errors.New("claims to be too large")

// modest refuses what says that it becomes large, for which the library would
// make room at once.
type modest struct{ kgo.Decompressor }

func (m modest) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	switch codec {
	case kgo.CodecSnappy:
		if n, err := s2.DecodedLen(src); err == nil && n > fuzzLimit {
			return nil, errClaim
		}
	case kgo.CodecZstd:
		var h zstd.Header
		if err := h.Decode(src); err != nil || h.FrameContentSize > fuzzLimit {
			return nil, errClaim
		}
	default: // The others make room as they go.
	}
	return m.Decompressor.Decompress(src, codec)
}

// reference returns what the client library makes of raw, by offset, or nil if it
// is not happy with it.
func reference(raw []byte, d kgo.Decompressor) map[int64]*kgo.Record {
	p, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: from.Topic, Partition: from.Partition},
		&kmsg.FetchResponseTopicPartition{Partition: from.Partition, RecordBatches: raw}, d, nil)
	if p.Err != nil {
		return nil
	}
	out := make(map[int64]*kgo.Record, len(p.Records))
	for _, r := range p.Records {
		out[r.Offset] = r
	}
	return out
}

// sameBytes reports whether d is b, null and empty kept apart.
func sameBytes(d pluginapi.Datum, b []byte) bool {
	got, ok := d.Bytes()
	return ok == (b != nil) && bytes.Equal(got, b)
}

func checkRecord(t *testing.T, got *pluginapi.Record, want *kgo.Record) {
	t.Helper()
	if !sameBytes(got.Key, want.Key) || !sameBytes(got.Value, want.Value) || len(got.Headers) != len(want.Headers) {
		t.Fatalf("record at %d is %+v, want %+v", got.Offset, got, want)
	}
	for i, h := range want.Headers {
		if got.Headers[i].Key != h.Key || !sameBytes(got.Headers[i].Value, h.Value) {
			t.Fatalf("record at %d has header %+v, want %+v", got.Offset, got.Headers[i], h)
		}
	}
	if ms := want.Timestamp.UnixMilli(); ms < 0 {
		if !got.Timestamp.IsZero() {
			t.Fatalf("record at %d has timestamp %v, want none", got.Offset, got.Timestamp)
		}
	} else if !got.Timestamp.Equal(want.Timestamp) {
		t.Fatalf("record at %d has timestamp %v, want %v", got.Offset, got.Timestamp, want.Timestamp)
	}
}

// fixSums makes the checksums and lengths of a mutated input right, so that what
// lies behind them is reached.
func fixSums(raw []byte) []byte {
	raw = bytes.Clone(raw)
	for rest := raw; len(rest) >= recordsAt; {
		n := int64(int32(binary.BigEndian.Uint32(rest[lengthAt:]))) + 12
		if n < recordsAt || n > int64(len(rest)) {
			n = int64(len(rest))
		}
		rest[magicAt] = 2
		seal(rest[:n])
		rest = rest[n:]
	}
	return raw
}

// ranges makes acquired ranges of pairs of bytes: a distance and a length.
func ranges(b []byte) []Range {
	var out []Range
	next := int64(0)
	for ; len(b) >= 2 && len(out) < 20; b = b[2:] {
		first := next + int64(b[0])
		last := first + int64(b[1])
		out = append(out, Range{first, last})
		next = last + 1
	}
	return out
}

func seeds(t testing.TB) [][]byte {
	rich := []rec{
		{delta: 0},
		{delta: 1, time: 3, key: []byte{}, value: []byte{}, headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}}},
		{delta: 5, time: -9000, key: []byte("key"), value: bytes.Repeat([]byte("v"), 100), headers: []kgo.RecordHeader{{Key: ""}}},
	}
	var out [][]byte
	for codec := kgo.CodecNone; codec <= kgo.CodecZstd; codec++ {
		out = append(out, join(
			build(t, spec{base: 3, codec: codec, firstTime: 1000, maxTime: 2000, last: 7, recs: rich}),
			build(t, spec{base: 20, attributes: attrControl, recs: numbered(0)}),
			build(t, spec{base: 30, codec: codec, attributes: attrLogTime, maxTime: 5, recs: numbered(upTo(20)...)}),
		))
	}
	return append(out, legacy(4, 0), legacy(4, 1), out[0][:len(out[0])-9])
}

func FuzzDecode(f *testing.F) {
	for _, s := range seeds(f) {
		for _, fix := range []bool{false, true} {
			f.Add(s, []byte{0, 100}, fix)
			f.Add(s, []byte{4, 0, 1, 3, 2, 30, 1, 200}, fix)
		}
	}
	d := NewDecoder(newPool(fuzzLimit))
	theirs := modest{kgo.DefaultDecompressor()}
	f.Fuzz(func(t *testing.T, raw, pairs []byte, fix bool) {
		if fix {
			raw = fixSums(raw)
		}
		acquired := ranges(pairs)
		b, err := d.Decode(raw, from, acquired)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Free()
		checkPartition(t, b, acquired)
		size := 0
		for i := range b.Records {
			key, _ := b.Records[i].Key.Bytes()
			value, _ := b.Records[i].Value.Bytes()
			size += len(key) + len(value)
			for _, h := range b.Records[i].Headers {
				value, _ := h.Value.Bytes()
				size += len(h.Key) + len(value)
			}
		}
		if size != b.Bytes {
			t.Fatalf("Bytes is %d, want %d", b.Bytes, size)
		}
		want := reference(raw, theirs)
		if want == nil {
			return
		}
		for i := range b.Records {
			if r, ok := want[b.Records[i].Offset]; ok {
				checkRecord(t, &b.Records[i], r)
			}
		}
		// What theirs finds is never a gap.
		for _, g := range b.Gaps {
			for o := range want {
				if o >= g.First && o <= g.Last {
					t.Fatalf("offset %d is in gap %v and has record %+v", o, g, want[o])
				}
			}
		}
	})
}

func TestSameAsClientLibrary(t *testing.T) {
	d := NewDecoder(NewPool())
	theirs := kgo.DefaultDecompressor()
	for i, raw := range seeds(t)[:5] {
		want := reference(raw, theirs)
		b, err := d.Decode(raw, from, []Range{{0, 49}})
		if err != nil {
			t.Fatal(err)
		}
		checkPartition(t, b, []Range{{0, 49}})
		if len(b.Records) != len(want) || len(want) != 23 || len(b.Lost) > 0 {
			t.Fatalf("input %d: %d records, want %d, lost %v", i, len(b.Records), len(want), b.Lost)
		}
		for j := range b.Records {
			checkRecord(t, &b.Records[j], want[b.Records[j].Offset])
		}
		b.Free()
	}
}
