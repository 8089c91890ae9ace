package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/pluginapi"
)

var from = Source{Topic: "orders", TopicID: pluginapi.TopicID{1, 2}, Partition: 3}

// decode decodes with a new decoder and checks what must always hold.
func decode(t testing.TB, raw []byte, acquired ...Range) *Batch {
	t.Helper()
	b, err := NewDecoder(NewPool()).Decode(raw, from, acquired)
	if err != nil {
		t.Fatal(err)
	}
	checkPartition(t, b, acquired)
	return b
}

// checkPartition fails unless each acquired offset is in b exactly once, in order.
func checkPartition(t testing.TB, b *Batch, acquired []Range) {
	t.Helper()
	var got []Range
	for i, r := range b.Records {
		if i > 0 && r.Offset <= b.Records[i-1].Offset {
			t.Fatalf("record %d has offset %d after %d", i, r.Offset, b.Records[i-1].Offset)
		}
		got = append(got, Range{r.Offset, r.Offset})
	}
	for i, g := range b.Gaps {
		if i > 0 && g.First <= b.Gaps[i-1].Last {
			t.Fatalf("gaps %v are not in order", b.Gaps)
		}
		got = append(got, g)
	}
	for i, l := range b.Lost {
		if i > 0 && l.First <= b.Lost[i-1].Last {
			t.Fatalf("lost %v are not in order", b.Lost)
		}
		if l.Err == nil || !strings.Contains(l.Err.Error(), fmt.Sprintf("orders/3 offsets %v", l.Range)) {
			t.Fatalf("lost %v: error %v does not say what is lost", l.Range, l.Err)
		}
		got = append(got, l.Range)
	}
	slices.SortFunc(got, func(a, b Range) int { return int(min(max(a.First-b.First, -1), 1)) })
	if want, got := merge(acquired), merge(got); !slices.Equal(got, want) {
		t.Fatalf("offsets %v came back, want %v", got, want)
	}
}

// merge joins neighbours; what overlaps stays and so is seen.
func merge(in []Range) []Range {
	var out []Range
	for _, r := range in {
		if n := len(out); n > 0 && out[n-1].Last+1 == r.First {
			out[n-1].Last = r.Last
		} else {
			out = append(out, r)
		}
	}
	return out
}

// outcome is a Batch in short: "r0 r1 g2-3 m4-5 c6-7" for records, gaps, missing and corrupt.
func outcome(b *Batch) string {
	type part struct {
		at   int64
		text string
	}
	var parts []part
	var run []Range
	for _, r := range b.Records {
		run = append(run, Range{r.Offset, r.Offset})
	}
	for _, r := range merge(run) {
		parts = append(parts, part{r.First, "r" + r.String()})
	}
	for _, g := range b.Gaps {
		parts = append(parts, part{g.First, "g" + g.String()})
	}
	for _, l := range b.Lost {
		kind := "c"
		if errors.Is(l.Err, ErrMissing) {
			kind = "m"
		}
		parts = append(parts, part{l.First, kind + l.Range.String()})
	}
	slices.SortFunc(parts, func(a, b part) int { return int(a.at - b.at) })
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, p.text)
	}
	return strings.Join(texts, " ")
}

