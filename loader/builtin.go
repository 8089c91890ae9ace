package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/abi/invoke"
	"github.com/sluicehq/sluice/pluginapi"
)

// builtinRunner makes sinks that run in the worker.
type builtinRunner struct {
	plugin *pluginapi.Plugin
	opts   Options
	host   *Catalog
}

func (r *builtinRunner) instance(_ context.Context, cfg pluginapi.Config, _ bool) (formInstance, error) {
	return &builtinInstance{
		sink: r.plugin.New(), cfg: cfg, grace: r.opts.PutGrace, number: r.host.processes.Add(1),
	}, nil
}

func (*builtinRunner) close(context.Context) error { return nil }

// builtinInstance calls a sink's methods on a goroutine of their own, so that
// one that does not return costs the goroutine and no more.
type builtinInstance struct {
	sink   pluginapi.Sink
	cfg    pluginapi.Config
	grace  time.Duration
	number uint64
	lost   atomic.Bool // No method but Stop may be called.
	hung   atomic.Bool // A method still runs: not even Stop.
}

func (i *builtinInstance) start(ctx context.Context) error {
	return i.call(ctx, "Start", func() error { return invoke.Start(ctx, i.sink, i.cfg) })
}

func (i *builtinInstance) check(ctx context.Context) error {
	return i.call(ctx, "Check", func() error { return invoke.Check(ctx, i.sink) })
}

// stop does not call the sink when another of its methods still runs.
func (i *builtinInstance) stop(ctx context.Context) error {
	if i.hung.Load() {
		return nil
	}
	return i.call(ctx, "Stop", func() error { return invoke.Stop(ctx, i.sink) })
}

func (i *builtinInstance) put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error {
	// The sink's goroutine writes to results under mu, and no more once this
	// function has set over and gone.
	var mu sync.Mutex
	over := false
	store := func(first int, known []pluginapi.Result) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			copy(results[first:], known)
		}
	}
	err := i.call(ctx, "Put", func() error {
		known, err := invoke.Put(ctx, i.sink, batch, store)
		store(0, known)
		return err
	})
	mu.Lock()
	over = true
	mu.Unlock()
	return err
}

// call runs method and returns its error as it would cross the boundary, or
// gives the instance up when it does not return by ctx's end plus the grace.
func (i *builtinInstance) call(ctx context.Context, name string, method func() error) error {
	done := make(chan error, 1)
	go func() { done <- method() }()
	select {
	case err := <-done:
		return i.crossed(err)
	case <-ctx.Done():
	}
	grace := time.NewTimer(i.grace)
	defer grace.Stop()
	select {
	case err := <-done:
		return i.crossed(err)
	case <-grace.C:
		i.hung.Store(true)
		i.lost.Store(true)
		return pluginapi.NewError(pluginapi.Unknown, invoke.CodeTimeout,
			fmt.Sprintf("%s did not return within %s of its context's end", name, i.grace))
	}
}

// crossed returns err as every form gives it, and marks the instance as gone
// after a panic.
func (i *builtinInstance) crossed(err error) error {
	if err == nil {
		return nil
	}
	var p *invoke.PanicError
	if errors.As(err, &p) {
		i.lost.Store(true)
		i.cfg.Logger.Error("sink panicked", "err", p.Error(), "stack", string(p.Stack))
	}
	return pluginapi.AsError(err, pluginapi.NoClass)
}

func (i *builtinInstance) gone() bool { return i.lost.Load() }

func (i *builtinInstance) process() uint64 { return i.number }
