package wasm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/internal/abi/invoke"
	"github.com/sluicehq/sluice/pluginapi"
)

// Instance is one sink of a module. It is called from one goroutine; Gone may
// be called from any.
type Instance struct {
	module *Module
	mod    api.Module
	out    *output

	alloc, describe, start, put, check, stop api.Function

	gone atomic.Bool
	cfg  pluginapi.Config // As started; the zero one before.

	// These belong to the call in progress: set before it, read by functions
	// the module calls in it. bound is the caller's context, alive ends when the
	// module must have returned.
	bound, alive context.Context
	online       bool // A sink's call, which may use the network.
	allocating   bool // In sluice_alloc, which may not.

	mu      sync.Mutex
	idle    bool // The last call's goroutine is through.
	left    bool // That of a call goes on behind its caller's back.
	freed   bool
	results []pluginapi.Result // Of the put in progress; nil outside of one.

	spare []pluginapi.Result // For the next put.
}

// Instance makes a sink with memory of its own and runs its initialization. ctx
// bounds that.
func (m *Module) Instance(ctx context.Context) (*Instance, error) {
	inst := &Instance{module: m, out: newOutput(m.log.With("plugin", m.path))}
	err := inst.call(ctx, "initialize", inst.instantiate)
	if err != nil {
		inst.close()
		return nil, err
	}
	return inst, nil
}

func (inst *Instance) instantiate(ctx context.Context) error {
	mod, err := inst.module.runtime.InstantiateModule(ctx, inst.module.compiled, inst.config())
	if err != nil {
		return err
	}
	inst.mod = mod
	for name, fn := range map[string]*api.Function{
		exportAlloc: &inst.alloc, exportDescribe: &inst.describe, exportStart: &inst.start,
		exportPut: &inst.put, exportCheck: &inst.check, exportStop: &inst.stop,
	} {
		*fn = mod.ExportedFunction(name)
	}
	version, err := mod.ExportedFunction(exportVersion).Call(ctx)
	if err != nil {
		return err
	}
	if got := int32(version[0]); got != pluginapi.ABIVersion {
		return fmt.Errorf("it speaks ABI version %d, this host speaks %d", got, pluginapi.ABIVersion)
	}
	return nil
}

// Start starts the sink. cfg.Logger, if there is one, gets the instance's log
// from now on. An error the sink itself returned is a [*pluginapi.Error].
func (inst *Instance) Start(ctx context.Context, cfg pluginapi.Config) error {
	if cfg.Logger != nil {
		inst.out.to(cfg.Logger)
	}
	inst.cfg, inst.online = cfg, true
	return inst.simple(ctx, "start", inst.start, abi.AppendStart(nil, cfg, nil))
}

// Check asks whether the target is reachable; nil where the sink cannot tell.
func (inst *Instance) Check(ctx context.Context) error {
	return inst.simple(ctx, "check", inst.check, nil)
}

// Stop stops the sink and frees the instance. It returns nil for an instance
// that is gone.
func (inst *Instance) Stop(ctx context.Context) error {
	defer inst.close()
	if inst.Gone() {
		return nil
	}
	return inst.simple(ctx, "stop", inst.stop, nil)
}

// Gone reports that the instance must not be called again, but for Stop.
func (inst *Instance) Gone() bool { return inst.gone.Load() }

// simple makes a call that answers an error or null. request is nil for a
// function without arguments.
func (inst *Instance) simple(ctx context.Context, name string, fn api.Function, request []byte) error {
	var answered *pluginapi.Error
	err := inst.call(ctx, name, func(ctx context.Context) error {
		ptr, err := inst.give(ctx, request)
		if err != nil {
			return err
		}
		answer, err := inst.answer(ctx, fn, ptr, len(request))
		if err != nil {
			return err
		}
		answered, err = abi.DecodeError(answer)
		return err
	})
	if err != nil {
		return err
	}
	return inst.said(answered)
}

// Put stores batch, in parts if it is too large for the module's memory, and
// fills results, which has batch's length and comes zeroed; records whose fate is not known keep the zero result. It returns at
// most the grace and a moment after ctx ends. An error the sink itself returned
// is a [*pluginapi.Error].
func (inst *Instance) Put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	header := abi.PutHeader{Connector: inst.cfg.Connector, Task: inst.cfg.Task}
	if deadline, ok := ctx.Deadline(); ok {
		header.Deadline = time.Until(deadline)
	}
	req := request{header: header, batch: batch}
	if tooLarge := req.prepare(inst.module); tooLarge != nil {
		return inst.split(ctx, batch, results, tooLarge)
	}

	// The call fills results of its own: it may have to be left behind.
	own := inst.spare
	inst.spare = nil
	if own == nil || cap(own) < len(results) {
		own = make([]pluginapi.Result, len(results))
	}
	own = own[:len(results)]
	clear(own)
	inst.mu.Lock()
	inst.results = own
	inst.mu.Unlock()
	var answered *pluginapi.Error
	err := inst.call(ctx, "put", func(ctx context.Context) error {
		ptr, n, err := req.give(ctx, inst)
		if err != nil {
			return err
		}
		answer, err := inst.answer(ctx, inst.put, ptr, n)
		if err != nil {
			return err
		}
		var final bool
		if final, answered, err = inst.store(answer); err == nil && !final {
			err = errors.New("the put ended with a part")
		}
		return err
	})
	inst.mu.Lock()
	copy(results, inst.results)
	inst.results = nil
	inst.mu.Unlock()
	if !inst.isLeft() {
		inst.spare = own
		req.release(inst.module)
	}
	if err != nil {
		return err
	}
	return inst.said(answered)
}

// split puts a batch that is too large for the module in two. A record that is
// too large by itself always will be.
func (inst *Instance) split(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result, tooLarge error) error {
	if len(batch) == 1 {
		results[0] = pluginapi.Rejected(codeTooLarge, tooLarge.Error())
		return nil
	}
	half := len(batch) / 2
	if err := inst.Put(ctx, batch[:half], results[:half]); err != nil {
		return err
	}
	return inst.Put(ctx, batch[half:], results[half:])
}

// store reads a put response into the results of the put in progress.
func (inst *Instance) store(frame []byte) (final bool, putErr *pluginapi.Error, err error) {
	inst.mu.Lock()
	defer inst.mu.Unlock()
	if inst.results == nil {
		return false, nil, errors.New("results outside of a put")
	}
	return abi.DecodePutResponse(frame, inst.results)
}

// said returns the sink's own error, nil for none. One that panicked is not to
// be used again.
func (inst *Instance) said(e *pluginapi.Error) error {
	if e == nil {
		return nil
	}
	if e.Code == invoke.CodePanic {
		inst.gone.Store(true)
	}
	return e
}

func (inst *Instance) isLeft() bool {
	inst.mu.Lock()
	defer inst.mu.Unlock()
	return inst.left
}

// close ends the use of the instance and frees its memory, unless a call that
// was left behind is still in it: that one frees it then.
func (inst *Instance) close() {
	inst.gone.Store(true)
	inst.out.flush()
	if inst.isLeft() || inst.module.enter() != nil {
		return
	}
	defer inst.module.leave()
	inst.free()
}

func (inst *Instance) free() {
	inst.mu.Lock()
	freed := inst.freed
	inst.freed = true
	inst.mu.Unlock()
	if !freed && inst.mod != nil {
		_ = inst.mod.Close(context.Background()) // Only files could make it fail.
	}
}
