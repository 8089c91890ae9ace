package rpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
)

// ServiceName is the service's full name.
const ServiceName = "sluice.plugin.v1.Sink"

// Server is the plugin's side of the service. Its methods may be called at the
// same time. Answers are CBOR: an error, or nil for none. An error that is
// returned is the plugin's own failure and ends as a gRPC status.
type Server interface {
	Describe(ctx context.Context) (Description, error)
	Start(ctx context.Context, instance uint64, start []byte) (answer []byte, err error)
	Put(ctx context.Context, stream *PutStream) error
	Check(ctx context.Context, instance uint64) (answer []byte, err error)
	Stop(ctx context.Context, instance uint64) (answer []byte, err error)
}

// Description is what a plugin says of itself.
type Description struct {
	CBOR    []byte
	Shared  bool // It reads put frames from shared memory.
	Sockets bool // It takes put streams over sockets.
}

// Register adds srv to s, whose codec must be the one of [NewCodec].
func Register(s grpc.ServiceRegistrar, srv Server) {
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: ServiceName,
		HandlerType: (*Server)(nil),
		Methods: []grpc.MethodDesc{
			unary("Describe", func(s Server, ctx context.Context, _ *Message) (out Message, err error) {
				d, err := s.Describe(ctx)
				return Message{Data: d.CBOR, Shared: d.Shared, Sockets: d.Sockets}, err
			}),
			unary("Start", func(s Server, ctx context.Context, in *Message) (out Message, err error) {
				out.Data, err = s.Start(ctx, in.Instance, in.Data)
				return out, err
			}),
			unary("Check", func(s Server, ctx context.Context, in *Message) (out Message, err error) {
				out.Data, err = s.Check(ctx, in.Instance)
				return out, err
			}),
			unary("Stop", func(s Server, ctx context.Context, in *Message) (out Message, err error) {
				out.Data, err = s.Stop(ctx, in.Instance)
				return out, err
			}),
		},
		Streams: []grpc.StreamDesc{{
			StreamName:    "Put",
			ServerStreams: true,
			ClientStreams: true,
			Handler: func(s any, stream grpc.ServerStream) error {
				return s.(Server).Put(stream.Context(), &PutStream{stream: stream, limit: MaxRequestBytes})
			},
		}},
		Metadata: "sluice/plugin/v1/sink.proto",
	}, srv)
}

// call is one unary method of the service.
type call func(s Server, ctx context.Context, in *Message) (Message, error)

func unary(name string, do call) grpc.MethodDesc {
	handle := func(s any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		in := new(Message)
		if err := decode(in); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, in any) (any, error) {
			m := in.(*Message)
			if m.Timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, m.Timeout)
				defer cancel()
			}
			out, err := do(s.(Server), ctx, m)
			if err != nil {
				return nil, err
			}
			return &out, nil
		}
		if intercept == nil {
			return handler(ctx, in)
		}
		return intercept(ctx, in, &grpc.UnaryServerInfo{Server: s, FullMethod: method(name)}, handler)
	}
	return grpc.MethodDesc{MethodName: name, Handler: handle}
}

func method(name string) string { return "/" + ServiceName + "/" + name }

// Client is the host's side of the service. It is safe for concurrent use.
type Client struct {
	conn  grpc.ClientConnInterface
	grace time.Duration
	codec grpc.CallOption
}

// NewClient returns a client on conn. Its calls tell the plugin when their
// context's deadline is and wait grace longer for the answer.
func NewClient(conn grpc.ClientConnInterface, grace time.Duration) *Client {
	return &Client{conn: conn, grace: grace, codec: grpc.ForceCodecV2(NewCodec())}
}

// Describe returns what the plugin says of itself.
func (c *Client) Describe(ctx context.Context) (Description, error) {
	out, err := c.call(ctx, "Describe", &Message{})
	return Description{CBOR: out.Data, Shared: out.Shared, Sockets: out.Sockets}, err
}

// Start makes and starts an instance. The answer is an error as CBOR, or empty.
func (c *Client) Start(ctx context.Context, instance uint64, start []byte) ([]byte, error) {
	out, err := c.call(ctx, "Start", &Message{Instance: instance, Data: start})
	return out.Data, err
}

// Check asks an instance for its target. The answer is as for Start.
func (c *Client) Check(ctx context.Context, instance uint64) ([]byte, error) {
	out, err := c.call(ctx, "Check", &Message{Instance: instance})
	return out.Data, err
}

// Stop stops an instance. The answer is as for Start.
func (c *Client) Stop(ctx context.Context, instance uint64) ([]byte, error) {
	out, err := c.call(ctx, "Stop", &Message{Instance: instance})
	return out.Data, err
}

// call makes a unary call. A call whose ctx is cancelled returns at once, one
// whose deadline passes after the grace.
func (c *Client) call(ctx context.Context, name string, in *Message) (out Message, err error) {
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		in.Timeout = max(time.Until(deadline), time.Millisecond)
		callCtx, cancel = context.WithTimeout(callCtx, in.Timeout+c.grace)
		defer cancel()
	}
	defer context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
		}
	})()
	err = c.conn.Invoke(callCtx, method(name), in, &out, c.codec)
	return out, err
}

// Put opens the put stream of an instance. The stream ends when ctx does.
func (c *Client) Put(ctx context.Context, instance uint64) (*PutStream, error) {
	desc := &grpc.StreamDesc{StreamName: "Put", ServerStreams: true, ClientStreams: true}
	stream, err := c.conn.NewStream(ctx, desc, method("Put"), c.codec)
	if err != nil {
		return nil, err
	}
	return &PutStream{stream: stream, limit: MaxResponseBytes, instance: instance}, nil
}
