package recordbatch

import (
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var benchCodecs = []struct {
	name  string
	codec kgo.CompressionCodecType
}{{"none", kgo.CodecNone}, {"lz4", kgo.CodecLz4}, {"zstd", kgo.CodecZstd}, {"snappy", kgo.CodecSnappy}}

// benchInput returns 1000 records of 1 KB, of which half compresses, in ten batches.
func benchInput(t testing.TB, codec kgo.CompressionCodecType) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	var raw []byte
	for i := range 10 {
		var recs []rec
		for j := range 100 {
			value := make([]byte, 1024)
			for k := range value {
				if k%64 < 32 {
					value[k] = byte(rnd.Uint32())
				} else {
					value[k] = "some words of json, again again!"[k%32]
				}
			}
			recs = append(recs, rec{delta: int64(j), time: int64(j), key: []byte("customer-1"), value: value, headers: []kgo.RecordHeader{{Key: "trace-id", Value: value[:16]}}})
		}
		raw = append(raw, build(t, spec{base: int64(i * 100), firstTime: 1e12, maxTime: 1e12, codec: codec, recs: recs})...)
	}
	return raw
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range benchCodecs {
		b.Run(c.name, func(b *testing.B) {
			raw := benchInput(b, c.codec)
			d := NewDecoder(NewPool())
			acquired := []Range{{0, 999}}
			b.ReportAllocs()
			for b.Loop() {
				out, err := d.Decode(raw, from, acquired)
				if err != nil || len(out.Records) != 1000 {
					b.Fatal(err, len(out.Records))
				}
				out.Free()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
	}
}

// recycled is the client library's way to use decompression buffers again.
type recycled struct{ free [][]byte }

func (r *recycled) GetDecompressBytes([]byte, kgo.CompressionCodecType) []byte {
	if n := len(r.free); n > 0 {
		b := r.free[n-1]
		r.free = r.free[:n-1]
		return b
	}
	return make([]byte, 0, 256<<10)
}

func (r *recycled) PutDecompressBytes(b []byte) { r.free = append(r.free, b) }

func BenchmarkClientLibrary(b *testing.B) {
	for _, c := range benchCodecs {
		b.Run(c.name, func(b *testing.B) {
			raw := benchInput(b, c.codec)
			pool := &recycled{}
			d := kgo.DefaultDecompressor(pool)
			b.ReportAllocs()
			for b.Loop() {
				p, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "orders", Pools: []kgo.Pool{pool}},
					&kmsg.FetchResponseTopicPartition{RecordBatches: raw}, d, nil)
				if p.Err != nil || len(p.Records) != 1000 {
					b.Fatal(p.Err, len(p.Records))
				}
				for _, r := range p.Records {
					r.Recycle()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
	}
}
