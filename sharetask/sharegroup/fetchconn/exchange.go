package fetchconn

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxBody is the most that is read into a buffer of ours. What is larger is left
// to the client, which refuses what it does not take either.
const maxBody = 64 << 20

// Exchange is where the connections of one client leave the answers to share
// fetches. Make it with [New]. It is safe for concurrent use.
type Exchange struct {
	sign [16]byte // Begins what the client reads in place of an answer; no broker can know it.

	mu    sync.Mutex
	conns map[uint64]*conn // Those that are open. Guarded by mu.
	last  uint64           // Guarded by mu.
}

// New returns an exchange without connections.
func New() *Exchange {
	x := &Exchange{conns: map[uint64]*conn{}}
	_, _ = rand.Read(x.sign[:]) // Never fails.
	return x
}

// Dial opens a connection to a broker, as kgo.Dialer has it.
type Dial = func(ctx context.Context, network, host string) (net.Conn, error)

// Dialer returns a dialer whose connections leave answers in x.
func (x *Exchange) Dialer(dial Dial) Dial {
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		c, err := dial(ctx, network, host)
		if err != nil {
			return nil, err
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.last++
		own := &conn{Conn: c, x: x, id: x.last}
		x.conns[own.id] = own
		return own, nil
	}
}

// Request returns r as a request whose response is a [*Response].
func (x *Exchange) Request(r *kmsg.ShareFetchRequest) *Request {
	return &Request{ShareFetchRequest: r, x: x}
}

// note is what the client reads in place of an answer: where it is.
func (x *Exchange) note(id uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(nil), x.sign[:]...), id)
}

// claim returns the body that src, what the client has read, is the note of; nil
// if it is none. It errs where there is no such body.
func (x *Exchange) claim(src []byte) (*Body, error) {
	if len(src) != len(x.sign)+8 || [16]byte(src) != x.sign {
		return nil, nil //nolint:nilnil // None is an answer.
	}
	x.mu.Lock()
	c := x.conns[binary.BigEndian.Uint64(src[len(x.sign):])]
	x.mu.Unlock()
	if c == nil {
		return nil, net.ErrClosed
	}
	b := c.takeBody()
	if b == nil {
		return nil, net.ErrClosed
	}
	return b, nil
}

func (x *Exchange) forget(id uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.conns, id)
}
