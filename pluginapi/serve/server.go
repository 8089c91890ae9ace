package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/internal/abi/invoke"
	"github.com/sluicehq/sluice/internal/abi/rpc"
	"github.com/sluicehq/sluice/internal/abi/shm"
	"github.com/sluicehq/sluice/pluginapi"
)

// maxInstances bounds the sinks of one process.
const maxInstances = 10_000

// server is the plugin's side of the service.
type server struct {
	plugin  *pluginapi.Plugin
	desc    pluginapi.Description
	handler slog.Handler
	shared  *shm.Source // Where the host writes puts; nil where it does not.
	sockets bool        // Whether the host may pass put streams.

	mu        sync.Mutex
	instances map[uint64]*instance // Guarded by mu.
}

var _ rpc.Server = (*server)(nil)

func newServer(p *pluginapi.Plugin, handler slog.Handler) *server {
	return &server{plugin: p, desc: p.Describe(), handler: handler, instances: make(map[uint64]*instance)}
}

// instance is one sink.
type instance struct {
	sink pluginapi.Sink
	// busy has room for one: whoever calls a method of the sink, which is never
	// called twice at a time, also not by Stop after a call the host gave up.
	busy chan struct{}

	mu      sync.Mutex
	started bool // Guarded by mu: Start has succeeded.
	putting bool // Guarded by mu: its put stream is open.
	dead    bool // Guarded by mu: it panicked; only Stop may follow.
}

// Describe returns the description.
func (s *server) Describe(context.Context) (rpc.Description, error) {
	return rpc.Description{CBOR: abi.AppendDescription(nil, &s.desc), Shared: s.shared != nil, Sockets: s.sockets}, nil
}

// Start makes the instance and starts it.
func (s *server) Start(ctx context.Context, id uint64, start []byte) ([]byte, error) {
	cfg, err := abi.DecodeStart(start, s.desc.Settings)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	cfg.Logger = slog.New(s.handler).With("task", cfg.Task, "writer", cfg.Writer)
	in, err := s.add(id)
	if err != nil {
		return nil, err
	}
	in.busy <- struct{}{}
	err = invoke.Start(ctx, in.sink, cfg)
	<-in.busy
	in.mu.Lock()
	in.started = err == nil
	in.mu.Unlock()
	return s.answer(in, err)
}

// add makes the sink of a new instance.
func (s *server) add(id uint64) (*instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.instances[id]; ok {
		return nil, status.Errorf(codes.AlreadyExists, "instance %d was started before", id)
	}
	if len(s.instances) >= maxInstances {
		return nil, status.Errorf(codes.ResourceExhausted, "more than %d instances", maxInstances)
	}
	in := &instance{sink: s.plugin.New(), busy: make(chan struct{}, 1)}
	s.instances[id] = in
	return in, nil
}

// ready returns a started instance that has not panicked.
func (s *server) ready(id uint64) (*instance, error) {
	s.mu.Lock()
	in := s.instances[id]
	s.mu.Unlock()
	if in == nil {
		return nil, status.Errorf(codes.NotFound, "there is no instance %d", id)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.started || in.dead {
		return nil, status.Errorf(codes.FailedPrecondition, "instance %d is not running", id)
	}
	return in, nil
}

// Check asks the instance for its target.
func (s *server) Check(ctx context.Context, id uint64) ([]byte, error) {
	in, err := s.ready(id)
	if err != nil {
		return nil, err
	}
	if err := in.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-in.busy }()
	return s.answer(in, invoke.Check(ctx, in.sink))
}

// Stop stops and forgets the instance.
func (s *server) Stop(ctx context.Context, id uint64) ([]byte, error) {
	s.mu.Lock()
	in := s.instances[id]
	delete(s.instances, id)
	s.mu.Unlock()
	if in == nil {
		return nil, status.Errorf(codes.NotFound, "there is no instance %d", id)
	}
	if err := in.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-in.busy }()
	return s.answer(in, invoke.Stop(ctx, in.sink))
}

// take waits until no method of the sink runs.
func (in *instance) take(ctx context.Context) error {
	select {
	case in.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.Error(codes.DeadlineExceeded, "a method of the sink does not return")
	}
}

// answer turns the error of a sink's method into an answer, or into the end of
// the instance if it is a panic.
func (s *server) answer(in *instance, err error) ([]byte, error) {
	if err == nil {
		return nil, nil
	}
	if err := s.panicked(in, err); err != nil {
		return nil, err
	}
	return abi.AppendError(nil, pluginapi.AsError(err, pluginapi.NoClass)), nil
}

// panicked returns the status that ends the instance if err is a panic, whose
// text and stack it logs.
func (s *server) panicked(in *instance, err error) error {
	var p *invoke.PanicError
	if !errors.As(err, &p) {
		return nil
	}
	in.mu.Lock()
	in.dead = true
	in.mu.Unlock()
	slog.New(s.handler).Error("sink panicked", "err", p.Error(), "stack", string(p.Stack))
	return status.Error(codes.Aborted, p.Error())
}
