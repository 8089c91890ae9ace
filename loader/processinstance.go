package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/internal/abi/invoke"
	"github.com/sluicehq/sluice/internal/abi/rpc"
	"github.com/sluicehq/sluice/internal/abi/shm"
	"github.com/sluicehq/sluice/pluginapi"
)

// maxKeptFrame is the largest put frame whose memory is kept for the next put.
const maxKeptFrame = 32 << 20

// crashTime is how long the end of a process is waited for once its connection
// has broken.
const crashTime = time.Second

// processInstance is a sink in a plugin process.
type processInstance struct {
	host    *process
	number  uint64 // In its process.
	cfg     pluginapi.Config
	alone   bool   // The process ends with it.
	release func() // Frees its place.
	lost    atomic.Bool

	puts  *puts     // Nil before the first put.
	slot  *shm.Slot // Where puts are written; nil where frames go through gRPC.
	frame []byte    // Without slot: the last put's memory; nil while the plugin may not have all of it.
}

func newProcessInstance(p *process, cfg pluginapi.Config, alone bool, release func()) *processInstance {
	return &processInstance{host: p, number: p.next.Add(1), cfg: cfg, alone: alone, release: release}
}

func (i *processInstance) gone() bool { return i.lost.Load() || !i.host.alive() }

func (i *processInstance) process() uint64 { return i.host.number }

func (i *processInstance) start(ctx context.Context) error {
	start := abi.AppendStart(nil, i.cfg, i.host.desc.Settings)
	answer, err := i.host.rpc.Start(ctx, i.number, start)
	return i.answer(ctx, answer, err)
}

func (i *processInstance) check(ctx context.Context) error {
	answer, err := i.host.rpc.Check(ctx, i.number)
	return i.answer(ctx, answer, err)
}

// stop stops the sink. A sink that does not stop in time costs its process.
func (i *processInstance) stop(ctx context.Context) error {
	defer i.release()
	if i.puts != nil {
		i.puts.close()
	}
	if i.slot != nil {
		i.slot.Free()
	}
	var err error
	if i.host.alive() {
		ctx, cancel := i.stopTime(ctx)
		defer cancel()
		var answer []byte
		answer, err = i.host.rpc.Stop(ctx, i.number)
		if code := status.Code(err); code == codes.DeadlineExceeded || code == codes.Canceled {
			i.host.kill("a sink in it did not stop in time")
		}
		err = i.answer(ctx, answer, err)
	}
	i.lost.Store(true)
	if i.alone {
		i.host.stop(ctx)
	}
	return err
}

// stopTime returns how long the sink has to stop: until ctx's deadline, but no
// less than the put grace and no more than the stop grace. That ctx is over is
// no reason to kill a process that serves others.
func (i *processInstance) stopTime(ctx context.Context) (context.Context, context.CancelFunc) {
	opts := &i.host.spec.opts
	limit := opts.StopGrace
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(deadline), opts.PutGrace))
	}
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

// answer returns the error in an answer, or why there is none.
func (i *processInstance) answer(ctx context.Context, answer []byte, err error) error {
	if err != nil {
		return i.broken(ctx, err)
	}
	if len(answer) == 0 {
		return nil
	}
	sinkErr, err := abi.DecodeError(answer)
	switch {
	case err != nil:
		i.lost.Store(true)
		return badAnswer("%v", err)
	case sinkErr != nil:
		return sinkErr
	}
	return nil
}

// broken gives the instance up after a call that failed as such, and says why
// it did.
func (i *processInstance) broken(ctx context.Context, err error) error {
	i.lost.Store(true)
	s := status.Convert(err)
	switch s.Code() {
	case codes.Aborted:
		return pluginapi.NewError(pluginapi.Unknown, invoke.CodePanic, s.Message())
	case codes.DeadlineExceeded, codes.Canceled:
		if ctx.Err() != nil && i.host.alive() {
			return pluginapi.NewError(pluginapi.Unknown, invoke.CodeTimeout,
				fmt.Sprintf("no answer within %s of the call's end", i.host.spec.opts.PutGrace))
		}
	case codes.Unavailable:
		// The connection broke: the process has ended, or is of no use.
	default:
		if i.host.alive() {
			return badAnswer("%s", s.Message())
		}
	}
	timer := time.NewTimer(crashTime)
	defer timer.Stop()
	select {
	case <-i.host.exited:
	case <-timer.C:
		i.host.kill("its connection broke: " + s.Message())
		<-i.host.exited
	}
	return i.host.crash()
}

