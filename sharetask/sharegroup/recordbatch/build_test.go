package recordbatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// rec is a record to build; delta is its offset in the batch.
type rec struct {
	delta, time int64
	key, value  []byte
	headers     []kgo.RecordHeader
}

// spec is a batch to build. Zero fields get what a producer would write.
type spec struct {
	base       int64
	last       int32 // Offset delta; that of the last record if 0.
	attributes int16
	firstTime  int64
	maxTime    int64
	count      int32 // How many records it declares, if not as many as there are.
	codec      kgo.CompressionCodecType
	recs       []rec
	body       []byte // Instead of recs.
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

func appendRecord(dst []byte, r rec) []byte {
	b := []byte{0}
	b = binary.AppendVarint(b, r.time)
	b = binary.AppendVarint(b, r.delta)
	b = appendBytes(b, r.key)
	b = appendBytes(b, r.value)
	b = binary.AppendVarint(b, int64(len(r.headers)))
	for _, h := range r.headers {
		b = appendBytes(b, []byte(h.Key))
		b = appendBytes(b, h.Value)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

func compress(t testing.TB, codec kgo.CompressionCodecType, src []byte) []byte {
	t.Helper()
	with := map[kgo.CompressionCodecType]kgo.CompressionCodec{
		kgo.CodecGzip: kgo.GzipCompression(), kgo.CodecSnappy: kgo.SnappyCompression(),
		kgo.CodecLz4: kgo.Lz4Compression(), kgo.CodecZstd: kgo.ZstdCompression(),
	}
	c, err := kgo.DefaultCompressor(with[codec])
	if err != nil {
		t.Fatal(err)
	}
	out, used := c.Compress(new(bytes.Buffer), src)
	if used != codec {
		t.Fatalf("compressed with %d, want %d", used, codec)
	}
	return bytes.Clone(out)
}

// build returns the batch as a broker sends it.
func build(t testing.TB, s spec) []byte {
	t.Helper()
	body, last := s.body, s.last
	if body == nil {
		for _, r := range s.recs {
			body = appendRecord(body, r)
			if s.last == 0 {
				last = int32(r.delta)
			}
		}
		if s.codec != kgo.CodecNone {
			body = compress(t, s.codec, body)
		}
	}
	count := s.count
	if count == 0 {
		count = int32(len(s.recs))
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(s.base))
	b = binary.BigEndian.AppendUint32(b, 0) // Length, set below.
	b = binary.BigEndian.AppendUint32(b, 7) // Leader epoch.
	b = append(b, 2)
	b = binary.BigEndian.AppendUint32(b, 0) // Checksum, set below.
	b = binary.BigEndian.AppendUint16(b, uint16(s.attributes|int16(s.codec)))
	b = binary.BigEndian.AppendUint32(b, uint32(last))
	b = binary.BigEndian.AppendUint64(b, uint64(s.firstTime))
	b = binary.BigEndian.AppendUint64(b, uint64(s.maxTime))
	b = binary.BigEndian.AppendUint64(b, ^uint64(0)) // Producer id.
	b = binary.BigEndian.AppendUint16(b, ^uint16(0)) // Producer epoch.
	b = binary.BigEndian.AppendUint32(b, ^uint32(0)) // First sequence.
	b = binary.BigEndian.AppendUint32(b, uint32(count))
	return seal(append(b, body...))
}

// seal sets the length and checksum of the one batch that is b.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// legacy returns one message of magic 0 or 1.
func legacy(offset int64, magic byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	body := []byte{0, 0, 0, 0, magic, 0}
	if magic == 1 {
		body = append(body, make([]byte, 8)...)
	}
	body = append(body, 255, 255, 255, 255, 0, 0, 0, 1, 'v')
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(b, body...)
}

// numbered returns n records with the given offset deltas, "k5" and "v5" for delta 5.
func numbered(deltas ...int64) []rec {
	out := make([]rec, 0, len(deltas))
	for _, d := range deltas {
		out = append(out, rec{delta: d, time: d, key: fmt.Appendf(nil, "k%d", d), value: fmt.Appendf(nil, "v%d", d)})
	}
	return out
}

func upTo(n int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
