package wasm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/sluicehq/sluice/internal/abi"
)

// provideImports makes the host module every instance of the runtime imports
// from. Which instance calls is in the context.
func provideImports(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(importModule)
	for name, fn := range map[string]func(*Instance, context.Context, []uint64){
		"log": (*Instance).importLog, "results": (*Instance).importResults, "http": (*Instance).importHTTP,
	} {
		sig := imports[name]
		b = b.NewFunctionBuilder().
			WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
				fn(ctx.Value(instanceKey{}).(*Instance), ctx, stack)
			}), sig.params, sig.results).
			Export(name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

// config is what WASI shows the instance: clocks, random numbers, sleep and
// output, and nothing else.
func (inst *Instance) config() wazero.ModuleConfig {
	return wazero.NewModuleConfig().
		WithName("").
		WithStartFunctions("_initialize").
		WithSysWalltime().
		WithSysNanotime().
		WithNanosleep(inst.sleep).
		WithRandSource(rand.Reader).
		WithStdout(inst.out.stream(slog.LevelInfo)).
		WithStderr(inst.out.stream(slog.LevelWarn))
}

// sleep sleeps for a module, but not beyond its time.
func (inst *Instance) sleep(ns int64) {
	timer := time.NewTimer(time.Duration(ns))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-inst.alive.Done():
	}
}

// errTrap stops a module that calls an import as it must not. The engine
// recovers the panic and ends the call with it.
func errTrap(format string, args ...any) error {
	return fmt.Errorf("import %s", fmt.Sprintf(format, args...))
}

func (inst *Instance) view(name string, ptr, n uint64) []byte {
	b, ok := inst.mod.Memory().Read(uint32(ptr), uint32(n))
	if !ok {
		panic(errTrap("%s: %d bytes at %d are outside the module's memory", name, uint32(n), uint32(ptr)))
	}
	return b
}

func (inst *Instance) importLog(ctx context.Context, stack []uint64) {
	line := inst.view("log", stack[1], stack[2])
	inst.out.log(ctx, slog.Level(int32(stack[0])), line)
}

func (inst *Instance) importResults(_ context.Context, stack []uint64) {
	final, _, err := inst.store(inst.view("results", stack[0], stack[1]))
	if err == nil && final {
		err = errors.New("not a part")
	}
	if err != nil {
		panic(fmt.Errorf("import results: %w", err))
	}
}

func (inst *Instance) importHTTP(ctx context.Context, stack []uint64) {
	if inst.allocating {
		panic(errTrap("http: called in %s", exportAlloc))
	}
	var answer abi.HTTPResponse
	req, err := abi.DecodeHTTPRequest(inst.view("http", stack[0], stack[1]))
	switch {
	case err != nil:
		panic(fmt.Errorf("import http: %w", err))
	case !inst.online:
		answer = abi.HTTPResponse{Failure: abi.HTTPForbidden, Message: "the sink is not started"}
	default:
		answer = inst.module.http.do(inst.bound, &req)
	}
	frame := abi.AppendHTTPResponse(nil, &answer)
	ptr, err := inst.give(ctx, frame)
	if err != nil {
		panic(fmt.Errorf("import http: %w", err))
	}
	stack[0] = uint64(ptr)<<32 | uint64(len(frame))
}
