package serve

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

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

// soon is how long a put may take before a second goroutine listens for its
// cancel.
const soon = 20 * time.Millisecond

// putStream runs the puts of one instance. One goroutine leads: it receives a put
// and runs it itself, so that a short one changes no goroutine. When a put takes
// longer, another one takes the lead: it receives the cancel, or the next put,
// which it runs then; the one before has retired by that time.
type putStream struct {
	server *server
	stream *rpc.PutStream
	ctx    context.Context // The stream's.
	over   chan struct{}   // Closed at the stream's end.
	err    error           // Why it ended; read after over is closed.
	end    sync.Once       // Of err and over.

	// Of the goroutine that leads, and while a put runs of the one that runs it.
	in      *instance // Nil before the first put.
	shared  shm.Reader
	decoder abi.Decoder

	retired chan struct{} // Receives once for each lead that was taken.
	spare   chan []byte   // The memory of a frame whose put is over.

	mu      sync.Mutex
	watch   *time.Timer        // Guarded by mu: runs look; nil before the first put.
	looking bool               // Guarded by mu: watch will run.
	cancel  context.CancelFunc // Guarded by mu: of the put that runs; nil while none does.
	since   time.Time          // Guarded by mu: when it began.
	taken   bool               // Guarded by mu: the lead was taken while it runs.

	sending sync.Mutex // Held while a frame is sent: parts come from any goroutine.
}

// Put runs the puts of an instance until the host closes the stream.
func (s *server) Put(ctx context.Context, stream *rpc.PutStream) error {
	p := &putStream{
		server: s, stream: stream, ctx: ctx, over: make(chan struct{}),
		retired: make(chan struct{}, 1), spare: make(chan []byte, 1),
	}
	p.shared.Source = s.shared
	p.lead(nil)
	<-p.over
	p.stop()
	p.shared.Close()
	if p.in != nil {
		p.in.detach()
	}
	return p.err
}

// lead receives and runs puts until the stream ends or another goroutine has
// taken the lead. While the put before runs, cancel ends it.
func (p *putStream) lead(cancel context.CancelFunc) {
	for {
		var buf []byte
		select {
		case buf = <-p.spare:
		default:
		}
		in, err := p.stream.Receive(buf)
		if err == nil && in.Cancel {
			if cancel != nil {
				cancel()
			}
			continue
		}
		if cancel != nil { // The host sends a put once it has the answer to the last.
			if err != nil {
				cancel()
			}
			<-p.retired
			cancel = nil
			select {
			case <-p.over: // That put ended the stream.
				return
			default:
			}
		}
		if err == nil && p.in == nil {
			p.in, err = p.server.attach(in.Instance)
		}
		if err != nil {
			p.finish(err)
			return
		}
		ctx, done := p.begin()
		err = p.run(ctx, in)
		if in.Frame != nil && cap(in.Frame) <= maxKeptFrame {
			select {
			case p.spare <- in.Frame:
			default:
			}
		}
		if err != nil {
			p.finish(err)
		}
		if lead := done(); !lead || err != nil {
			return
		}
	}
}

// finish ends the stream: io.EOF is its orderly end.
func (p *putStream) finish(err error) {
	p.end.Do(func() {
		if !errors.Is(err, io.EOF) {
			p.err = err
		}
		close(p.over)
	})
}

// begin is called before a put is run and done after it, which reports whether
// this goroutine still leads.
func (p *putStream) begin() (ctx context.Context, done func() (lead bool)) {
	ctx, cancel := context.WithCancel(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel, p.since, p.taken = cancel, time.Now(), false
	switch {
	case p.looking:
	case p.watch == nil:
		p.watch = time.AfterFunc(soon, p.look)
	default:
		p.watch.Reset(soon)
	}
	p.looking = true
	return ctx, func() bool {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cancel = nil
		if p.taken {
			p.retired <- struct{}{}
		}
		return !p.taken
	}
}

// look takes the lead if a put has been running for long. The watch runs on from
// put to put, since to set it for each would wake a goroutine for nothing.
func (p *putStream) look() {
	p.mu.Lock()
	left := soon - time.Since(p.since)
	cancel := p.cancel
	switch {
	case cancel == nil || p.taken:
		p.looking = false
	case left > 0:
		p.watch.Reset(left)
	default:
		p.looking, p.taken = false, true
		p.mu.Unlock()
		p.lead(cancel)
		return
	}
	p.mu.Unlock()
}

// stop ends the watch.
func (p *putStream) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watch != nil {
		p.watch.Stop()
	}
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

// run puts one batch and answers it. An error ends the stream.
func (p *putStream) run(ctx context.Context, put rpc.Incoming) error {
	in, frame := p.in, put.Frame
	if put.SharedBytes > 0 {
		var err error
		if p.server.shared == nil {
			return status.Error(codes.InvalidArgument, "no memory is shared")
		}
		if frame, err = p.shared.Frame(put.SharedOffset, put.SharedBytes); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
	}
	h, batch, err := p.decoder.PutRequest(frame)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
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
