package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/internal/abi/invoke"
	"github.com/sluicehq/sluice/pluginapi"
)

// leaveAfter is how long a call that ought to be stopped is waited for before
// it is left behind.
const leaveAfter = time.Second

var (
	errGone     = errors.New("the instance is gone")
	errNoMemory = errors.New("the module gave no memory for the request")
)

type instanceKey struct{}

// call runs work, which calls into the module, and explains its error. After an
// error the instance is gone, unless the module never got the request.
//
// ctx bounds the call: the module's requests end with it, and the module itself
// after the grace. A call that goes on nevertheless is left behind: it may use
// the instance, which nobody else does any more, and frees it when it ends.
func (inst *Instance) call(ctx context.Context, name string, work func(ctx context.Context) error) error {
	if inst.Gone() {
		return fmt.Errorf("%s: %w", name, errGone)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := inst.module.enter(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	alive, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), instanceKey{}, inst))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(inst.module.opts.Grace, func() { cancel(context.Cause(ctx)) })
	})
	defer stop()
	inst.bound, inst.alive = ctx, alive
	inst.mu.Lock()
	inst.idle = false
	inst.mu.Unlock()

	done := make(chan error, 1)
	go func() {
		defer inst.module.leave()
		err := work(alive)
		inst.mu.Lock()
		inst.idle = true
		left := inst.left
		inst.mu.Unlock()
		if left {
			inst.free()
		}
		done <- err
	}()
	err := inst.wait(alive, done)
	switch {
	case err == nil, errors.Is(err, errNoMemory):
	default:
		inst.gone.Store(true)
		err = inst.explain(ctx, alive, err)
	}
	inst.out.settle(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// errLeft is the error of a call that was left behind.
var errLeft = errors.New("it does not stop")

func (inst *Instance) wait(alive context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-alive.Done():
	}
	timer := time.NewTimer(leaveAfter)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	inst.mu.Lock()
	defer inst.mu.Unlock()
	if inst.idle {
		return <-done
	}
	inst.left = true
	return errLeft
}

// explain turns an error of the engine into one for people: without the stack
// of the module, with what the module wrote about it. Its class is Unknown.
func (inst *Instance) explain(ctx, alive context.Context, err error) error {
	var answered *pluginapi.Error
	switch {
	case errors.Is(err, errLeft):
		return &CallError{Code: invoke.CodeTimeout, Reason: "it does not stop", cause: context.Cause(ctx)}
	case alive.Err() != nil:
		return &CallError{Code: invoke.CodeTimeout, Reason: "stopped after its time was over", cause: context.Cause(ctx)}
	case errors.As(err, &answered):
		return err
	case errors.Is(err, abi.ErrMalformed):
		return &CallError{Code: invoke.CodeBadAnswer, Reason: err.Error(), cause: err}
	}
	var exit *sys.ExitError
	reason, _, _ := strings.Cut(err.Error(), "\n")
	if errors.As(err, &exit) {
		reason = fmt.Sprintf("exited with code %d", exit.ExitCode())
	}
	if used := inst.memory(); used > inst.module.opts.MemoryBytes/4*3 {
		reason += fmt.Sprintf(" (%d of %d KiB memory limit in use)", used>>10, inst.module.opts.MemoryBytes>>10)
	}
	if said := inst.out.lastWords(); said != "" {
		reason += "; it wrote: " + said
	}
	return &CallError{Code: invoke.CodeCrash, Reason: reason, cause: err}
}

// memory returns the size of the instance's memory in bytes.
func (inst *Instance) memory() int64 {
	if inst.mod == nil || inst.mod.Memory() == nil {
		return 0
	}
	return int64(inst.mod.Memory().Size())
}

// CallError says why an instance is gone. In its chain are an error of class
// Unknown with its code, and the cause: the context's, if time was over.
type CallError struct {
	Code   string // "crash", "put_timeout" or "bad_answer".
	Reason string
	cause  error
}

// Error returns the reason.
func (e *CallError) Error() string { return "wasm module: " + e.Reason }

// Unwrap returns the error as it crosses the plugin boundary, and the cause.
func (e *CallError) Unwrap() []error {
	return []error{pluginapi.NewError(pluginapi.Unknown, e.Code, e.Error()), e.cause}
}

// answer calls fn and returns what it answers, which lies in the module's
// memory and is good until the next call.
func (inst *Instance) answer(ctx context.Context, fn api.Function, ptr uint32, n int) ([]byte, error) {
	stack := [2]uint64{uint64(ptr), uint64(n)}
	if err := fn.CallWithStack(ctx, stack[:]); err != nil {
		return nil, err
	}
	at, size := uint32(stack[0]>>32), uint32(stack[0])
	b, ok := inst.mod.Memory().Read(at, size)
	if !ok {
		return nil, badAnswer("an answer of %d bytes at %d is outside its memory", size, at)
	}
	return b, nil
}

// allocate asks the module for memory.
func (inst *Instance) allocate(ctx context.Context, n int) (uint32, error) {
	inst.allocating = true
	defer func() { inst.allocating = false }()
	stack := [1]uint64{uint64(n)}
	if err := inst.alloc.CallWithStack(ctx, stack[:]); err != nil {
		return 0, err
	}
	if stack[0] == 0 {
		return 0, errNoMemory
	}
	return uint32(stack[0]), nil
}

// give copies b into memory the module provides, and returns where.
func (inst *Instance) give(ctx context.Context, b []byte) (uint32, error) {
	if b == nil {
		return 0, nil
	}
	ptr, err := inst.allocate(ctx, len(b))
	if err == nil && !inst.mod.Memory().Write(ptr, b) {
		err = badAnswer("memory for %d bytes at %d is outside its memory", len(b), ptr)
	}
	return ptr, err
}

func badAnswer(format string, args ...any) error {
	return pluginapi.NewError(pluginapi.Unknown, invoke.CodeBadAnswer, fmt.Sprintf(format, args...))
}