func TestOutcome(t *testing.T) {
	ten := func(base int64) []byte { return build(t, spec{base: base, recs: numbered(upTo(10)...)}) }
	some := func(base int64, last int32, deltas ...int64) []byte {
		return build(t, spec{base: base, last: last, recs: numbered(deltas...)})
	}
	flip := func(b []byte, at int) []byte { b = bytes.Clone(b); b[at] ^= 0x40; return b }
	control := func(base int64) []byte {
		return build(t, spec{base: base, attributes: attrControl | 0x10, recs: []rec{{key: []byte{0, 0, 0, 1}, value: []byte{0, 0, 0, 0, 0, 0}}}})
	}
	body := func(base int64, last, count int32, codec kgo.CompressionCodecType, b []byte) []byte {
		return build(t, spec{base: base, last: last, count: count, codec: codec, body: b})
	}
	two := appendRecord(appendRecord(nil, rec{}), rec{delta: 1})
	long := appendRecord(appendRecord(nil, rec{value: make([]byte, 20)}), rec{delta: 1, value: make([]byte, 20)})
	swapped := appendRecord(appendRecord(nil, rec{delta: 1}), rec{})
	outside := appendRecord(appendRecord(nil, rec{}), rec{delta: 9})
	rebase := func(b []byte, base int64) []byte {
		b = bytes.Clone(b)
		binary.BigEndian.PutUint64(b, uint64(base))
		return b
	}
	emptied := body(10, 9, -1, 0, []byte{})
	binary.BigEndian.PutUint32(emptied[countAt:], 0)
	emptied = seal(emptied)

	tests := []struct {
		name     string
		raw      []byte
		acquired []Range
		want     string
		err      string // In the first lost.
	}{
		{name: "nothing at all"},
		{name: "nothing acquired", raw: ten(0)},
		{name: "nothing came", acquired: []Range{{0, 4}}, want: "m0-4", err: "it ends before them"},
		{name: "all", raw: ten(0), acquired: []Range{{0, 9}}, want: "r0-9"},
		{name: "subset", raw: ten(0), acquired: []Range{{3, 5}}, want: "r3-5"},
		{name: "ranges in a batch", raw: ten(0), acquired: []Range{{0, 0}, {2, 3}, {7, 9}}, want: "r0-0 r2-3 r7-9"},
		{name: "touching ranges", raw: ten(0), acquired: []Range{{0, 4}, {5, 9}}, want: "r0-9"},
		{name: "range over batches", raw: join(ten(0), ten(10), ten(20)), acquired: []Range{{5, 24}}, want: "r5-24"},
		{name: "skipped batch", raw: join(ten(0), ten(10), ten(20)), acquired: []Range{{5, 6}, {25, 29}}, want: "r5-6 r25-29"},
		{name: "compacted inside", raw: some(0, 9, 1, 2, 6), acquired: []Range{{0, 9}}, want: "g0-0 r1-2 g3-5 r6-6 g7-9"},
		{name: "compacted, subset", raw: some(0, 9, 1, 2, 6), acquired: []Range{{2, 4}, {6, 7}}, want: "r2-2 g3-4 r6-6 g7-7"},
		{name: "compacted between ranges", raw: some(0, 9, 0, 4, 9), acquired: []Range{{1, 2}, {6, 7}}, want: "g1-2 g6-7"},
		{name: "first deleted", raw: ten(10), acquired: []Range{{4, 12}}, want: "g4-9 r10-12"},
		{name: "batch removed", raw: join(ten(0), ten(20)), acquired: []Range{{8, 21}}, want: "r8-9 g10-19 r20-21"},
		{name: "emptied batch", raw: join(ten(0), emptied, ten(20)), acquired: []Range{{8, 21}}, want: "r8-9 g10-19 r20-21"},
		{name: "emptied batch last", raw: join(ten(0), emptied), acquired: []Range{{8, 21}}, want: "r8-9 g10-19 m20-21"},
		{name: "control", raw: join(ten(0), control(10), ten(11)), acquired: []Range{{0, 20}}, want: "r0-9 g10-10 r11-20"},
		{name: "gaps merge", raw: join(some(0, 9, 0), control(10), some(20, 5, 5)), acquired: []Range{{0, 25}}, want: "r0-0 g1-24 r25-25"},
		{name: "beyond the end", raw: ten(0), acquired: []Range{{5, 12}}, want: "r5-9 m10-12", err: "ends before"},
		{name: "truncated, not needed", raw: join(ten(0), ten(10)[:70]), acquired: []Range{{0, 9}}, want: "r0-9"},
		{name: "truncated, needed", raw: join(ten(0), ten(10)[:70]), acquired: []Range{{0, 19}}, want: "r0-9 m10-19", err: "ends before"},
		{name: "truncated head", raw: join(ten(0), ten(20)[:15]), acquired: []Range{{0, 19}}, want: "r0-9 m10-19"},
		{name: "truncated only", raw: ten(5)[:60], acquired: []Range{{0, 9}}, want: "m0-9"},
		{name: "checksum in the middle", raw: join(ten(0), flip(ten(10), 80), ten(20)), acquired: []Range{{0, 29}}, want: "r0-9 c10-19 r20-29", err: "checksum is"},
		{name: "checksum, holes around", raw: join(ten(0), flip(ten(20), 80), ten(40)), acquired: []Range{{0, 49}}, want: "r0-9 m10-19 c20-29 m30-39 r40-49", err: "checksum is"},
		{name: "checksum, then a hole apart", raw: join(flip(ten(0), 80), ten(10), ten(30)), acquired: []Range{{0, 39}}, want: "c0-9 r10-19 g20-29 r30-39"},
		{name: "checksum twice", raw: join(flip(ten(0), 80), flip(ten(10), 80), ten(30)), acquired: []Range{{0, 39}}, want: "c0-9 c10-19 m20-29 r30-39"},
		{name: "checksum, first", raw: join(flip(ten(10), 80), ten(20)), acquired: []Range{{5, 22}}, want: "m5-9 c10-19 r20-22"},
		{name: "checksum, last", raw: join(ten(0), flip(ten(10), 80)), acquired: []Range{{0, 25}}, want: "r0-9 c10-19 m20-25"},
		{name: "checksum, last delta too small", raw: join(flip(some(0, 0x41, upTo(66)...), lastDeltaAt+3), ten(66)), acquired: []Range{{0, 67}}, want: "c0-1 m2-65 r66-67"},
		{name: "checksum, last delta too large", raw: join(flip(ten(0), lastDeltaAt), ten(10)), acquired: []Range{{0, 12}}, want: "c0-9 r10-12"},
		{name: "checksum of a batch not acquired", raw: join(flip(ten(0), 80), ten(20)), acquired: []Range{{12, 22}}, want: "m12-19 r20-22", err: "next to them"},
		{name: "checksum in a control batch", raw: join(ten(0), flip(control(10), 62), ten(11)), acquired: []Range{{9, 11}}, want: "r9-9 c10-10 r11-11"},
		{name: "out of order", raw: join(ten(0), rebase(ten(10), 1000), ten(20)), acquired: []Range{{0, 29}}, want: "m0-29", err: "out of order"},
		{name: "repeated", raw: join(ten(0), ten(0)), acquired: []Range{{0, 9}}, want: "m0-9", err: "out of order"},
		{name: "negative first offset", raw: join(rebase(ten(0), -5), ten(10)), acquired: []Range{{0, 11}}, want: "m0-9 r10-11", err: "next to them"},
		{name: "smallest first offset", raw: join(rebase(ten(0), -1<<63), ten(10)), acquired: []Range{{0, 11}}, want: "m0-9 r10-11"},
		{name: "smallest first offset last", raw: join(ten(0), rebase(ten(0), -1<<63)), acquired: []Range{{0, 11}}, want: "r0-9 m10-11", err: "ends before"},
		{name: "largest first offset", raw: join(ten(0), rebase(ten(0), 1<<63-1)), acquired: []Range{{0, 11}}, want: "r0-9 m10-11"},
		{name: "magic 0", raw: join(legacy(4, 0), legacy(5, 0)), acquired: []Range{{4, 6}}, want: "c4-4 c5-5 m6-6", err: "magic is 0"},
		{name: "magic 1 before magic 2", raw: join(legacy(4, 1), ten(5)), acquired: []Range{{4, 6}}, want: "c4-4 r5-6", err: "magic is 1"},
		{name: "magic 3", raw: join(flip(ten(0), magicAt), ten(10)), acquired: []Range{{0, 11}}, want: "m0-9 r10-11", err: "magic 66"},
		{name: "length negative", raw: join(ten(0), flip(ten(10), lengthAt), bytes.Repeat([]byte{255}, 50)), acquired: []Range{{0, 11}}, want: "r0-9 m10-11"},
		{name: "length too small", raw: join(ten(0), make([]byte, 100)), acquired: []Range{{0, 11}}, want: "r0-9 m10-11", err: "has length 0"},
		{name: "too few records", raw: join(body(0, 9, 3, 0, long), ten(10)), acquired: []Range{{0, 10}}, want: "c0-9 r10-10", err: "record 2 of 3: length"},
		{name: "too many records", raw: join(body(0, 9, 1, 0, two), ten(10)), acquired: []Range{{0, 10}}, want: "c0-9 r10-10", err: "bytes follow"},
		{name: "far too many records", raw: body(0, 9, 1<<30, 0, two), acquired: []Range{{0, 9}}, want: "c0-9", err: "more is declared"},
		{name: "negative count", raw: join(body(0, 9, -1, 0, two), ten(10)), acquired: []Range{{0, 10}}, want: "c0-0 m1-9 r10-10", err: "-1 records"},
		{name: "offsets not in order", raw: body(0, 9, 2, 0, swapped), acquired: []Range{{0, 9}}, want: "c0-9", err: "not in order"},
		{name: "offset outside", raw: body(0, 1, 2, 0, outside), acquired: []Range{{0, 1}}, want: "c0-1", err: "outside"},
		{name: "record cut", raw: body(0, 1, 2, 0, long[:len(long)-1]), acquired: []Range{{0, 1}}, want: "c0-1", err: "record 1 of 2: length"},
		{name: "bad record after gaps and records", raw: join(some(0, 9, 3), body(10, 9, 2, 0, append(appendRecord(nil, rec{delta: 5}), 4, 0, 0, 0, 0, 0, 0, 0, 0)), ten(20)), acquired: []Range{{0, 20}}, want: "g0-2 r3-3 g4-9 c10-19 r20-20", err: "record"},
		{name: "huge varint", raw: body(0, 1, 1, 0, bytes.Repeat([]byte{255}, 20)), acquired: []Range{{0, 1}}, want: "c0-1", err: "too long"},
		{name: "codec 7", raw: join(build(t, spec{base: 0, attributes: 7, recs: numbered(0)}), ten(1)), acquired: []Range{{0, 1}}, want: "c0-0 r1-1", err: "codec 7"},
		{name: "bad gzip", raw: body(0, 0, 1, kgo.CodecGzip, two), acquired: []Range{{0, 0}}, want: "c0-0", err: "gzip"},
		{name: "bad snappy", raw: body(0, 0, 1, kgo.CodecSnappy, two), acquired: []Range{{0, 0}}, want: "c0-0", err: "snappy"},
		{name: "snappy bomb", raw: body(0, 0, 1, kgo.CodecSnappy, []byte{255, 255, 255, 255, 0, 0}), acquired: []Range{{0, 0}}, want: "c0-0"},
		{name: "bad xerial", raw: body(0, 0, 1, kgo.CodecSnappy, []byte(xerial+"\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x09\x00")), acquired: []Range{{0, 0}}, want: "c0-0", err: "snappy"},
		{name: "bad lz4", raw: body(0, 0, 1, kgo.CodecLz4, two), acquired: []Range{{0, 0}}, want: "c0-0", err: "lz4"},
		{name: "bad zstd", raw: body(0, 0, 1, kgo.CodecZstd, two), acquired: []Range{{0, 0}}, want: "c0-0", err: "zstd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := decode(t, tt.raw, tt.acquired...)
			if got := outcome(b); got != tt.want {
				t.Errorf("outcome is %s, want %s", got, tt.want)
			}
			if tt.err != "" && (len(b.Lost) == 0 || !strings.Contains(b.Lost[0].Err.Error(), tt.err)) {
				t.Errorf("lost is %v, want an error with %q", b.Lost, tt.err)
			}
			for _, r := range b.Records {
				if r.Topic != "orders" || r.TopicID != from.TopicID || r.Partition != 3 {
					t.Errorf("record is from %s %v %d", r.Topic, r.TopicID, r.Partition)
				}
			}
		})
	}
}

