//go:build !race

package recordbatch

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAllocsDoNotGrowWithRecords(t *testing.T) {
	for _, codec := range []kgo.CompressionCodecType{kgo.CodecNone, kgo.CodecLz4, kgo.CodecSnappy, kgo.CodecZstd} {
		raw := benchInput(t, codec)
		d := NewDecoder(NewPool())
		acquired := []Range{{0, 999}}
		run := func() {
			b, err := d.Decode(raw, from, acquired)
			if err != nil || len(b.Records) != 1000 {
				t.Fatal(err)
			}
			b.Free()
		}
		for range 3 {
			run()
		}
		// The Batch is one; a collection may empty the pools in between.
		if n := testing.AllocsPerRun(200, run); n > 4 {
			t.Errorf("codec %d: %v allocations for 1000 records", codec, n)
		}
	}
}
