package rpc

import (
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
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
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

func (echo) Describe(context.Context) (description []byte, shared bool, err error) {
	return []byte("description"), true, nil
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

func TestFramesOfEverySizeCross(t *testing.T) {
	srv := echo{instances: make(chan uint64, 100)}
	stream, err := NewClient(dial(t, srv), time.Second).Put(t.Context(), 42)
	if err != nil {
		t.Fatal(err)
	}
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
	if b, shared, err := c.Describe(t.Context()); err != nil || string(b) != "description" || !shared {
		t.Errorf("Describe: %q, %t, %v", b, shared, err)
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