// put hands batch to the plugin and reads its answers. It alone decodes into
// results.
func (i *processInstance) put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error {
	if i.puts == nil {
		p, err := openPuts(i.host, i.number)
		if err != nil {
			return i.broken(ctx, err)
		}
		i.puts = p
		if i.host.reads {
			if i.slot, err = i.host.shared.Slot(); err != nil {
				i.cfg.Logger.Warn("no memory is shared with the plugin, puts are slower", "err", err)
			}
		}
	}
	h := abi.PutHeader{Connector: i.cfg.Connector, Task: i.cfg.Task}
	if deadline, ok := ctx.Deadline(); ok {
		h.Deadline = max(time.Until(deadline), time.Millisecond)
	}
	if i.slot != nil {
		frame := abi.AppendPutRequest(i.slot.Room(), h, batch)
		if i.slot.Holds(frame) {
			i.puts.sendShared(i.slot.Offset(), len(frame))
			return i.await(ctx, results)
		}
		i.frame = frame // Too large for the slot.
	} else {
		i.frame = abi.AppendPutRequest(i.frame[:0], h, batch)
	}
	frame := i.frame
	i.frame = nil
	i.puts.unsent.Add(1)
	i.puts.out <- frame
	err := i.await(ctx, results)
	if cap(frame) <= maxKeptFrame && i.puts.unsent.Load() == 0 {
		i.frame = frame
	}
	return err
}

// await reads answers until the final one. When ctx ends it asks the plugin to
// end the put; after the grace it kills the process.
func (i *processInstance) await(ctx context.Context, results []pluginapi.Result) error {
	done := ctx.Done()
	var grace <-chan time.Time
	for {
		select {
		case frame, ok := <-i.puts.in:
			if !ok {
				return i.broken(ctx, i.puts.err)
			}
			final, sinkErr, err := abi.DecodePutResponse(frame, results)
			if err != nil {
				i.lost.Store(true)
				return badAnswer("%v", err)
			}
			if final {
				if sinkErr != nil {
					return sinkErr
				}
				return nil
			}
		case <-done:
			done = nil
			i.puts.cancel()
			timer := time.NewTimer(i.host.spec.opts.PutGrace)
			defer timer.Stop()
			grace = timer.C
		case <-grace:
			grace = nil
			i.host.kill(fmt.Sprintf("a put in it did not return within %s of its context's end", i.host.spec.opts.PutGrace))
		}
	}
}

// puts is the host's end of an instance's put stream: one goroutine sends, one
// receives, so that neither keeps a put from ending in time.
type puts struct {
	stream *rpc.PutStream
	end    context.CancelFunc
	out    chan []byte   // Frames to send; nil is a cancel. Room for both of a put.
	in     chan []byte   // Frames received; closed when the stream is over.
	err    error         // Why it is over; read after in is closed.
	quit   chan struct{} // Closed by close.
	unsent atomic.Int32  // Frames handed over and not sent.

	sending sync.Mutex // Held while something is sent.
	wg      sync.WaitGroup
}

func openPuts(p *process, number uint64) (*puts, error) {
	ctx, cancel := context.WithCancel(p.ctx)
	stream, err := p.rpc.Put(ctx, number)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &puts{
		stream: stream, end: cancel,
		out: make(chan []byte, 2), in: make(chan []byte), quit: make(chan struct{}),
	}
	s.wg.Go(s.send)
	s.wg.Go(s.receive)
	return s, nil
}

// cancel asks the plugin to end the put in flight.
func (s *puts) cancel() {
	select {
	case s.out <- nil:
	case <-s.quit:
	}
}

// send ends when close is called or the stream is over.
func (s *puts) send() {
	for {
		select {
		case frame := <-s.out:
			s.sendOne(frame)
		case <-s.quit:
			return
		}
	}
}

// sendOne sends a frame. An error is the stream's end, which receive reports.
func (s *puts) sendOne(frame []byte) {
	s.sending.Lock()
	defer s.sending.Unlock()
	if frame == nil {
		_ = s.stream.SendCancel()
		return
	}
	_ = s.stream.Send(frame)
	s.unsent.Add(-1)
}

// sendShared sends where a frame stands. It is as good as sent when it returns,
// since nothing that small waits for the plugin: no goroutine is woken for it.
// An error is the stream's end, which receive reports.
func (s *puts) sendShared(offset int64, n int) {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = s.stream.SendShared(offset, n)
}

// receive ends when the stream is over or close is called.
func (s *puts) receive() {
	defer close(s.in)
	for {
		in, err := s.stream.Receive(nil)
		if err == nil && in.Cancel {
			err = status.Error(codes.Internal, "the plugin sent a cancel")
		}
		if errors.Is(err, io.EOF) {
			err = status.Error(codes.Internal, "the plugin closed the put stream")
		} else if _, ok := status.FromError(err); !ok {
			err = status.Error(codes.Internal, err.Error())
		}
		if err != nil {
			s.err = err
			return
		}
		select {
		case s.in <- in.Frame:
		case <-s.quit:
			s.err = errGone
			return
		}
	}
}

// close ends the stream and its goroutines.
func (s *puts) close() {
	close(s.quit)
	s.end()
	s.wg.Wait()
}
