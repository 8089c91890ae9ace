package serve

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/internal/abi/invoke"
	"github.com/sluicehq/sluice/internal/abi/rpc"
	"github.com/sluicehq/sluice/internal/abi/shm"
	"github.com/sluicehq/sluice/pluginapi"
)

// maxKeptFrame is the largest frame whose memory is kept for the next one.
const maxKeptFrame = 32 << 20

// job is one put, as the stream's reader hands it to the goroutine that runs it.
type job struct {
	ctx    context.Context
	cancel context.CancelFunc
	frame  []byte
	// Where the frame stands in the shared memory, instead of frame.
	sharedOffset, sharedBytes int64
}

// putStream runs the puts of one instance. Its reader goroutine goes on
// receiving while a put runs, so that a cancel arrives.
type putStream struct {
	server *server
	stream *rpc.PutStream
	jobs   chan job    // From the reader; closed at the stream's end.
	free   chan []byte // Frames whose put is over, back to the reader.
	err    error       // Why the reader ended; read after jobs is closed.
	first  chan uint64 // The instance's number, from the reader, once.
	// Of the goroutine that runs puts.
	shared  shm.Reader
	decoder abi.Decoder
	done    chan struct{} // Closed when the stream's handler returns.

	sending sync.Mutex // Held while a frame is sent: parts come from any goroutine.
}

// Put runs the puts of an instance until the host closes the stream.
func (s *server) Put(ctx context.Context, stream *rpc.PutStream) error {
	p := &putStream{
		server: s, stream: stream,
		jobs: make(chan job), free: make(chan []byte, 1), first: make(chan uint64, 1), done: make(chan struct{}),
	}
	p.shared.Source = s.shared
	defer p.shared.Close()
	defer close(p.done)
	go p.read(ctx)
	var in *instance
	for j := range p.jobs {
		if in == nil {
			var err error
			if in, err = s.attach(<-p.first); err != nil {
				j.cancel()
				return err
			}
			defer in.detach()
		}
		err := p.run(j, in)
		j.cancel()
		if err != nil {
			return err
		}
		if j.frame != nil && cap(j.frame) <= maxKeptFrame {
			select {
			case p.free <- j.frame:
			default:
			}
		}
	}
	if errors.Is(p.err, io.EOF) {
		return nil
	}
	return p.err
}

// attach takes the put stream of the instance.
func (s *server) attach(id uint64) (*instance, error) {
	in, err := s.ready(id)
	if err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.putting {
		return nil, status.Errorf(codes.FailedPrecondition, "instance %d has a put stream already", id)
	}
	in.putting = true
	return in, nil
}

func (in *instance) detach() {
	in.mu.Lock()
	in.putting = false
	in.mu.Unlock()
}

// read receives until the stream ends. It ends when the handler has returned,
// which ends the stream.
func (p *putStream) read(ctx context.Context) {
	defer close(p.jobs)
	cancel := func() {}
	defer func() { cancel() }()
	var named bool
	for {
		var buf []byte
		select {
		case buf = <-p.free:
		default:
		}
		in, err := p.stream.Receive(buf)
		if err != nil {
			p.err = err
			return
		}
		if !named {
			p.first <- in.Instance
			named = true
		}
		if in.Cancel {
			cancel()
			continue
		}
		j := job{frame: in.Frame, sharedOffset: in.SharedOffset, sharedBytes: in.SharedBytes}
		j.ctx, j.cancel = context.WithCancel(ctx)
		cancel = j.cancel
		select {
		case p.jobs <- j:
		case <-p.done:
			return
		}
	}
}

// run puts one batch and answers it. An error ends the stream.
func (p *putStream) run(j job, in *instance) error {
	frame := j.frame
	if j.sharedBytes > 0 {
		var err error
		if p.server.shared == nil {
			return status.Error(codes.InvalidArgument, "no memory is shared")
		}
		if frame, err = p.shared.Frame(j.sharedOffset, j.sharedBytes); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
	}
	h, batch, err := p.decoder.PutRequest(frame)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	ctx := j.ctx
	if h.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.Deadline)
		defer cancel()
	}
	report := func(first int, results []pluginapi.Result) {
		// A failed send is the stream's end, which the final answer meets too.
		_ = p.send(abi.AppendPutResponse(nil, true, first, results))
	}
	in.busy <- struct{}{}
	results, err := invoke.Put(ctx, in.sink, batch, report)
	<-in.busy
	if err == nil {
		return p.send(abi.AppendPutResponse(nil, false, len(batch)-len(results), results))
	}
	if err := p.server.panicked(in, err); err != nil {
		return err
	}
	return p.send(abi.AppendPutError(nil, pluginapi.AsError(err, pluginapi.NoClass), 0, nil))
}

func (p *putStream) send(frame []byte) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	return p.stream.Send(frame)
}
