package loader

import (
	"context"

	"github.com/sluicehq/sluice/loader/wasm"
	"github.com/sluicehq/sluice/pluginapi"
)

// wasmRunner makes instances of a compiled module.
type wasmRunner struct {
	module *wasm.Module
	host   *Catalog
}

func openWASM(ctx context.Context, p *Plugin, opts Options) (*wasmRunner, error) {
	o := wasm.Options{
		MemoryBytes: opts.MemoryBytes,
		AllowHosts:  opts.AllowHosts,
		CacheDir:    p.catalog.opts.CacheDir,
		Grace:       opts.PutGrace,
		Logger:      opts.Logger,
	}
	if p.pinned {
		o.SHA256 = p.SHA256
	}
	m, err := wasm.Open(ctx, p.Path, o)
	if err != nil {
		return nil, err
	}
	return &wasmRunner{module: m, host: p.catalog}, nil
}

// instance makes an instance, which shares no memory with others anyway.
func (r *wasmRunner) instance(ctx context.Context, cfg pluginapi.Config, _ bool) (formInstance, error) {
	in, err := r.module.Instance(ctx)
	if err != nil {
		return nil, err
	}
	return &wasmInstance{in: in, cfg: cfg, number: r.host.processes.Add(1)}, nil
}

func (r *wasmRunner) close(ctx context.Context) error { return r.module.Close(ctx) }

// wasmInstance is a sink in a module instance of its own.
type wasmInstance struct {
	in     *wasm.Instance
	cfg    pluginapi.Config
	number uint64
}

func (i *wasmInstance) start(ctx context.Context) error { return i.in.Start(ctx, i.cfg) }

func (i *wasmInstance) put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error {
	return i.in.Put(ctx, batch, results)
}

func (i *wasmInstance) check(ctx context.Context) error { return i.in.Check(ctx) }
func (i *wasmInstance) stop(ctx context.Context) error  { return i.in.Stop(ctx) }
func (i *wasmInstance) gone() bool                      { return i.in.Gone() }
func (i *wasmInstance) process() uint64                 { return i.number }
