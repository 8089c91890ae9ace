package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// maxConns bounds the connections of one proxy; more are closed at once.
	maxConns = 256
	chunk    = 32 << 10
)

// Proxy is a TCP proxy on 127.0.0.1 that can be told to misbehave. Its methods may be called from several goroutines.
type Proxy struct {
	address string
	stopped chan struct{} // Closed by Close.
	done    sync.WaitGroup

	mu       sync.Mutex
	target   string              // Guarded by mu, like all below. Empty: connections are closed.
	listener net.Listener        // Nil while refusing.
	conns    map[*proxyConn]bool // Open ones.
	delay    time.Duration       // Of each chunk.
	dead     bool                // What is sent vanishes.
	closed   bool
}

// proxyConn is one client's connection and the one it goes on by.
type proxyConn struct {
	client, server net.Conn // server is nil where the connection was taken while dead.
	torn           bool     // Guarded by the proxy's mu: bytes vanished, so it can never be used again.
}

func (c *proxyConn) close() {
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
}

// NewProxy listens on a free port. It closes connections until [Proxy.SetTarget] says where they go. Close must be called.
func NewProxy() (*Proxy, error) {
	p := &Proxy{stopped: make(chan struct{}), conns: map[*proxyConn]bool{}}
	if err := p.listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	p.address = p.listener.Addr().String()
	return p, nil
}

// Address is where clients connect, host and port.
func (p *Proxy) Address() string { return p.address }

// SetTarget says where new connections go, host and port.
func (p *Proxy) SetTarget(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = address
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.close()
	}
}

// SetDelay makes each chunk of at most 32 KiB wait, in both directions; 0 is none.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// SetDead makes all that is sent vanish, while connections stay open and new ones are taken. At its end those that lost something are
// closed.
func (p *Proxy) SetDead(dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = dead
	if !dead {
		for c := range p.conns {
			if c.torn || c.server == nil {
				c.close()
			}
		}
	}
}

// Refuse closes the listener and all connections.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for c := range p.conns {
		c.close()
	}
}

// Accept ends what [Proxy.Refuse] began, at the same address.
func (p *Proxy) Accept() error { return p.listen(p.address) }

// Close ends the proxy and waits for its goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.stopped)
	}
	p.mu.Unlock()
	p.Refuse()
	p.done.Wait()
}

func (p *Proxy) listen(address string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		return fmt.Errorf("open proxy: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.listener != nil {
		return l.Close()
	}
	p.listener = l
	p.done.Go(func() { p.serve(l) })
	return nil
}

// serve takes connections until the listener is closed.
func (p *Proxy) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.handle(client) })
	}
}

// handle moves the bytes of one connection until either end closes.
func (p *Proxy) handle(client net.Conn) {
	c := &proxyConn{client: client}
	defer c.close()
	p.mu.Lock()
	target, dead := p.target, p.dead
	p.mu.Unlock()
	if !dead {
		d := net.Dialer{Timeout: 2 * time.Second}
		server, err := d.Dial("tcp", target)
		if err != nil {
			return
		}
		c.server = server
	}
	p.mu.Lock()
	if p.closed || p.listener == nil || len(p.conns) >= maxConns {
		p.mu.Unlock()
		return
	}
	p.conns[c] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	if c.server == nil {
		_, _ = io.Copy(io.Discard, client) // Until SetDead(false) closes it.
		return
	}
	var back sync.WaitGroup
	back.Go(func() { p.move(c, c.client, c.server) })
	p.move(c, c.server, c.client)
	back.Wait()
}

// move copies one direction; its end closes the connection.
func (p *Proxy) move(c *proxyConn, to, from net.Conn) {
	defer c.close()
	buf := make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.forward(c, to, buf[:n]) {
			return
		}
		if err != nil {
			return
		}
	}
}

// forward sends b on, late or never; false when the connection has to end.
func (p *Proxy) forward(c *proxyConn, to net.Conn, b []byte) bool {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.stopped:
			return false
		}
	}
	p.mu.Lock()
	if p.dead {
		c.torn = true
	}
	torn, dead := c.torn, p.dead
	p.mu.Unlock()
	if torn {
		return dead // Healed meanwhile: what follows a hole is no use.
	}
	_, err := to.Write(b)
	return err == nil
}
