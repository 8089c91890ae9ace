package recordbatch

import (
	"fmt"
	"hash/crc32"
	"math"
)

// MaxBatchBytes is the most that one batch may decompress to.
const MaxBatchBytes = 256 << 20

// maxFrames is how many batches of an answer a decoder keeps room for.
const maxFrames = 1 << 14

// Decoder decodes partitions, one after another. It is not safe for concurrent
// use: give each goroutine its own. Make it with [NewDecoder].
type Decoder struct {
	pool       *Pool
	castagnoli *crc32.Table
	names      interner
	ratio      [codecs]float64 // Of the last batch's size decompressed to compressed.
	frames     []frame         // Of the answer at hand.
}

// NewDecoder returns a decoder that takes its memory from pool, which must not be nil.
func NewDecoder(pool *Pool) *Decoder {
	return &Decoder{pool: pool, castagnoli: crc32.MakeTable(crc32.Castagnoli)}
}

// Decode decodes raw, the records of one partition as they came, as far as their
// offsets are acquired. acquired must be sorted, without overlap or negative
// offsets, or else the error says so: there is no other error. What is wrong with
// raw is in the batch's Lost, and the rest is decoded.
//
// The records point into raw: it must not change before [Batch.Free].
func (d *Decoder) Decode(raw []byte, from Source, acquired []Range) (*Batch, error) {
	before := int64(-1)
	for _, r := range acquired {
		if r.First <= before || r.Last < r.First || r.Last == math.MaxInt64 {
			return nil, fmt.Errorf("decode %s/%d: acquired offsets %v are negative or not in order", from.Topic, from.Partition, r)
		}
		before = r.Last
	}
	b := &Batch{pool: d.pool, slab: d.pool.getSlab()}
	b.Records = b.slab.records[:0]
	t := task{d: d, b: b, from: from}
	t.start(acquired)
	ordered, tail := d.split(raw)
	if ordered {
		t.frames()
	}
	t.lose(math.MaxInt64, tail)
	b.Gaps = t.gaps
	b.slab.records = b.Records
	clear(d.frames) // They point into raw.
	if cap(d.frames) > maxFrames {
		d.frames = nil
	}
	return b, nil
}

// task is one call of Decode.
type task struct {
	walk
	d            *Decoder
	b            *Batch
	from         Source
	decompressed int // Bytes.
}

// frames decides about the acquired offsets up to the last one of the last batch.
func (t *task) frames() {
	var before error // What is wrong with a batch since the last one that is right.
	right := -1      // Of nextRight.
	for i := range t.d.frames {
		f := &t.d.frames[i]
		if f.err != nil {
			if right < i {
				right = t.nextRight(i)
			}
			// Its offsets are what it says, but for what the next one that is right has.
			limit := int64(math.MaxInt64)
			if right < len(t.d.frames) {
				limit = t.d.frames[right].first - 1
			}
			t.loseNear(min(f.first-1, limit), f.err)
			t.lose(min(f.last, limit), f.err)
			before = f.err
			continue
		}
		if before == nil {
			t.gap(f.first - 1)
		} else {
			t.loseNear(f.first-1, before)
			before = nil
		}
		switch {
		case t.next > f.last:
		case f.attributes&attrControl != 0:
			t.gap(f.last)
		default:
			t.decode(f)
		}
	}
}

// nextRight returns the first frame from i on that is right, or how many frames
// there are.
func (t *task) nextRight(i int) int {
	for i < len(t.d.frames) && t.d.frames[i].err != nil {
		i++
	}
	return i
}

// lose takes all undecided offsets up to last for lost.
func (t *task) lose(last int64, err error) {
	for r, ok := t.take(last); ok; r, ok = t.take(last) {
		t.b.Lost = append(t.b.Lost, Lost{r, fmt.Errorf("decode %s/%d offsets %v: %w", t.from.Topic, t.from.Partition, r, err)})
	}
}

// loseNear takes all undecided offsets up to last for lost because a batch next to
// them is wrong.
func (t *task) loseNear(last int64, err error) {
	if t.next <= last {
		t.lose(last, fmt.Errorf("%w: a batch next to them cannot be read: %w", ErrMissing, err))
	}
}

// decode decides about the offsets of f, either by its records or by what is wrong
// with one of them.
func (t *task) decode(f *frame) {
	var (
		walk    = t.walk
		last    Range // walk's last gap may have grown since.
		records = len(t.b.Records)
		bytes   = t.b.Bytes
	)
	if n := len(walk.gaps); n > 0 {
		last = walk.gaps[n-1]
	}
	body, err := t.decompress(f)
	if err == nil {
		err = t.records(f, body)
	}
	if err == nil {
		t.gap(f.last)
		return
	}
	clear(t.b.Records[records:])
	t.b.Records, t.b.Bytes = t.b.Records[:records], bytes
	if n := len(walk.gaps); n > 0 {
		t.gaps[n-1] = last
	}
	walk.gaps = t.gaps[:len(walk.gaps)]
	t.walk = walk
	t.lose(f.last, fmt.Errorf("batch %d-%d: %w", f.first, f.last, err))
}