func TestFields(t *testing.T) {
	long := strings.Repeat("h", 200)
	recs := []rec{
		{delta: 0, time: 5},
		{delta: 1, key: []byte{}, value: []byte{}},
		{delta: 2, time: -2000, key: []byte("key"), value: bytes.Repeat([]byte("v"), 300), headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "", Value: nil}, {Key: "a", Value: []byte{}}, {Key: long, Value: []byte("2")},
		}},
		{delta: 3, headers: []kgo.RecordHeader{{Key: "a", Value: []byte("3")}}},
	}
	b := decode(t, build(t, spec{base: 100, firstTime: 1000, maxTime: 9000, recs: recs}), Range{100, 103})
	if len(b.Records) != 4 {
		t.Fatalf("outcome is %s", outcome(b))
	}
	want := 3 + 300 + 1 + 1 + 1 + 200 + 1 + 1 + 1
	if b.Bytes != want {
		t.Errorf("Bytes is %d, want %d", b.Bytes, want)
	}
	check := func(what string, d pluginapi.Datum, want []byte) {
		t.Helper()
		got, ok := d.Bytes()
		if ok != (want != nil) || !bytes.Equal(got, want) {
			t.Errorf("%s is %q (%v), want %q (%v)", what, got, ok, want, want != nil)
		}
	}
	for i, r := range recs {
		got := b.Records[i]
		check("key", got.Key, r.key)
		check("value", got.Value, r.value)
		if len(got.Headers) != len(r.headers) {
			t.Fatalf("record %d has headers %v, want %v", i, got.Headers, r.headers)
		}
		for j, h := range r.headers {
			if got.Headers[j].Key != h.Key {
				t.Errorf("header is %q, want %q", got.Headers[j].Key, h.Key)
			}
			check("header "+h.Key, got.Headers[j].Value, h.Value)
		}
	}
	for i, want := range []int64{1005, 1000, -1, 1000} {
		got, kind := b.Records[i].Timestamp, b.Records[i].TimestampType
		if want < 0 {
			if !got.IsZero() || kind != pluginapi.NoTimestamp {
				t.Errorf("record %d: timestamp is %v %d, want none", i, got, kind)
			}
		} else if !got.Equal(time.UnixMilli(want)) || kind != pluginapi.CreateTime {
			t.Errorf("record %d: timestamp is %v %d, want %d", i, got, kind, want)
		}
	}
}

