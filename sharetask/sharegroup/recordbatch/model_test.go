package recordbatch

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestModel makes logs with holes and compares each acquired offset's fate with
// what was put in, whole and with one byte broken.
func TestModel(t *testing.T) {
	d := NewDecoder(NewPool())
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var (
			raw   []byte
			exist = map[int64]bool{}
			last  = int64(-1)
		)
		for next := int64(0); len(raw) == 0 || rnd.IntN(6) > 0; {
			next += max(0, rnd.Int64N(12)-6)
			s := spec{base: next, last: 1 + rnd.Int32N(12)}
			if rnd.IntN(5) == 0 { // A compressor is slow to make.
				s.codec = kgo.CompressionCodecType(rnd.IntN(5))
			}
			control := rnd.IntN(6) == 0
			if control {
				s.attributes = attrControl
			}
			for delta := range int64(s.last) + 1 {
				if rnd.IntN(4) > 0 {
					s.recs = append(s.recs, numbered(delta)...)
					exist[s.base+delta] = !control
				}
			}
			raw = append(raw, build(t, s)...)
			last = s.base + int64(s.last)
			next = last + 1
		}
		var acquired []Range
		for o := rnd.Int64N(4); o < last+8; {
			r := Range{o, o + rnd.Int64N(20)}
			acquired = append(acquired, r)
			o = r.Last + 1 + rnd.Int64N(6)
		}

		b, err := d.Decode(raw, from, acquired)
		if err != nil {
			t.Fatal(err)
		}
		checkPartition(t, b, acquired)
		for _, r := range b.Records {
			if !exist[r.Offset] {
				t.Fatalf("seed %d: record at %d was not written", seed, r.Offset)
			}
		}
		checkGaps(t, seed, b, exist)
		for _, l := range b.Lost {
			if l.First <= last || !errors.Is(l.Err, ErrMissing) {
				t.Fatalf("seed %d: %v, and the last batch ends at %d", seed, l, last)
			}
		}
		b.Free()

		// The checksum covers all but these: first offset, leader epoch.
		at := rnd.IntN(len(raw))
		raw[at] ^= byte(1 + rnd.IntN(255))
		if b, err = d.Decode(raw, from, acquired); err != nil {
			t.Fatal(err)
		}
		checkPartition(t, b, acquired)
		if !firstOffsetHas(raw, at) {
			checkGaps(t, seed, b, exist)
		}
		b.Free()
		if b, err = d.Decode(raw[:at], from, acquired); err != nil {
			t.Fatal(err)
		}
		checkPartition(t, b, acquired)
		checkGaps(t, seed, b, exist)
		b.Free()
	}
}

// checkGaps fails if a gap hides a record.
func checkGaps(t *testing.T, seed uint64, b *Batch, exist map[int64]bool) {
	t.Helper()
	for _, g := range b.Gaps {
		for o := g.First; o <= g.Last; o++ {
			if exist[o] {
				t.Fatalf("seed %d: offset %d has a record and is in gap %v", seed, o, g)
			}
		}
	}
}

// firstOffsetHas reports whether byte at of raw is in a batch's first offset.
func firstOffsetHas(raw []byte, at int) bool {
	for i := 0; i+12 <= len(raw); i += 12 + int(raw[i+10])<<8 + int(raw[i+11]) {
		if at >= i && at < i+8 {
			return true
		}
		if at < i+12 {
			return false
		}
	}
	return false
}
