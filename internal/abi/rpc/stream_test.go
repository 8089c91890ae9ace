package rpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// recorder collects the names of registered methods.
type recorder []string

func (r *recorder) RegisterService(d *grpc.ServiceDesc, _ any) {
	for _, m := range d.Methods {
		*r = append(*r, m.MethodName)
	}
	for _, s := range d.Streams {
		*r = append(*r, s.StreamName)
	}
}

// echo answers every frame with itself and every cancel with "cancelled".
type echo struct{ instances chan uint64 }

func (echo) Describe(context.Context) (Description, error) {
	return Description{CBOR: []byte("description"), Shared: true}, nil
}

func (echo) Start(_ context.Context, _ uint64, start []byte) ([]byte, error) { return start, nil }

func (echo) Check(context.Context, uint64) ([]byte, error) { return nil, errors.New("broken") }

func (echo) Stop(context.Context, uint64) ([]byte, error) { return nil, nil }

func (e echo) Put(_ context.Context, s *PutStream) error {
	for {
		in, err := s.Receive(nil)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		e.instances <- in.Instance
		if in.Cancel {
			in.Frame = []byte("cancelled")
		}
		if err := s.Send(in.Frame); err != nil {
			return err
		}
	}
}

// dial serves srv on a Unix socket and returns a connection to it.
func dial(t *testing.T, srv Server) *grpc.ClientConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(NewCodec()), grpc.Creds(PeerCredentials(nil)))
	Register(s, srv)
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(PeerCredentials(nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// overSocket serves one put stream of srv over a socket.
func overSocket(t *testing.T, srv Server, instance uint64) *PutStream {
	t.Helper()
	ours, theirs := socketPair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ServeSocket(t.Context(), srv, theirs)
	}()
	t.Cleanup(func() {
		_ = ours.Close()
		<-done
	})
	return OverSocket(ours, instance)
}

// socketPair returns both ends of a Unix connection.
func socketPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

func TestFramesOfEverySizeCross(t *testing.T) {
	t.Run("gRPC", func(t *testing.T) {
		srv := echo{instances: make(chan uint64, 100)}
		stream, err := NewClient(dial(t, srv), time.Second).Put(t.Context(), 42)
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, stream, srv)
	})
	t.Run("socket", func(t *testing.T) {
		srv := echo{instances: make(chan uint64, 100)}
		exchange(t, overSocket(t, srv, 42), srv)
	})
}

// exchange sends frames, and a cancel, over the put stream of instance 42.
func exchange(t *testing.T, stream *PutStream, srv echo) {
	t.Helper()
	var buf []byte
	for i, size := range []int{0, 1, 100, ChunkBytes - 1, ChunkBytes, ChunkBytes + 1, 5*ChunkBytes + 17, 10} {
		frame := bytes.Repeat([]byte{byte(i + 1)}, size)
		sent := make(chan error, 1)
		go func() { sent <- stream.Send(frame) }()
		in, err := stream.Receive(buf)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if err := <-sent; err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if !bytes.Equal(in.Frame, frame) {
			t.Fatalf("%d bytes come back as %d others", size, len(in.Frame))
		}
		buf = in.Frame
		want := uint64(0)
		if i == 0 {
			want = 42
		}
		if got := <-srv.instances; got != want {
			t.Errorf("frame %d names instance %d, want %d", i, got, want)
		}
	}
	if err := stream.SendCancel(); err != nil {
		t.Fatal(err)
	}
	in, err := stream.Receive(nil)
	if err != nil || string(in.Frame) != "cancelled" {
		t.Errorf("after a cancel: %q, %v", in.Frame, err)
	}
}

func TestUnaryCalls(t *testing.T) {
	c := NewClient(dial(t, echo{}), time.Second)
	if d, err := c.Describe(t.Context()); err != nil || string(d.CBOR) != "description" || !d.Shared || d.Sockets {
		t.Errorf("Describe: %+v, %v", d, err)
	}
	if b, err := c.Start(t.Context(), 1, []byte("cfg")); err != nil || string(b) != "cfg" {
		t.Errorf("Start: %q, %v", b, err)
	}
	if b, err := c.Stop(t.Context(), 1); err != nil || b != nil {
		t.Errorf("Stop: %q, %v", b, err)
	}
	if _, err := c.Check(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("Check: error %v, want the server's", err)
	}
}