func TestLogAppendTime(t *testing.T) {
	b := decode(t, build(t, spec{attributes: attrLogTime, firstTime: 1000, maxTime: 9000, recs: numbered(0, 1)}), Range{0, 1})
	for _, r := range b.Records {
		if !r.Timestamp.Equal(time.UnixMilli(9000)) || r.TimestampType != pluginapi.LogAppendTime {
			t.Errorf("timestamp is %v %d", r.Timestamp, r.TimestampType)
		}
	}
	if len(b.Records) != 2 {
		t.Fatal(outcome(b))
	}
}

// many returns n records of which some repeat and some do not.
func many(n int) []rec {
	state := uint64(1)
	out := make([]rec, 0, n)
	for i := range n {
		v := make([]byte, 0, 1024)
		for len(v) < 1000 {
			state = state*6364136223846793005 + 1442695040888963407
			v = binary.BigEndian.AppendUint64(v, state)
			v = append(v, "a field that comes again and again in every record"...)
		}
		out = append(out, rec{delta: int64(i), time: int64(i), key: fmt.Appendf(nil, "key-%d", i), value: v, headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("x")}}})
	}
	return out
}

func TestCodecs(t *testing.T) {
	recs := many(300)
	var plain []byte
	for _, r := range recs {
		plain = appendRecord(plain, r)
	}
	framed := func(options ...lz4.Option) []byte {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		if err := w.Apply(options...); err != nil {
			t.Fatal(err)
		}
		for part := range slices.Chunk(plain, 10000) {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	java := []byte(xerial + "\x00\x00\x00\x01\x00\x00\x00\x01")
	for part := range slices.Chunk(plain, 32<<10) {
		block := s2.EncodeSnappy(nil, part)
		java = append(binary.BigEndian.AppendUint32(java, uint32(len(block))), block...)
	}
	skip := join([]byte{0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}, framed())
	half := join(compress(t, kgo.CodecLz4, plain[:5000]), compress(t, kgo.CodecLz4, plain[5000:]))
	tests := []struct {
		name  string
		codec kgo.CompressionCodecType
		body  []byte
	}{
		{"none", kgo.CodecNone, plain},
		{"gzip", kgo.CodecGzip, compress(t, kgo.CodecGzip, plain)},
		{"snappy raw", kgo.CodecSnappy, compress(t, kgo.CodecSnappy, plain)},
		{"snappy xerial", kgo.CodecSnappy, java},
		{"lz4", kgo.CodecLz4, compress(t, kgo.CodecLz4, plain)},
		{"lz4 64 KiB blocks", kgo.CodecLz4, framed(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false))},
		{"lz4 block checksums and size", kgo.CodecLz4, framed(lz4.BlockSizeOption(lz4.Block256Kb), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(plain))))},
		{"lz4 high compression", kgo.CodecLz4, framed(lz4.CompressionLevelOption(lz4.Level9))},
		{"lz4 linked blocks", kgo.CodecLz4, linked(t, plain)},
		{"lz4 skippable frame", kgo.CodecLz4, skip},
		{"lz4 two frames", kgo.CodecLz4, half},
		{"zstd", kgo.CodecZstd, compress(t, kgo.CodecZstd, plain)},
		{"zstd two frames", kgo.CodecZstd, join(compress(t, kgo.CodecZstd, plain[:5000]), compress(t, kgo.CodecZstd, plain[5000:]))},
	}
	pool := NewPool()
	d := NewDecoder(pool)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := join(
				build(t, spec{base: 0, last: 299, count: 300, codec: tt.codec, body: tt.body}),
				build(t, spec{base: 300, last: 299, count: 300, codec: tt.codec, body: tt.body}),
			)
			for range 3 { // With fresh buffers and with used ones.
				b, err := d.Decode(raw, from, []Range{{10, 589}})
				if err != nil {
					t.Fatal(err)
				}
				checkPartition(t, b, []Range{{10, 589}})
				if len(b.Records) != 580 {
					t.Fatalf("%d records, lost %v", len(b.Records), b.Lost)
				}
				for i, r := range b.Records {
					want := recs[(i+10)%300]
					key, _ := r.Key.Bytes()
					value, _ := r.Value.Bytes()
					trace, _ := r.Headers[0].Value.Bytes()
					if !bytes.Equal(key, want.key) || !bytes.Equal(value, want.value) || r.Headers[0].Key != "trace" || string(trace) != "x" {
						t.Fatalf("record %d is not what was written", i)
					}
				}
				b.Free()
			}
		})
	}
}

