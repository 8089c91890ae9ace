package rpc

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// lengthBytes is what stands before each message on a socket: its length, the
// highest byte first.
const lengthBytes = 4

// maxKeptMessage bounds the memory a socket keeps between messages, in bytes.
const maxKeptMessage = 64 << 10

// socket carries the messages of one put stream, and nothing else.
type socket struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte // The last message's memory.
	out  []byte // The last small one's that was sent.
}

func newSocket(conn net.Conn) *socket {
	return &socket{conn: conn, in: bufio.NewReader(conn)}
}

// SendMsg sends a [Message], in one system call if it is small and the peer has
// room.
func (s *socket) SendMsg(v any) error {
	m := v.(*Message)
	head := m.appendHeader(append(s.out[:0], make([]byte, lengthBytes)...))
	binary.BigEndian.PutUint32(head, uint32(len(head)-lengthBytes+len(m.Data))) //nolint:gosec // A chunk's data has 1 MiB at most.
	if len(m.Data) <= maxKeptMessage {
		s.out = append(head, m.Data...)
		_, err := s.conn.Write(s.out)
		return err
	}
	both := net.Buffers{head, m.Data}
	_, err := both.WriteTo(s.conn)
	return err
}

// RecvMsg receives a [Message], whose data is appended to what it has. The error
// is io.EOF if the peer has closed the connection between two messages.
func (s *socket) RecvMsg(v any) error {
	var length [lengthBytes]byte
	if _, err := io.ReadFull(s.in, length[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	if n > MaxMessageBytes {
		return fmt.Errorf("receive a message of %d bytes: %w", n, errMalformed)
	}
	if n > cap(s.body) {
		s.body = make([]byte, n)
	}
	body := s.body[:n]
	if n > maxKeptMessage {
		s.body = nil
	}
	if _, err := io.ReadFull(s.in, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	r := mem.BufferSlice{mem.SliceBuffer(body)}.Reader()
	defer r.Close() //nolint:errcheck // It cannot fail.
	return v.(*Message).read(r)
}

// clientSocket is the host's end: it knows how the plugin ends a stream.
type clientSocket struct{ *socket }

// RecvMsg returns the status with which the plugin ended the stream, io.EOF if
// it is OK, and UNAVAILABLE if the connection broke.
func (s clientSocket) RecvMsg(v any) error {
	m := v.(*Message)
	had := len(m.Data)
	err := s.socket.RecvMsg(m)
	switch {
	case errors.Is(err, errMalformed):
		return err
	case err != nil:
		return status.Error(codes.Unavailable, err.Error())
	case !m.Ended:
		return nil
	case m.Status == 0:
		return io.EOF
	case m.Status > math.MaxUint32:
		return fmt.Errorf("receive status %d: %w", m.Status, errMalformed)
	}
	return status.Error(codes.Code(m.Status), string(m.Data[had:])) //nolint:gosec // It has 32 bits.
}

// OverSocket returns the host's end of a put stream over conn, as [Client.Put]
// returns one through gRPC. The stream ends when conn is closed. Errors of the
// connection itself are of status UNAVAILABLE.
func OverSocket(conn net.Conn, instance uint64) *PutStream {
	return &PutStream{stream: clientSocket{newSocket(conn)}, limit: MaxResponseBytes, instance: instance}
}

// ServeSocket runs a put stream over conn until it is over, and closes conn. It
// is the plugin's side.
func ServeSocket(ctx context.Context, srv Server, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	s := newSocket(conn)
	end := status.Convert(srv.Put(ctx, &PutStream{stream: s, limit: MaxRequestBytes}))
	text := end.Message()
	_ = s.SendMsg(&Message{Ended: true, Status: uint64(end.Code()), Data: []byte(text[:min(len(text), ChunkBytes)])})
}
