package recordbatch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pierrec/lz4/v4"
)

const (
	lz4Magic       = 0x184D2204
	lz4SkipMagic   = 0x184D2A50 // Of sixteen.
	lz4Dictionary  = 1 << 0
	lz4Checksum    = 1 << 2 // Of the content.
	lz4Size        = 1 << 3 // Of the content.
	lz4BlockSums   = 1 << 4
	lz4Independent = 1 << 5
	lz4Stored      = 1 << 31 // The block is not compressed.
	lz4WindowBytes = 64 << 10
)

var (
	errLZ4Magic  = errors.New("not a frame")
	errLZ4Header = errors.New("frame header is not supported")
)

// unlz4 decompresses frames block by block straight into out. It does not look at
// the frame's own checksums, as the batch's has been checked already.
func (p *Pool) unlz4(out *buffer, src []byte) error {
	for len(src) > 0 {
		if len(src) < 8 {
			return fmt.Errorf("lz4: frame: %w", errShort)
		}
		magic := binary.LittleEndian.Uint32(src)
		if magic&^0xf == lz4SkipMagic {
			size := int64(binary.LittleEndian.Uint32(src[4:]))
			if size > int64(len(src)-8) {
				return fmt.Errorf("lz4: frame: %w", errShort)
			}
			src = src[8+size:]
			continue
		}
		if magic != lz4Magic {
			return fmt.Errorf("lz4: %w", errLZ4Magic)
		}
		rest, err := p.lz4Frame(out, src[4:])
		if errors.Is(err, ErrTooLarge) {
			return err
		}
		if err != nil {
			return fmt.Errorf("lz4: %w", err)
		}
		src = rest
	}
	return nil
}

// lz4Frame decompresses one frame, from its flags on, and returns what follows.
func (p *Pool) lz4Frame(out *buffer, src []byte) ([]byte, error) {
	flags, sizes := src[0], src[1]>>4&7
	if flags>>6 != 1 || flags&lz4Dictionary != 0 || sizes < 4 {
		return nil, errLZ4Header
	}
	blockBytes := 1 << (8 + 2*int(sizes))
	head := 3 // Flags, sizes and their checksum.
	if flags&lz4Size != 0 {
		head += 8
	}
	if len(src) < head {
		return nil, errShort
	}
	src = src[head:]
	start := len(out.b)
	for {
		if len(src) < 4 {
			return nil, errShort
		}
		field := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if field == 0 {
			break
		}
		size := int(field &^ lz4Stored)
		if size > len(src) || size > blockBytes {
			return nil, errShort
		}
		block := src[:size]
		src = src[size:]
		if flags&lz4BlockSums != 0 {
			if len(src) < 4 {
				return nil, errShort
			}
			src = src[4:]
		}
		if field&lz4Stored != 0 {
			if size > p.limit-len(out.b) {
				return nil, ErrTooLarge
			}
			p.grow(out, size)
			out.b = append(out.b, block...)
			continue
		}
		window := len(out.b) // Where the block may look back to.
		if flags&lz4Independent == 0 {
			window = max(start, len(out.b)-lz4WindowBytes)
		}
		if err := p.lz4Block(out, block, window, blockBytes); err != nil {
			return nil, err
		}
	}
	if flags&lz4Checksum != 0 {
		if len(src) < 4 {
			return nil, errShort
		}
		src = src[4:]
	}
	return src, nil
}

// lz4Block decompresses one block of at most blockBytes. Blocks do not say how
// large they become, so it tries again with more room.
func (p *Pool) lz4Block(out *buffer, block []byte, window, blockBytes int) error {
	at := len(out.b)
	most := min(blockBytes, 255*len(block)) // The format cannot do better.
	most = min(most, p.limit-at)
	for room := min(most, max(4*len(block), cap(out.b)-at)); ; room = min(most, 2*room) {
		p.grow(out, room)
		dst := out.b[at : at+room]
		var (
			n   int
			err error
		)
		if window == at {
			n, err = lz4.UncompressBlock(block, dst)
		} else {
			n, err = lz4.UncompressBlockWithDict(block, dst, out.b[window:at])
		}
		switch {
		case err == nil:
			out.b = out.b[:at+n]
			return nil
		case room < most:
		case most == p.limit-at:
			return fmt.Errorf("%w, or: %w", ErrTooLarge, err)
		default:
			return err
		}
	}
}
