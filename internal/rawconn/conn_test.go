package rawconn

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sockets returns both ends of a connection of each kind.
func sockets(t *testing.T, network string) (a, b net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	a, b = Wrap(a), Wrap(b)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

func each(t *testing.T, test func(t *testing.T, a, b net.Conn)) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			a, b := sockets(t, network)
			test(t, a, b)
		})
	}
}

// TestAllBytesArrive in both directions at the same time, more than a socket and
// a call hold, and what was written before is seen after (with -race).
func TestAllBytesArrive(t *testing.T) {
	each(t, func(t *testing.T, a, b net.Conn) {
		sent := make([]byte, 5<<20)
		random := rand.NewChaCha8([32]byte{1})
		_, _ = random.Read(sent)
		var wg sync.WaitGroup
		for _, ends := range [][2]net.Conn{{a, b}, {b, a}} {
			shared := 0 // Written by one side, read by the other.
			wg.Go(func() {
				shared = 1
				if n, err := ends[0].Write(sent); n != len(sent) || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
			})
			wg.Go(func() {
				got := make([]byte, len(sent))
				if _, err := io.ReadFull(ends[1], got); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(got, sent) || shared != 1 {
					t.Errorf("other bytes arrived")
				}
			})
		}
		wg.Wait()
	})
}

func TestEndsAreToldAsByNet(t *testing.T) {
	each(t, func(t *testing.T, a, b net.Conn) {
		if n, err := a.Read(nil); n != 0 || err != nil {
			t.Errorf("a read of nothing: %d, %v", n, err)
		}
		if err := a.SetReadDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("past its deadline: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if n, err := a.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("closed by the peer: %d, %v", n, err)
		}
		var err error
		for range 100 { // TCP tells with the second write, once the peer has answered the first.
			if _, err = a.Write(make([]byte, 1<<20)); err != nil {
				break
			}
		}
		if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write to a closed peer: %v", err)
		}
		waiting := make(chan error, 1)
		c, _ := sockets(t, "unix")
		go func() {
			_, err := c.Read(make([]byte, 1))
			waiting <- err
		}()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed here while it waits: %v", err)
		}
	})
}

func TestTLSIsLeftAlone(t *testing.T) {
	a, _ := net.Pipe()
	if got := Wrap(a); got != a {
		t.Errorf("a pipe became %T", got)
	}
	c := tls.Client(a, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // It says nothing.
	if got := Wrap(c); got != net.Conn(c) {
		t.Errorf("TLS became %T", got)
	}
}
