package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// The numbers are Kafka's.
const (
	codecNone   = 0
	codecGzip   = 1
	codecSnappy = 2
	codecLZ4    = 3
	codecZstd   = 4
	codecs      = 5
)

// decompress returns the records of f, whose memory is the slab's.
func (t *task) decompress(f *frame) ([]byte, error) {
	codec := f.attributes & attrCodec
	if codec == codecNone || f.count == 0 && len(f.body) == 0 { // Compaction leaves empty batches.
		return f.body, nil
	}
	if codec >= codecs {
		return nil, fmt.Errorf("compression codec %d is unknown", codec)
	}
	d, p := t.d, t.d.pool
	if t.decompressed >= p.limit {
		return nil, fmt.Errorf("%w: the batches before decompress to %d bytes, the limit is %d", ErrMissing, t.decompressed, p.limit)
	}
	ratio := max(d.ratio[codec], 1)
	out := p.getBuffer(int(min(float64(len(f.body))*ratio*1.125, float64(p.limit))))
	if err := p.decompress(out, f.body, int(codec)); err != nil {
		p.putBuffer(out)
		return nil, fmt.Errorf("decompress: %w", err)
	}
	d.ratio[codec] = float64(len(out.b)) / float64(max(len(f.body), 1))
	t.decompressed += len(out.b)
	t.b.slab.buffers = append(t.b.slab.buffers, out)
	return out.b, nil
}

func (p *Pool) decompress(out *buffer, src []byte, codec int) error {
	switch codec {
	case codecGzip:
		return p.gunzip(out, src)
	case codecSnappy:
		return p.unsnappy(out, src)
	case codecLZ4:
		return p.unlz4(out, src)
	default:
		return p.unzstd(out, src)
	}
}

func (p *Pool) gunzip(out *buffer, src []byte) error {
	z, ok := p.gzips.Get().(*gzipReader)
	if !ok {
		z = new(gzipReader)
	}
	defer p.gzips.Put(z)
	defer z.src.Reset(nil)
	z.src.Reset(src)
	if err := z.Reset(&z.src); err != nil {
		return fmt.Errorf("gzip: %w", err)
	}
	for {
		p.grow(out, 512)
		n, err := z.Read(out.b[len(out.b):cap(out.b)])
		out.b = out.b[:len(out.b)+n]
		switch {
		case len(out.b) > p.limit:
			return ErrTooLarge
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("gzip: %w", err)
		}
	}
}

func (p *Pool) unzstd(out *buffer, src []byte) error {
	z, err := p.zstd()
	if err != nil {
		return fmt.Errorf("zstd: %w", err)
	}
	b, err := z.DecodeAll(src, out.b)
	if cap(b) > cap(out.b) { // It did not fit in.
		p.putBuffer(&buffer{out.b})
		out.b = b
	}
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return ErrTooLarge
	case err != nil:
		return fmt.Errorf("zstd: %w", err)
	}
	out.b = b
	return nil
}

// snappyRatio is more than the format can do: 64 bytes in a copy of 3.
const snappyRatio = 32

// xerial begins what Java's SnappyOutputStream writes: after it and two versions
// follow blocks, each after its length.
const (
	xerial      = "\x82SNAPPY\x00"
	xerialBytes = len(xerial) + 8
)

func (p *Pool) unsnappy(out *buffer, src []byte) error {
	if len(src) < xerialBytes || !bytes.HasPrefix(src, []byte(xerial)) {
		return p.snappyBlock(out, src)
	}
	for src = src[xerialBytes:]; len(src) > 0; {
		if len(src) < 4 {
			return fmt.Errorf("snappy: block length: %w", errShort)
		}
		size := int64(binary.BigEndian.Uint32(src))
		src = src[4:]
		if size > int64(len(src)) {
			return fmt.Errorf("snappy: block: %w", errShort)
		}
		if err := p.snappyBlock(out, src[:size]); err != nil {
			return err
		}
		src = src[size:]
	}
	return nil
}

func (p *Pool) snappyBlock(out *buffer, src []byte) error {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return fmt.Errorf("snappy: %w", err)
	}
	if n > p.limit-len(out.b) {
		return ErrTooLarge
	}
	if n > snappyRatio*len(src) {
		return fmt.Errorf("snappy: %d bytes in %d: %w", n, len(src), errCount)
	}
	p.grow(out, n)
	at := len(out.b)
	if _, err := s2.Decode(out.b[at:at+n], src); err != nil {
		return fmt.Errorf("snappy: %w", err)
	}
	out.b = out.b[:at+n]
	return nil
}
