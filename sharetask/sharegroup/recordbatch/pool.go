package recordbatch

import (
	"bytes"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sluicehq/sluice/internal/poison"
	"github.com/sluicehq/sluice/pluginapi"
)

const (
	minClass       = 12 // 4 KiB, the smallest buffer.
	maxClass       = 25 // 32 MiB, the largest that is kept.
	maxSlabRecords = 1 << 16
	maxSlabHeaders = 1 << 18
)

// Pool holds what decoding needs and gives back: record slabs, buffers for
// decompressed batches, and decompressors. It is safe for concurrent use and
// meant to be shared by all decoders of a process. Make it with [NewPool].
type Pool struct {
	limit   int                                // Bytes of a decompressed batch.
	slabs   sync.Pool                          // *slab
	buffers [maxClass - minClass + 1]sync.Pool // *buffer; class i has at least 1<<(minClass+i) bytes
	gzips   sync.Pool                          // *gzipReader
	zstd    func() (*zstd.Decoder, error)
}

// NewPool returns an empty pool. It holds nothing that must be closed.
func NewPool() *Pool { return newPool(MaxBatchBytes) }

func newPool(limit int) *Pool {
	return &Pool{
		limit: limit,
		zstd: sync.OnceValues(func() (*zstd.Decoder, error) {
			// As many at a time as there are processors.
			return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(uint64(limit)))
		}),
	}
}

// slab is the memory behind a Batch.
type slab struct {
	records []pluginapi.Record
	headers []pluginapi.Header
	buffers []*buffer
}

// buffer is one decompressed batch, boxed so that pooling it allocates nothing.
type buffer struct{ b []byte }

type gzipReader struct {
	gzip.Reader
	src bytes.Reader
}

func (p *Pool) getSlab() *slab {
	if s, ok := p.slabs.Get().(*slab); ok {
		return s
	}
	return new(slab)
}

// putSlab takes back s. It is cleared, so that it keeps no response alive.
func (p *Pool) putSlab(s *slab) {
	for i, b := range s.buffers {
		p.putBuffer(b)
		s.buffers[i] = nil
	}
	s.buffers = s.buffers[:0]
	clear(s.records)
	clear(s.headers)
	s.records, s.headers = s.records[:0], s.headers[:0]
	if cap(s.records) > maxSlabRecords {
		s.records = nil
	}
	if cap(s.headers) > maxSlabHeaders {
		s.headers = nil
	}
	p.slabs.Put(s)
}

// getBuffer returns an empty buffer with room for size bytes.
func (p *Pool) getBuffer(size int) *buffer {
	class := max(bits.Len(uint(max(size, 1)-1)), minClass)
	if class > maxClass {
		return &buffer{make([]byte, 0, size)}
	}
	if b, ok := p.buffers[class-minClass].Get().(*buffer); ok {
		return b
	}
	return &buffer{make([]byte, 0, 1<<class)}
}

func (p *Pool) putBuffer(b *buffer) {
	class := bits.Len(uint(cap(b.b))) - 1
	if class < minClass || class > maxClass {
		return
	}
	poison.Bytes(b.b[:cap(b.b)])
	b.b = b.b[:0]
	p.buffers[class-minClass].Put(b)
}

// grow makes room for n more bytes in b.
func (p *Pool) grow(b *buffer, n int) {
	if cap(b.b)-len(b.b) >= n {
		return
	}
	larger := p.getBuffer(max(len(b.b)+n, min(2*cap(b.b), p.limit)))
	larger.b = append(larger.b, b.b...)
	b.b, larger.b = larger.b, b.b
	p.putBuffer(larger)
}