// linked returns an LZ4 frame of which blocks may look back, a stored block first.
func linked(t *testing.T, plain []byte) []byte {
	t.Helper()
	out := []byte{0x04, 0x22, 0x4D, 0x18, 1 << 6, 4 << 4, 0}
	for part := range slices.Chunk(plain, 60<<10) {
		if len(out) < 10 {
			out = binary.LittleEndian.AppendUint32(out, uint32(len(part))|lz4Stored)
			out = append(out, part...)
			continue
		}
		dst := make([]byte, lz4.CompressBlockBound(len(part)))
		n, err := lz4.CompressBlock(part, dst, nil)
		if err != nil || n == 0 {
			t.Fatalf("compress block: %d, %v", n, err)
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(n))
		out = append(out, dst[:n]...)
	}
	return append(out, 0, 0, 0, 0)
}

func TestLinkedBlockLooksBack(t *testing.T) {
	frame := []byte{0x04, 0x22, 0x4D, 0x18, 1 << 6, 4 << 4, 0}
	frame = append(frame, 8, 0, 0, 0x80)
	frame = append(frame, "abcdefgh"...)
	// No literals and a match of 4 at distance 8, then five literals.
	block := []byte{0x00, 8, 0, 0x50, 'v', 'w', 'x', 'y', 'z'}
	frame = append(frame, byte(len(block)), 0, 0, 0)
	frame = append(frame, block...)
	frame = append(frame, 0, 0, 0, 0)
	p := NewPool()
	out := p.getBuffer(0)
	if err := p.unlz4(out, frame); err != nil || string(out.b) != "abcdefghabcdvwxyz" {
		t.Fatalf("%q, %v", out.b, err)
	}
	frame[4] |= lz4Independent
	if err := p.unlz4(p.getBuffer(0), frame); err == nil {
		t.Fatal("an independent block looked back")
	}
}

