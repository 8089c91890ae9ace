//go:build linux

package fdpass

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// ends returns a sender and the receiver of another process, as it were.
func ends(t *testing.T) (*Sender, *Receiver) {
	t.Helper()
	s, file, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	fd, err := unix.Dup(int(file.Fd())) // As a process inherits it.
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(strconv.Itoa(fd))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return s, r
}

func TestConnectionsArriveInOrder(t *testing.T) {
	s, r := ends(t)
	var conns []net.Conn
	for i := range 20 {
		conn, err := s.Connect()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for i, ours := range conns {
		theirs, err := r.Accept()
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		if _, err := io.ReadFull(theirs, b[:]); err != nil || b[0] != byte(i) {
			t.Fatalf("connection %d brings %d, %v", i, b[0], err)
		}
		// Nobody else has an end of it.
		if err := theirs.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := ours.Read(b[:]); !errors.Is(err, io.EOF) {
			t.Errorf("connection %d, closed by the process: %v, want EOF", i, err)
		}
		_ = ours.Close()
	}
}

func TestAcceptEndsWithTheHost(t *testing.T) {
	s, r := ends(t)
	s.Close()
	if conn, err := r.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, %v, want %v", conn, err, net.ErrClosed)
	}
}

func TestConnectFailsWithoutTheProcess(t *testing.T) {
	s, r := ends(t)
	r.Close()
	if conn, err := s.Connect(); err == nil {
		t.Errorf("%v and no error", conn)
	}
}

// TestAMessageWithoutAConnectionIsAnError, after which others are taken: the
// kernel leaves a descriptor out that a process has no room for.
func TestAMessageWithoutAConnectionIsAnError(t *testing.T) {
	s, r := ends(t)
	if _, err := s.conn.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if conn, err := r.Accept(); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, %v", conn, err)
	}
	ours, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := r.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
}

func TestOpenRefusesWhatIsNoSocket(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	for _, fd := range []string{"", "x", "-1", "999999", "99999999999999999999", strconv.Itoa(fd)} {
		if _, err := Open(fd); err == nil {
			t.Errorf("%q is taken", fd)
		}
	}
}
