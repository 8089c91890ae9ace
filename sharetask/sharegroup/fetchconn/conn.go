package fetchconn

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Where a request has its api key and correlation id, size included.
const (
	keyAt         = 4
	correlationAt = 8
	requestHead   = 12
)

// maxAsked is how many share fetches a connection keeps in mind: a session has
// one under way.
const maxAsked = 16

var shareFetch = uint16((*kmsg.ShareFetchRequest)(nil).Key()) //nolint:gosec // Not negative.

// conn is a connection to a broker. Like the one it wraps it may be read and
// written at the same time, each by one goroutine.
type conn struct {
	net.Conn
	x  *Exchange
	id uint64

	// Owned by the reader.
	head [8]byte
	out  []byte // To be read before anything else.
	left int    // Bytes of the current frame that pass through.
	err  error  // What reading ended with, to be told after out.

	mu    sync.Mutex
	asked []uint32 // Correlation ids of share fetches. Guarded by mu.
	body  *Body    // The last answer, until it is claimed. Guarded by mu.
}

// Write writes p, which is a request as a whole, or as good as that: a fetch that
// is not known is answered through the client.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) >= requestHead && binary.BigEndian.Uint16(p[keyAt:]) == shareFetch {
		c.mu.Lock()
		if len(c.asked) == maxAsked {
			c.asked = slices.Delete(c.asked, 0, 1)
		}
		c.asked = append(c.asked, binary.BigEndian.Uint32(p[correlationAt:]))
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

// Read reads what the broker sends, but for the answers to share fetches. An
// error stays: a frame may have been read in part.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.out) == 0 && c.left == 0 && c.err == nil && len(p) > 0 {
		c.next()
	}
	switch {
	case len(c.out) > 0:
		n := copy(p, c.out)
		c.out = c.out[n:]
		return n, nil
	case c.err != nil:
		return 0, c.err
	default:
		n, err := c.Conn.Read(p[:min(len(p), c.left)])
		c.left -= n
		return n, err
	}
}

// next reads the beginning of a frame, and all of it where it is the answer to a
// share fetch.
func (c *conn) next() {
	if _, c.err = io.ReadFull(c.Conn, c.head[:4]); c.err != nil {
		return
	}
	size := int(int32(binary.BigEndian.Uint32(c.head[:]))) //nolint:gosec // As the broker has it.
	c.out, c.left = c.head[:4], max(size, 0)
	if size < 4 || size > maxBody { // No answer, or one too large for us: the client says what is wrong.
		return
	}
	n, err := io.ReadFull(c.Conn, c.head[4:])
	c.out, c.left, c.err = c.head[:4+n], size-n, err
	if err != nil || !c.wasAsked(binary.BigEndian.Uint32(c.head[4:])) {
		return
	}
	b := newBody(size - 4)
	c.out, c.left = nil, 0
	if _, c.err = io.ReadFull(c.Conn, *b.buf); c.err != nil {
		if errors.Is(c.err, io.EOF) { // Not at the beginning of a frame.
			c.err = io.ErrUnexpectedEOF
		}
		b.Release()
		return
	}
	c.mu.Lock()
	c.body = b
	c.mu.Unlock()
	note := c.x.note(c.id)
	c.out = binary.BigEndian.AppendUint32(make([]byte, 0, 9+len(note)), uint32(5+len(note))) //nolint:gosec // Few.
	c.out = append(c.out, c.head[4:]...)
	c.out = append(append(c.out, 0), note...) // The header's tags: none.
}

// wasAsked reports whether a share fetch has this correlation id, once.
func (c *conn) wasAsked(id uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.asked, id)
	if i < 0 {
		return false
	}
	c.asked = slices.Delete(c.asked, i, i+1)
	return true
}

func (c *conn) takeBody() *Body {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.body
	c.body = nil
	return b
}

// Close closes the connection. An answer that was not claimed is lost with it.
func (c *conn) Close() error {
	c.x.forget(c.id)
	return c.Conn.Close()
}