func TestBombs(t *testing.T) {
	const limit = 1 << 20
	xerialed := []byte(xerial + "\x00\x00\x00\x01\x00\x00\x00\x01")
	for range 3 {
		block := s2.EncodeSnappy(nil, make([]byte, limit/2))
		xerialed = append(binary.BigEndian.AppendUint32(xerialed, uint32(len(block))), block...)
	}
	zeros := make([]byte, limit+1)
	tests := []struct {
		name  string
		codec kgo.CompressionCodecType
		body  []byte
	}{
		{"gzip", kgo.CodecGzip, compress(t, kgo.CodecGzip, zeros)},
		{"snappy", kgo.CodecSnappy, compress(t, kgo.CodecSnappy, zeros)},
		{"snappy blocks", kgo.CodecSnappy, xerialed},
		{"lz4", kgo.CodecLz4, compress(t, kgo.CodecLz4, zeros)},
		{"lz4 blocks", kgo.CodecLz4, linked(t, zeros)},
		{"zstd", kgo.CodecZstd, compress(t, kgo.CodecZstd, zeros)},
		{"zstd frames", kgo.CodecZstd, bytes.Repeat(compress(t, kgo.CodecZstd, zeros[:limit/2]), 3)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := join(
				build(t, spec{last: 9, count: 1, codec: tt.codec, body: tt.body}),
				build(t, spec{base: 10, codec: tt.codec, recs: numbered(0)}),
			)
			pool := newPool(limit)
			b, err := NewDecoder(pool).Decode(raw, from, []Range{{0, 10}})
			if err != nil {
				t.Fatal(err)
			}
			if outcome(b) != "c0-9 r10-10" || !errors.Is(b.Lost[0].Err, ErrTooLarge) {
				t.Errorf("outcome is %s, lost %v", outcome(b), b.Lost)
			}
			// Just as much as may be is well.
			out := pool.getBuffer(0)
			if err := pool.decompress(out, compress(t, tt.codec, zeros[1:]), int(tt.codec)); err != nil || len(out.b) != limit {
				t.Errorf("%d bytes, %v", len(out.b), err)
			}
		})
	}
}

