//go:build !linux

package fdpass

import (
	"net"
	"os"
)

// Sender is the host's end.
type Sender struct{}

// New returns [ErrUnsupported].
func New() (s *Sender, receiver *os.File, err error) { return nil, nil, ErrUnsupported }

// Connect returns [ErrUnsupported].
func (*Sender) Connect() (net.Conn, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Sender) Close() {}

// Receiver is the process's end.
type Receiver struct{}

// Open returns [ErrUnsupported].
func Open(string) (*Receiver, error) { return nil, ErrUnsupported }

// Accept returns [ErrUnsupported].
func (*Receiver) Accept() (net.Conn, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Receiver) Close() {}
