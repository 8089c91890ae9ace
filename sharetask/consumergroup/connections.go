package consumergroup

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/sluicehq/sluice/internal/rawconn"
)

var errConnectionsCut = errors.New("the source dropped its connections")

// connections knows a source's connections, to drop them all at once: the
// library's own Close waits for answers.
type connections struct {
	mu   sync.Mutex
	open map[*connection]struct{}
	cut  bool
}

// cutAll closes every connection and refuses new ones.
func (c *connections) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for conn := range c.open {
		_ = conn.Conn.Close() // it is thrown away
	}
	clear(c.open)
}

func (c *connections) dialer(timeout, keepAlive time.Duration) *dialer {
	return &dialer{c, net.Dialer{Timeout: timeout, KeepAlive: keepAlive}}
}

type dialer struct {
	of  *connections
	net net.Dialer
}

// Dial opens a connection and remembers it.
func (d *dialer) Dial(network, addr string) (net.Conn, error) {
	conn, err := d.net.DialContext(context.Background(), network, addr)
	if err != nil {
		return nil, err
	}
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	if d.of.cut {
		return nil, errors.Join(errConnectionsCut, conn.Close())
	}
	if d.of.open == nil {
		d.of.open = make(map[*connection]struct{})
	}
	c := &connection{rawconn.Wrap(conn), d.of}
	d.of.open[c] = struct{}{}
	return c, nil
}

type connection struct {
	net.Conn
	of *connections
}

// Close closes the connection and forgets it.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
