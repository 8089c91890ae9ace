package sharetask

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// put is one batch on its way through a writer and back.
type put struct {
	writer  *writer
	spans   []span
	records int
	// ctx bounds the writer's work on this put; cancel ends it early, when all
	// its records are lost or a stop has no more time for it.
	ctx    context.Context
	cancel context.CancelFunc
	// abandoned says that the task cancelled it since no record of it is ours.
	abandoned bool

	// Set by the writer.
	results  []pluginapi.Result // One per record, in the order of spans.
	failures []stageFailure     // Records that were not put, in order.
	err      error              // What Put returned, or why it was not called.
	putAt    time.Time
	took     time.Duration
	sent     int // Records handed to the sink.
}

// stageFailure is a record that failed before the sink saw it.
type stageFailure struct {
	index int // Among the put's records.
	stage Stage
	err   error
}

// writer owns one sink and calls it from its goroutine.
type writer struct {
	number  int
	make    SinkMaker
	convert Converter // Nil: bytes as they are.
	metrics Metrics
	log     *slog.Logger
	timeout time.Duration // put_timeout.

	puts chan *put // Closed to stop.

	// Owned by the writer's goroutine.
	sink    Sink
	started bool
	batch   []pluginapi.Record
	results []pluginapi.Result
	sent    []pluginapi.Result
	index   []int
}

// sinkStartError is the error of a sink that could not be made or started.
type sinkStartError struct{ err error }

// Error returns what starting the sink said.
func (e *sinkStartError) Error() string { return fmt.Sprintf("start sink: %v", e.err) }

// Unwrap returns the cause.
func (e *sinkStartError) Unwrap() error { return e.err }

// ensure makes and starts the sink where there is none, or the old one is gone.
func (w *writer) ensure(ctx context.Context) error {
	if w.sink != nil && w.sink.Gone() {
		if err := w.sink.Stop(ctx); err != nil {
			w.log.Debug("stop of a sink that was gone", "writer", w.number, "err", err)
		}
		w.sink, w.started = nil, false
	}
	if w.sink == nil {
		s, err := w.make(ctx, w.number)
		if err != nil {
			return &sinkStartError{err}
		}
		w.sink = s
	}
	if w.started {
		return nil
	}
	if err := w.sink.Start(ctx); err != nil {
		// Stop is called once even if Start failed, and a sink is started once:
		// the next try gets a new one.
		err = &sinkStartError{err}
		if serr := w.sink.Stop(ctx); serr != nil {
			err = errors.Join(err, fmt.Errorf("stop sink: %w", serr))
		}
		w.sink = nil
		return err
	}
	w.started = true
	return nil
}

// stop stops the sink.
func (w *writer) stop(ctx context.Context) error {
	if w.sink == nil {
		return nil
	}
	err := w.sink.Stop(ctx)
	w.sink, w.started = nil, false
	return err
}

// run executes puts until the channel is closed. Each ends in done.
func (w *writer) run(done chan<- *put) {
	for p := range w.puts {
		w.put(p.ctx, p)
		p.cancel()
		done <- p
	}
}

// put converts p's records and hands them to the sink. ctx ends when the put
// must be given up.
func (w *writer) put(ctx context.Context, p *put) {
	p.putAt = time.Now()
	p.results = grown(&w.results, p.records)
	if p.err = w.ensure(ctx); p.err != nil {
		return
	}
	batch, sent := w.prepare(p)
	p.sent = len(batch)
	if len(batch) == 0 {
		return
	}
	putCtx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	p.putAt = time.Now()
	p.err = w.sink.Put(putCtx, batch, sent)
	p.took = time.Since(p.putAt)
	w.metrics.Put(len(batch), p.took, p.err != nil)
	if w.sink.Gone() {
		w.batch = nil // The sink may still be reading it.
	}
	if w.index != nil {
		for i, r := range sent {
			p.results[w.index[i]] = r
		}
	}
}

// prepare returns the batch for the sink and where its results go. A put of
// one whole span without conversion is handed on without a copy.
func (w *writer) prepare(p *put) ([]pluginapi.Record, []pluginapi.Result) {
	w.index = nil
	if w.convert == nil && len(p.spans) == 1 {
		s := p.spans[0]
		return s.d.Records[s.lo:s.hi:s.hi], p.results
	}
	if cap(w.batch) < p.records {
		w.batch = make([]pluginapi.Record, p.records)
	}
	batch := w.batch[:0]
	n := 0
	for _, s := range p.spans {
		for i := s.lo; i < s.hi; i, n = i+1, n+1 {
			rec := &s.d.Records[i]
			batch = batch[:len(batch)+1]
			out := &batch[len(batch)-1]
			if w.convert == nil {
				*out = *rec
				continue
			}
			keep, err := w.convert.Convert(rec, out)
			if err == nil && keep {
				if w.index != nil {
					w.index = append(w.index, n)
				}
				continue
			}
			batch = batch[:len(batch)-1]
			if w.index == nil {
				w.index = make([]int, len(batch), p.records)
				for k := range w.index {
					w.index[k] = k
				}
			}
			if err != nil {
				p.failures = append(p.failures, newStageFailure(n, err))
				p.results[n] = pluginapi.Result{Outcome: pluginapi.Reject}
			} else {
				p.results[n].Outcome = pluginapi.Accept // Dropped on purpose.
			}
		}
	}
	if w.index == nil {
		return batch, p.results
	}
	return batch, grown(&w.sent, len(batch))
}

// newStageFailure notes that record index could not be converted.
func newStageFailure(index int, err error) stageFailure {
	f := stageFailure{index: index, stage: StageValueConverter, err: err}
	var se *StageError
	if errors.As(err, &se) {
		f.stage, f.err = se.Stage, se.Err
	}
	return f
}

// grown returns *buf as n zeroed results.
func grown(buf *[]pluginapi.Result, n int) []pluginapi.Result {
	if cap(*buf) < n {
		*buf = make([]pluginapi.Result, n)
	}
	s := (*buf)[:n]
	clear(s)
	return s
}
