package abi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// ErrMalformed is wrapped by every error a reader of this package returns: the
// bytes are not the frame they should be. Reading them again cannot help.
var ErrMalformed = errors.New("malformed frame")

// maxDepth bounds arrays, maps and tags within each other in a value.
const maxDepth = 512

// reader walks over one frame. Its first error stays: every call after it
// returns a zero value, so that callers check once, and in loops.
type reader struct {
	buf []byte
	pos int
	err error

	padding int // Struct fields that were left out.
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: byte %d: %s", ErrMalformed, r.pos, fmt.Sprintf(format, args...))
		r.pos = len(r.buf)
	}
}

// head reads an item's head. For simple values and floats n holds the bits.
func (r *reader) head() (major, info byte, n uint64) {
	if r.err != nil {
		return majorSimple, 0, 0
	}
	if r.pos >= len(r.buf) {
		r.fail("frame ends early")
		return majorSimple, 0, 0
	}
	b := r.buf[r.pos]
	major, info = b&0xe0, b&0x1f
	if info < 24 {
		r.pos++
		return major, info, uint64(info)
	}
	if info > 27 {
		if info == 31 {
			r.fail("indefinite length")
		} else {
			r.fail("reserved head 0x%02x", b)
		}
		return majorSimple, 0, 0
	}
	size := 1 << (info - 24)
	if len(r.buf)-r.pos-1 < size {
		r.fail("frame ends early")
		return majorSimple, 0, 0
	}
	rest := r.buf[r.pos+1:]
	switch info {
	case 24:
		n = uint64(rest[0])
		if major == majorSimple && n < 32 {
			r.fail("simple value %d in two bytes", n)
			return majorSimple, 0, 0
		}
	case 25:
		n = uint64(binary.BigEndian.Uint16(rest))
	case 26:
		n = uint64(binary.BigEndian.Uint32(rest))
	default:
		n = binary.BigEndian.Uint64(rest)
	}
	r.pos += 1 + size
	return major, info, n
}

// smallHead reads the head at b[at:] where eight bytes follow it; next is 0 if
// they do not, or it is none with a number.
func smallHead(b []byte, at int) (major byte, n uint64, next int) {
	if at >= len(b) {
		return 0, 0, 0
	}
	major, info := b[at]&0xe0, b[at]&0x1f
	if info < 24 {
		return major, uint64(info), at + 1
	}
	if info > 27 || len(b)-at < 9 {
		return 0, 0, 0
	}
	size := 1 << (info & 3)
	return major, binary.BigEndian.Uint64(b[at+1:]) >> (64 - 8*size), at + 1 + size
}

// want reads a head that must be of one major type.
func (r *reader) want(major byte, what string) uint64 {
	// Nothing is left to read once there is an error.
	if r.pos < len(r.buf) && r.buf[r.pos]&0xe0 == major && r.buf[r.pos]&0x1f < 24 {
		r.pos++
		return uint64(r.buf[r.pos-1] & 0x1f)
	}
	start := r.pos
	got, _, n := r.head()
	if r.err == nil && got != major {
		r.pos = start
		r.fail("want %s, got %s", what, majorName(got))
		return 0
	}
	return n
}

func majorName(major byte) string {
	names := [...]string{"an unsigned integer", "a negative integer", "bytes", "text", "an array", "a map", "a tag", "a simple value or float"}
	return names[major>>5]
}

// count checks a length read from the frame against what is left of it, where
// each of the n things takes at least size bytes.
func (r *reader) count(n, size uint64) int {
	left := uint64(len(r.buf) - r.pos)
	if r.err == nil && (n > left || n*size > left) {
		r.fail("length %d is more than the frame holds", n)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *reader) array() int { return r.count(r.want(majorArray, "an array"), 1) }

func (r *reader) mapLen() int { return r.count(r.want(majorMap, "a map"), 2) }

func (r *reader) uint() uint64 { return r.want(majorUint, "an unsigned integer") }

// uintMax reads an unsigned integer that is at most limit.
func (r *reader) uintMax(limit uint64, what string) uint64 {
	n := r.uint()
	if n > limit {
		r.fail("%s %d is more than %d", what, n, limit)
		return 0
	}
	return n
}

func (r *reader) int() int64 {
	start := r.pos
	major, _, n := r.head()
	switch {
	case r.err != nil:
		return 0
	case major == majorUint && n <= math.MaxInt64:
		return int64(n)
	case major == majorNegint && n <= math.MaxInt64:
		return ^int64(n)
	}
	r.pos = start
	if major == majorUint || major == majorNegint {
		r.fail("integer is outside 64 bits")
	} else {
		r.fail("want an integer, got %s", majorName(major))
	}
	return 0
}

// bytes reads a byte string. It aliases the frame and is never nil.
func (r *reader) bytes() []byte { return r.take(r.want(majorBytes, "bytes")) }

// text reads a text string. It aliases the frame.
func (r *reader) text() string { return alias(r.take(r.want(majorText, "text"))) }

func (r *reader) take(length uint64) []byte {
	n := r.count(length, 1)
	b := r.buf[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return b
}

func (r *reader) bool() bool {
	switch r.peek() {
	case itemFalse, itemTrue:
		r.pos++
		return r.buf[r.pos-1] == itemTrue
	}
	r.fail("want a boolean")
	return false
}

// peek returns the next item's first byte, 0xff at the end.
func (r *reader) peek() byte {
	if r.err != nil || r.pos >= len(r.buf) {
		return 0xff
	}
	return r.buf[r.pos]
}

// null reads null or undefined if it is next, and reports whether it was.
func (r *reader) null() bool {
	switch r.peek() {
	case itemNull, itemUndefined:
		r.pos++
		return true
	}
	return false
}

// skip reads over one item and everything in it. It needs no stack: open counts
// the items still to come, and each takes a byte at least.
func (r *reader) skip() {
	for open := uint64(1); open > 0 && r.err == nil; open-- {
		major, _, n := r.head()
		switch major {
		case majorBytes, majorText:
			r.take(n)
		case majorArray:
			open += uint64(r.count(n, 1))
		case majorMap:
			open += 2 * uint64(r.count(n, 2))
		case majorTag:
			open++
		}
	}
}

// skipFrom skips the array elements from index have on, of n.
func (r *reader) skipFrom(have, n int) {
	for ; have < n && r.err == nil; have++ {
		r.skip()
	}
}

// end fails unless the frame is used up, and returns the reader's error.
func (r *reader) end(what string) error {
	if r.err == nil && r.pos != len(r.buf) {
		r.fail("%d bytes after the end", len(r.buf)-r.pos)
	}
	if r.err != nil {
		return fmt.Errorf("decode %s: %w", what, r.err)
	}
	return nil
}

func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
