package fetchconn

import "sync/atomic"

// Body is the memory that a response's records are in, for as many as hold it.
// Its methods are safe for concurrent use, and a nil one has no memory to give
// back.
type Body struct {
	buf  *[]byte
	refs atomic.Int32
}

func newBody(size int) *Body {
	b := &Body{buf: bodies.get(size)}
	b.refs.Store(1)
	return b
}

// Memory returns how many bytes b holds, which may be more than were read.
func (b *Body) Memory() int {
	if b == nil {
		return 0
	}
	return cap(*b.buf)
}

// Retain adds a holder.
func (b *Body) Retain() {
	if b != nil {
		b.refs.Add(1)
	}
}

// Release ends a hold. After the last the memory is used for another response.
// One that is never released is the garbage collector's.
func (b *Body) Release() {
	if b != nil && b.refs.Add(-1) == 0 {
		bodies.put(b.buf)
		b.buf = nil
	}
}
