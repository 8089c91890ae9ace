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
		i.puts.end()
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
	i.puts.sending.Lock()
	end := i.endWith(ctx) // Its cancel has to wait until the frame is sent.
	frame := i.send(h, batch)
	i.puts.sending.Unlock()
	err := i.await(ctx, results)
	end()
	if i.slot == nil && !i.lost.Load() && cap(frame) <= maxKeptFrame {
		i.frame = frame
	}
	return err
}

// send sends the frame of a put, which is returned if it may not be changed
// before the answer. It blocks while the plugin does not read. A failure is the
// stream's end, which await reports.
func (i *processInstance) send(h abi.PutHeader, batch []pluginapi.Record) (frame []byte) {
	if i.slot != nil {
		frame = abi.AppendPutRequest(i.slot.Room(), h, batch)
		if i.slot.Holds(frame) {
			_ = i.puts.stream.SendShared(i.slot.Offset(), len(frame))
			return nil
		}
	} else {
		frame = abi.AppendPutRequest(i.frame[:0], h, batch)
		i.frame = nil
	}
	_ = i.puts.stream.Send(frame)
	return frame
}

// await reads answers until the final one.
func (i *processInstance) await(ctx context.Context, results []pluginapi.Result) error {
	for {
		frame, err := i.puts.receive()
		if err != nil {
			return i.broken(ctx, err)
		}
		final, sinkErr, err := abi.DecodePutResponse(frame, results)
		if err != nil {
			i.lost.Store(true)
			return badAnswer("%v", err)
		}
		if !final {
			continue
		}
		if sinkErr != nil {
			return sinkErr
		}
		return nil
	}
}

// endWith asks the plugin to end the put in flight when ctx ends, and after the
// grace kills the process, which ends whatever waits for it. end is called when
// the put has returned; nothing of this one happens after it.
func (i *processInstance) endWith(ctx context.Context) (end func()) {
	returned, ended := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		timer := time.AfterFunc(i.host.spec.opts.PutGrace, func() {
			i.host.kill(fmt.Sprintf("a put in it did not return within %s of its context's end", i.host.spec.opts.PutGrace))
		})
		defer timer.Stop()
		i.puts.cancel()
		<-returned
	})
	return func() {
		close(returned)
		if !stop() {
			<-ended
		}
	}
}

// puts is the host's end of an instance's put stream. Whatever blocks in it
// ends with the process.
type puts struct {
	stream *rpc.PutStream
	end    context.CancelFunc

	sending sync.Mutex // Held while something is sent.
}

func openPuts(p *process, number uint64) (*puts, error) {
	ctx, cancel := context.WithCancel(p.ctx)
	stream, err := p.putStream(ctx, number)
	if err != nil {
		cancel()
		return nil, err
	}
	return &puts{stream: stream, end: cancel}, nil
}

// putStream opens the put stream of an instance, which ends when ctx does.
func (p *process) putStream(ctx context.Context, number uint64) (*rpc.PutStream, error) {
	if !p.takes {
		return p.rpc.Put(ctx, number)
	}
	conn, err := p.sockets.Connect()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return rpc.OverSocket(conn, number), nil
}

// cancel asks the plugin to end the put in flight. A failure is the stream's
// end, which receive reports.
func (s *puts) cancel() {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = s.stream.SendCancel()
}

// receive returns the next answer.
func (s *puts) receive() ([]byte, error) {
	in, err := s.stream.Receive(nil)
	switch {
	case err == nil && in.Cancel:
		return nil, status.Error(codes.Internal, "the plugin sent a cancel")
	case errors.Is(err, io.EOF):
		return nil, status.Error(codes.Internal, "the plugin closed the put stream")
	case err == nil:
		return in.Frame, nil
	}
	if _, ok := status.FromError(err); !ok {
		err = status.Error(codes.Internal, err.Error())
	}
	return nil, err
}
