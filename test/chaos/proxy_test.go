package chaos

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo answers every connection with what it sends; it ends with the test.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func newTestProxy(t *testing.T) *Proxy {
	t.Helper()
	p, err := NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	p.SetTarget(echo(t))
	return p
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a byte and waits at most limit for its echo.
func ask(t *testing.T, c net.Conn, limit time.Duration) error {
	t.Helper()
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func TestProxyCutsAndGoesOn(t *testing.T) {
	p := newTestProxy(t)
	c := dial(t, p)
	if err := ask(t, c, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if err := ask(t, c, 10*time.Second); err == nil {
		t.Error("a cut connection answers")
	}
	if err := ask(t, dial(t, p), 10*time.Second); err != nil {
		t.Errorf("a new connection after the cut: %v", err)
	}
}

func TestProxyRefuses(t *testing.T) {
	p := newTestProxy(t)
	c := dial(t, p)
	if err := ask(t, c, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.Refuse()
	if err := ask(t, c, 10*time.Second); err == nil {
		t.Error("an open connection answers")
	}
	if c, err := net.Dial("tcp", p.Address()); err == nil {
		c.Close()
		t.Error("a new connection is taken")
	}
	if err := p.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := ask(t, dial(t, p), 10*time.Second); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestProxyDelays(t *testing.T) {
	p := newTestProxy(t)
	p.SetDelay(100 * time.Millisecond)
	begin := time.Now()
	if err := ask(t, dial(t, p), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("there and back took %v, want 200ms at least", took)
	}
}

// Nothing that went into a dead connection comes out of it, then or later.
func TestProxyDead(t *testing.T) {
	p := newTestProxy(t)
	before := dial(t, p)
	if err := ask(t, before, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	unused := dial(t, p)
	if err := ask(t, unused, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.SetDead(true)
	during := dial(t, p)
	for name, c := range map[string]net.Conn{"open": before, "new": during} {
		err := ask(t, c, 300*time.Millisecond)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s connection while dead: %v, want a timeout", name, err)
		}
	}
	p.SetDead(false)
	for name, c := range map[string]net.Conn{"open": before, "new": during} {
		if err := ask(t, c, 10*time.Second); err == nil {
			t.Errorf("%s connection answers after its bytes vanished", name)
		}
	}
	if err := ask(t, unused, 10*time.Second); err != nil {
		t.Errorf("a connection that lost nothing: %v", err)
	}
}
