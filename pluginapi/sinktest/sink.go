package sinktest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/sluicehq/sluice/pluginapi"
)

// Sink is one sink under test, in any form. The instances of a plugin loader
// are such sinks; [Adapt] makes one of a pluginapi.Sink. It is called from one
// goroutine.
type Sink interface {
	// Start starts the sink with its settings, which its maker bound.
	Start(ctx context.Context) error
	// Put stores batch and fills results, which has batch's length and comes
	// zeroed. A record whose result stays zero is unknown.
	Put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error
	// Check asks whether the target is reachable; nil where the sink cannot tell.
	Check(ctx context.Context) error
	// Stop stops the sink.
	Stop(ctx context.Context) error
	// Gone reports that the sink cannot be used any more, but for Stop.
	Gone() bool
}

// Adapt returns a sink under test that calls sink in this process. A nil
// cfg.Logger discards. It also watches what only a direct caller sees: the
// number of results, and reports that are out of place.
func Adapt(sink pluginapi.Sink, cfg pluginapi.Config) Sink {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &adapted{sink: sink, cfg: cfg}
}

type adapted struct {
	sink pluginapi.Sink
	cfg  pluginapi.Config
}

func (a *adapted) Start(ctx context.Context) error { return a.sink.Start(ctx, a.cfg) }
func (a *adapted) Stop(ctx context.Context) error  { return a.sink.Stop(ctx) }
func (*adapted) Gone() bool                        { return false }

func (a *adapted) Check(ctx context.Context) error {
	if c, ok := a.sink.(pluginapi.Checker); ok {
		return c.Check(ctx)
	}
	return nil
}

func (a *adapted) Put(ctx context.Context, batch []pluginapi.Record, results []pluginapi.Result) error {
	reporter, ok := a.sink.(pluginapi.Reporter)
	if !ok {
		got, err := a.sink.Put(ctx, batch)
		if len(got) > len(batch) || (err == nil && len(got) < len(batch)) {
			return errors.Join(fmt.Errorf("%d results for %d records", len(got), len(batch)), err)
		}
		copy(results, got)
		return err
	}
	var (
		mu     sync.Mutex
		fault  error
		closed bool
	)
	err := reporter.PutReport(ctx, batch, func(first int, part []pluginapi.Result) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case closed:
			panic("sinktest: results reported after PutReport returned")
		case first < 0 || first+len(part) > len(results):
			fault = fmt.Errorf("results of records %d to %d reported for a batch of %d", first, first+len(part)-1, len(results))
		default:
			for i := range part {
				if results[first+i].Outcome != 0 {
					fault = fmt.Errorf("the result of record %d reported twice", first+i)
				}
			}
			copy(results[first:], part)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	closed = true
	if fault != nil {
		return fault
	}
	return err
}