func TestForcedCodecLeavesOtherServicesAlone(t *testing.T) {
	c := grpc_health_v1.NewHealthClient(dial(t, echo{}))
	res, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("status %v", res.Status)
	}
}

// script is a stream that receives prepared messages.
type script []Message

func (s *script) SendMsg(any) error { return nil }

func (s *script) RecvMsg(m any) error {
	if len(*s) == 0 {
		return io.EOF
	}
	to := m.(*Message)
	next := (*s)[0]
	*s = (*s)[1:]
	to.Data = append(to.Data, next.Data...)
	to.Last, to.Cancel = next.Last, next.Cancel
	return nil
}

func TestReceiveRefusesWhatIsNoFrame(t *testing.T) {
	tests := map[string]struct {
		in   script
		want string
	}{
		"too large":    {script{{Data: make([]byte, 60)}, {Data: make([]byte, 60), Last: true}}, "more than 100 bytes"},
		"empty chunk":  {script{{}, {Last: true}}, "empty chunk"},
		"cancel in it": {script{{Data: []byte("a")}, {Cancel: true}}, "cancel inside a frame"},
		"end":          {script{}, "EOF"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &PutStream{stream: &tt.in, limit: 100}
			_, err := s.Receive(nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

// ending ends its put stream as it is told to.
type ending struct {
	echo
	err error
}

func (e ending) Put(context.Context, *PutStream) error { return e.err }

// TestAStreamEndsTheSameWay: the host tells a panic from a broken connection,
// and both from an ordered end, whatever carries the stream.
func TestAStreamEndsTheSameWay(t *testing.T) {
	for name, end := range map[string]error{
		"ordered": nil,
		"panic":   status.Error(codes.Aborted, "panic in Put: ☠"),
		"plain":   errors.New("no status"),
		"long":    status.Error(codes.InvalidArgument, strings.Repeat("x", 5000)),
	} {
		t.Run(name, func(t *testing.T) {
			srv := ending{err: end}
			stream, err := NewClient(dial(t, srv), time.Second).Put(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.Send([]byte("x"))
			_, want := stream.Receive(nil)
			_, got := overSocket(t, srv, 1).Receive(nil)
			if errors.Is(got, io.EOF) != errors.Is(want, io.EOF) || status.Code(got) != status.Code(want) || status.Convert(got).Message() != status.Convert(want).Message() {
				t.Errorf("over a socket it ends with %v, through gRPC with %v", got, want)
			}
		})
	}
}

// TestABrokenSocketIsUnavailable: with any number of bytes of a message read.
func TestABrokenSocketIsUnavailable(t *testing.T) {
	whole := []byte{0, 0, 0, 5, tagData, 1, 'a', tagLast, 1}
	for n := range len(whole) {
		ours, theirs := socketPair(t)
		if _, err := theirs.Write(whole[:n]); err != nil {
			t.Fatal(err)
		}
		_ = theirs.Close()
		if _, err := OverSocket(ours, 1).Receive(nil); status.Code(err) != codes.Unavailable {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// FuzzSocket reads what a plugin could send.
func FuzzSocket(f *testing.F) {
	f.Add([]byte{0, 0, 0, 5, tagData, 1, 'a', tagLast, 1})
	f.Add([]byte{0, 0, 0, 6, tagEnded, 1, tagStatus, 0xff, 0xff, 0x7f, 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 0, 0, 3, tagData, 0, tagStatus})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &PutStream{stream: clientSocket{&socket{in: bufio.NewReader(bytes.NewReader(b))}}, limit: 1 << 20}
		for taken := 0; ; {
			in, err := s.Receive(nil)
			if err != nil {
				return
			}
			if taken += len(in.Frame); taken > len(b) {
				t.Fatalf("%d bytes of frames in %d bytes", taken, len(b))
			}
		}
	})
}
