package loader

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sluicehq/sluice/internal/abi/invoke"
	"github.com/sluicehq/sluice/pluginapi"
)

// Instance is one sink, in any form. Its methods are called from one goroutine,
// except Gone and Process.
type Instance struct {
	form    formInstance
	plugin  *Plugin
	stopped atomic.Bool
}

// formInstance is an instance of one form. Its methods return when their
// context ends plus the put grace at the latest, and put writes to results no
// more then.
type formInstance interface {
	start(ctx context.Context) error
	put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error
	check(ctx context.Context) error
	stop(ctx context.Context) error
	gone() bool
	process() uint64
}

// Start starts the sink with the config it was made with.
func (i *Instance) Start(ctx context.Context) error {
	return i.wrap("start sink", i.form.start(ctx))
}

// Put stores batch and fills results, which has batch's length and comes
// zeroed. What stands there on return with an outcome is known, also after an
// error; the rest is unknown. It returns when ctx ends plus the put grace at the
// latest, whatever the plugin does, and writes to results no more.
//
// When it returns and the instance of a builtin is gone, the sink's goroutine
// may still read batch: its memory must then be left to the garbage collector.
func (i *Instance) Put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error {
	if len(results) != len(batch) {
		panic(fmt.Sprintf("loader: Put of %d records with room for %d results", len(batch), len(results)))
	}
	if i.Gone() {
		return i.wrap("put", errGone)
	}
	err := i.form.put(ctx, batch, results)
	missing, unannounced, emits := 0, 0, i.plugin.Description.Can(pluginapi.CanEmit)
	for n := range results {
		if o := results[n].Outcome; o < pluginapi.Accept || o > pluginapi.Reject {
			results[n] = pluginapi.Result{}
			missing++
		} else if len(results[n].Emitted) > 0 && !emits { // Nobody would produce them.
			results[n] = pluginapi.Result{}
			unannounced++
		}
	}
	switch {
	case err != nil:
	case unannounced > 0:
		err = badAnswer("%d of %d records emit others, which the plugin's description does not announce", unannounced, len(results))
	case missing > 0:
		err = badAnswer("%d of %d records have no result", missing, len(results))
	}
	return i.wrap("put", err)
}

// Check asks whether the target is reachable; nil where the sink cannot tell.
func (i *Instance) Check(ctx context.Context) error {
	if i.Gone() {
		return i.wrap("check sink", errGone)
	}
	return i.wrap("check sink", i.form.check(ctx))
}

// Stop stops the sink and releases the instance. Calls after the first return
// nil.
func (i *Instance) Stop(ctx context.Context) error {
	if i.stopped.Swap(true) {
		return nil
	}
	return i.wrap("stop sink", i.form.stop(ctx))
}

// Gone reports that the instance is unusable and a new one must be made. Stop
// is still to be called.
func (i *Instance) Gone() bool { return i.stopped.Load() || i.form.gone() }

// Process numbers the process the instance lives in, from 1 and never twice in
// a worker, so that a crash several instances share is counted once. An
// instance that shares its fate with no other has a number of its own.
func (i *Instance) Process() uint64 { return i.form.process() }

func (i *Instance) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", doing, i.plugin.Name, err)
}

func badAnswer(format string, args ...any) error {
	return pluginapi.NewError(pluginapi.Unknown, invoke.CodeBadAnswer, fmt.Sprintf(format, args...))
}
