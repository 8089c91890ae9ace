package rawconn

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// maxCall is the most that one system call moves, in bytes: 20 us, which is how
// long the garbage collector may have to wait for it.
const maxCall = 128 << 10

// conn is a connection whose socket does not block.
type conn struct {
	net.Conn
	raw syscall.RawConn
}

// Wrap returns c with reads and writes that are not announced. What has no socket
// of its own, such as TLS, is returned as it is.
func Wrap(c net.Conn) net.Conn {
	s, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return c
	}
	return &conn{c, raw}
}

// transfers says to the race detector what the kernel does: what is read was
// written before.
var transfers atomic.Uint32

// Read reads what there is, or waits for something.
func (c *conn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	waited := c.raw.Read(func(fd uintptr) bool {
		var done bool
		n, done, err = call(syscall.SYS_READ, fd, b)
		return done
	})
	transfers.Load()
	switch {
	case waited != nil: // It was closed, or its deadline is over.
		return 0, waited
	case err != nil:
		return 0, &net.OpError{Op: "read", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("read", err)}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of b.
func (c *conn) Write(b []byte) (n int, err error) {
	transfers.Add(1)
	waited := c.raw.Write(func(fd uintptr) bool {
		for n < len(b) && err == nil {
			wrote, done, e := call(syscall.SYS_WRITE, fd, b[n:])
			n, err = n+wrote, e
			if !done {
				return false
			}
		}
		return true
	})
	switch {
	case waited != nil:
		return n, waited
	case err != nil:
		return n, &net.OpError{Op: "write", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("write", err)}
	}
	return n, nil
}

// call reads to b or writes from it; done is false if it has to wait.
func call(number, fd uintptr, b []byte) (n int, done bool, err error) {
	for {
		r, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(min(len(b), maxCall))) //nolint:gosec // As package syscall does.
		switch errno {
		case 0:
			return int(r), true, nil //nolint:gosec // Not more than maxCall.
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, false, nil
		default:
			return 0, true, errno
		}
	}
}
