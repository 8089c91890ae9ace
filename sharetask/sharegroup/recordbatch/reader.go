package recordbatch

import "encoding/binary"

// reader reads the fields of one record. After an error it reads zeros.
type reader struct {
	b   []byte
	err error
}

// varint decodes a zigzag varint and the number of its bytes: 0 if b is too short,
// negative if it is longer than ten bytes.
func varint(b []byte) (int64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return zigzag(b[0]), 1
	}
	if len(b) > 1 && b[1] < 0x80 {
		u := uint64(b[0]&0x7f) | uint64(b[1])<<7
		return int64(u>>1) ^ -int64(u&1), 2
	}
	return binary.Varint(b)
}

// zigzag decodes a varint of one byte, which most are.
func zigzag(b byte) int64 { return int64(b>>1) ^ -int64(b&1) }

func lengthError(length int64, n int) error {
	switch {
	case n < 0:
		return errVarint
	case n > 0 && length < 0:
		return errLength
	default:
		return errShort
	}
}

func (r *reader) varint() int64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := zigzag(r.b[0])
		r.b = r.b[1:]
		return v
	}
	v, n := varint(r.b)
	if n <= 0 {
		r.fail(lengthError(v, n))
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) skip(n int) {
	if len(r.b) < n {
		r.fail(errShort)
		return
	}
	r.b = r.b[n:]
}

// bytes reads a length and so many bytes; nil for the length -1, which is null.
func (r *reader) bytes() []byte {
	var (
		length int64
		n      = 1
	)
	if len(r.b) > 0 && r.b[0] < 0x80 {
		length = zigzag(r.b[0])
	} else {
		length, n = varint(r.b)
	}
	if n <= 0 || length < -1 || length > int64(len(r.b)-n) {
		r.fail(lengthError(length, n))
		return nil
	}
	if length < 0 {
		r.b = r.b[n:]
		return nil
	}
	end := n + int(length)
	out := r.b[n:end:end]
	r.b = r.b[end:]
	return out
}

// rest reads all that follows the deltas without keeping it.
func (r *reader) rest() error {
	r.bytes()
	r.bytes()
	count := r.varint()
	if r.err == nil && (count < 0 || count > int64(len(r.b)/minHeaderBytes)) {
		r.err = errCount
	}
	for range count {
		if r.err != nil {
			break
		}
		if key := r.bytes(); key == nil && r.err == nil {
			r.err = errLength
		}
		r.bytes()
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = errTrailing
	}
	return r.err
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}