func TestResponseIsBounded(t *testing.T) {
	recs := []rec{{value: make([]byte, 700<<10)}}
	var raw []byte
	for i := range 4 {
		raw = append(raw, build(t, spec{base: int64(i), codec: kgo.CodecZstd, recs: recs})...)
	}
	b, err := NewDecoder(newPool(1<<20)).Decode(raw, from, []Range{{0, 3}})
	if err != nil {
		t.Fatal(err)
	}
	// They come again when the first two are done.
	if got := outcome(b); got != "r0-1 m2-2 m3-3" {
		t.Errorf("outcome is %s, lost %v", got, b.Lost)
	}
}

func TestAcquiredMustBeInOrder(t *testing.T) {
	tests := []struct {
		name     string
		acquired []Range
	}{
		{"negative", []Range{{-1, 4}}},
		{"backwards", []Range{{5, 4}}},
		{"not sorted", []Range{{5, 9}, {0, 1}}},
		{"overlap", []Range{{0, 5}, {5, 6}}},
		{"no end", []Range{{0, 1<<63 - 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := NewDecoder(NewPool()).Decode(nil, from, tt.acquired); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestFreeClearsAndReuses(t *testing.T) {
	d := NewDecoder(NewPool())
	raw := build(t, spec{codec: kgo.CodecLz4, recs: many(20)})
	b, err := d.Decode(raw, from, []Range{{0, 19}})
	if err != nil {
		t.Fatal(err)
	}
	records, headers := b.Records, b.Records[0].Headers
	b.Records = b.Records[5:]
	b.Free()
	b.Free()
	if b.Records != nil {
		t.Error("records are left")
	}
	for i := range records {
		if records[i].Topic != "" || !records[i].Value.IsAbsent() || records[i].Headers != nil {
			t.Fatalf("record %d is not cleared", i)
		}
	}
	if headers[0].Key != "" || !headers[0].Value.IsAbsent() {
		t.Error("headers are not cleared")
	}
}

// Batches are freed by others than their decoders, which share a pool.
func TestPoolIsShared(t *testing.T) {
	recs := many(30)
	pool := NewPool()
	batches := make(chan *Batch, 4)
	var decoders, users sync.WaitGroup
	for codec := kgo.CodecNone; codec <= kgo.CodecZstd; codec++ {
		raw := build(t, spec{codec: codec, recs: recs})
		decoders.Go(func() {
			d := NewDecoder(pool)
			for range 20 {
				b, err := d.Decode(raw, from, []Range{{0, 29}})
				if err != nil {
					t.Error(err)
					return
				}
				batches <- b
			}
		})
	}
	users.Go(func() {
		for b := range batches {
			for i := range b.Records {
				if value, _ := b.Records[i].Value.Bytes(); !bytes.Equal(value, recs[i].value) {
					t.Errorf("record %d is not what was written", i)
				}
			}
			if len(b.Records) != len(recs) {
				t.Errorf("outcome is %s", outcome(b))
			}
			b.Free()
		}
	})
	decoders.Wait()
	close(batches)
	users.Wait()
}

func TestInternerIsBounded(t *testing.T) {
	var n interner
	for i := range 5 * maxInterned {
		want := fmt.Sprintf("name-%d", i)
		if got := n.intern([]byte(want)); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if len(n.all) > maxInterned {
		t.Errorf("%d names are kept", len(n.all))
	}
}
