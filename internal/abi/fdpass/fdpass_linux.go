package fdpass

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehq/sluice/internal/rawconn"
)

// sendTime bounds how long a connection may wait for the process to take the
// ones before it.
const sendTime = 5 * time.Second

// pair returns both ends of a new connection.
func pair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "plugin"), nil //nolint:gosec // Descriptors.
}

// connection makes a connection of file, which it closes.
func connection(file *os.File) (*net.UnixConn, error) {
	defer file.Close() // The connection has its own descriptor.
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("a %s connection, want a Unix socket", conn.LocalAddr().Network())
	}
	return u, nil
}

// Sender is the host's end. It is safe for concurrent use.
type Sender struct{ conn *net.UnixConn }

// New makes the sender and the socket to be inherited by the process, which the
// caller closes once the process is started.
func New() (s *Sender, receiver *os.File, err error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, nil, err
	}
	conn, err := connection(ours)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return &Sender{conn}, theirs, nil
}

// Connect makes a connection and passes its other end to the process. It blocks
// for five seconds at most, while the process does not take the ones before.
func (s *Sender) Connect() (net.Conn, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close() // The process has its own.
	conn, err := connection(ours)
	if err != nil {
		return nil, err
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(sendTime))
	if _, _, err := s.conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(theirs.Fd())), nil); err != nil { //nolint:gosec // A descriptor.
		_ = conn.Close()
		return nil, fmt.Errorf("pass a connection: %w", err)
	}
	return rawconn.Wrap(conn), nil
}

// Close ends Accept in the process. Connections stay.
func (s *Sender) Close() { _ = s.conn.Close() }

// Receiver is the process's end.
type Receiver struct{ conn *net.UnixConn }

// Open takes the descriptor that the host says the process has inherited.
func Open(fd string) (*Receiver, error) {
	n, err := strconv.ParseUint(fd, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("descriptor to receive connections: %w", err)
	}
	conn, err := connection(os.NewFile(uintptr(n), "host"))
	if err != nil {
		return nil, fmt.Errorf("descriptor to receive connections: %w", err)
	}
	return &Receiver{conn}, nil
}

// errNone marks a message that brought no descriptor: this process has too many
// open.
var errNone = errors.New("a connection could not be taken: too many open files")

// Accept waits for the next connection. It returns [net.ErrClosed] when there
// will be none: the host is gone, or Close was called.
func (r *Receiver) Accept() (net.Conn, error) {
	var b [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := r.conn.ReadMsgUnix(b[:], oob)
	if err != nil || n == 0 {
		return nil, net.ErrClosed
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) == 0 {
		return nil, errNone
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil, errNone
	}
	conn, err := connection(os.NewFile(uintptr(fds[0]), "host")) //nolint:gosec // A descriptor.
	if err != nil {
		return nil, err
	}
	return rawconn.Wrap(conn), nil
}

// Close ends Accept.
func (r *Receiver) Close() { _ = r.conn.Close() }
