package rpc

import (
	"fmt"
	"math"
)

// messenger is what a gRPC stream has on either side.
type messenger interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// PutStream is either end of an instance's put stream: frames in, frames out.
// Sending and receiving may go on at the same time, but only one goroutine may
// send and one receive.
type PutStream struct {
	stream messenger
	limit  int // Bytes of the largest frame taken.
	// instance is sent along until it was sent once; 0 at the plugin's end.
	instance uint64
	chunk    Message // Reused by the receiving goroutine.
}

// Incoming is what a put stream receives.
type Incoming struct {
	Instance uint64 // On the first one a plugin receives, else 0.
	Frame    []byte // A whole frame; nil with Cancel, and where it is shared.
	// SharedOffset and SharedBytes say where the frame stands in the shared
	// memory, if SharedBytes is not 0.
	SharedOffset int64
	SharedBytes  int64
	Cancel       bool // The put in flight is to end now.
}

// Send sends frame, cut into chunks. frame must stay unchanged until the peer
// has answered it or the stream is over.
func (s *PutStream) Send(frame []byte) error {
	for {
		n := min(len(frame), ChunkBytes)
		m := Message{Instance: s.instance, Data: frame[:n:n], Last: n == len(frame)}
		if err := s.stream.SendMsg(&m); err != nil {
			return err
		}
		s.instance = 0
		if m.Last {
			return nil
		}
		frame = frame[n:]
	}
}

// SendShared sends where a frame stands in the shared memory: n bytes at offset,
// which must stay unchanged until the peer has answered it or the stream is
// over.
func (s *PutStream) SendShared(offset int64, n int) error {
	m := Message{Instance: s.instance, SharedOffset: uint64(offset), SharedBytes: uint64(n), Last: true} //nolint:gosec // Neither is negative.
	s.instance = 0
	return s.stream.SendMsg(&m)
}

// SendCancel asks the plugin to end the put in flight.
func (s *PutStream) SendCancel() error {
	m := Message{Instance: s.instance, Cancel: true}
	s.instance = 0
	return s.stream.SendMsg(&m)
}

// Receive returns what the peer sent next. A frame is appended to buf[:0]: the
// caller owns it, and may hand its memory in again. The error is the stream's
// (io.EOF at its ordered end), or says that the peer broke the protocol.
func (s *PutStream) Receive(buf []byte) (Incoming, error) {
	var in Incoming
	m := &s.chunk
	*m = Message{Data: buf[:0]}
	for {
		had := len(m.Data)
		if err := s.stream.RecvMsg(m); err != nil {
			return Incoming{}, err
		}
		if m.Instance != 0 {
			in.Instance = m.Instance
		}
		if m.SharedBytes != 0 {
			if len(m.Data) > 0 || !m.Last || m.SharedBytes > MaxRequestBytes || m.SharedOffset > math.MaxInt64 {
				return Incoming{}, fmt.Errorf("receive frame: %d shared bytes at %d: %w", m.SharedBytes, m.SharedOffset, errMalformed)
			}
			in.SharedOffset, in.SharedBytes = int64(m.SharedOffset), int64(m.SharedBytes)
			m.Data = nil
			return in, nil
		}
		if m.Cancel {
			if len(m.Data) > 0 {
				return Incoming{}, fmt.Errorf("receive frame: cancel inside a frame: %w", errMalformed)
			}
			in.Cancel = true
			return in, nil
		}
		if len(m.Data) > s.limit {
			return Incoming{}, fmt.Errorf("receive frame: more than %d bytes", s.limit)
		}
		if m.Last {
			in.Frame = m.Data
			m.Data = nil
			return in, nil
		}
		if len(m.Data) == had {
			return Incoming{}, fmt.Errorf("receive frame: empty chunk: %w", errMalformed)
		}
	}
}
