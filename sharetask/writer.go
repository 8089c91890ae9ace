package sharetask

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// put is one batch on its way through a writer and back. Without records it is
// a check of the target.
type put struct {
	writer  *writer
	spans   []span
	records int
	suspect *suspect // What it puts is one: by a sink that is apart.
	apart   bool     // Put by a sink that is apart.
	chance  *suspect // Its record is at its last chance.
	// ctx bounds the writer's work on this put; cancel ends it early, when all
	// its records are lost or a stop has no more time for it.
	ctx    context.Context
	cancel context.CancelFunc
	// abandoned says that the task cancelled it since no record of it is ours.
	abandoned bool

	// Set by the writer.
	results   []pluginapi.Result // One per record, in the order of spans.
	failures  []stageFailure     // Records that were not put, in order.
	err       error              // What Put returned, or why it was not called.
	putAt     time.Time
	took      time.Duration
	sent      int    // Records handed to the sink.
	dropped   int    // Records left out on purpose, which count as accepted.
	process   uint64 // The sink's.
	cancelled bool   // The task ended it.
	gone      bool   // The sink is of no more use.
	crashed   bool   // It is gone by itself: it was not that its time was over.
	checked   bool   // It crashed a sink that was apart, and a fresh one's Check succeeded.
}

// stageFailure is a record that failed before the sink saw it.
type stageFailure struct {
	index int // Among the put's records.
	stage Stage
	err   error
}

// writer owns one sink and calls it from its goroutine, and for suspects
// another one that is apart.
type writer struct {
	number  int
	convert Converter // Nil: bytes as they are.
	metrics Metrics
	timeout time.Duration // put_timeout.
	// startTimeout bounds making, starting and checking a sink.
	startTimeout time.Duration
	canCheck     bool // Check asks the target.

	puts chan *put // Closed to stop.

	// Owned by the writer's goroutine.
	own     seat
	apart   seat
	leaving sync.WaitGroup     // Sinks that were apart and are being stopped.
	batch   []pluginapi.Record // Zero between puts.
	copied  int                // How much of it prepare has used.
	results []pluginapi.Result
	sent    []pluginapi.Result
	index   []int
}

// seat is the place of a sink, which is made anew when it is gone.
type seat struct {
	make func(ctx context.Context) (Sink, error)
	log  *slog.Logger

	sink    Sink
	started bool
}

// sinkStartError is the error of a sink that could not be made or started.
type sinkStartError struct{ err error }

// Error returns what starting the sink said.
func (e *sinkStartError) Error() string { return fmt.Sprintf("start sink: %v", e.err) }

// Unwrap returns the cause.
func (e *sinkStartError) Unwrap() error { return e.err }

// ensure makes and starts the sink where there is none, or the old one is gone.
func (s *seat) ensure(ctx context.Context) error {
	if s.sink != nil && s.sink.Gone() {
		if err := s.stop(ctx); err != nil {
			s.log.Debug("stop of a sink that was gone", "err", err)
		}
	}
	if s.sink == nil {
		sink, err := s.make(ctx)
		if err != nil {
			return &sinkStartError{err}
		}
		s.sink = sink
	}
	if s.started {
		return nil
	}
	if err := s.sink.Start(ctx); err != nil {
		// Stop is called once even if Start failed, and a sink is started once:
		// the next try gets a new one.
		err = &sinkStartError{err}
		if serr := s.stop(ctx); serr != nil {
			err = errors.Join(err, fmt.Errorf("stop sink: %w", serr))
		}
		return err
	}
	s.started = true
	return nil
}

// stop stops the sink.
func (s *seat) stop(ctx context.Context) error {
	if s.sink == nil {
		return nil
	}
	err := s.sink.Stop(ctx)
	s.sink, s.started = nil, false
	return err
}

// stop stops the writer's sinks.
func (w *writer) stop(ctx context.Context) error {
	err := errors.Join(w.own.stop(ctx), w.apart.stop(ctx))
	w.leaving.Wait()
	return err
}

// leave stops the sink that is apart, whose suspects are through, while the
// writer goes on.
func (w *writer) leave(ctx context.Context) {
	if w.apart.sink == nil {
		return
	}
	old := w.apart
	w.apart.sink, w.apart.started = nil, false
	w.leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.startTimeout)
		defer cancel()
		if err := old.stop(ctx); err != nil {
			old.log.Debug("stop of a sink that was apart", "err", err)
		}
	})
}

// run executes puts until the channel is closed. Each ends in done.
func (w *writer) run(done chan<- *put) {
	for p := range w.puts {
		w.put(p.ctx, p)
		p.cancelled = p.ctx.Err() != nil
		p.cancel()
		done <- p
	}
}

// put converts p's records and hands them to the sink. ctx ends when the put
// must be given up.
func (w *writer) put(ctx context.Context, p *put) {
	p.putAt = time.Now()
	at := &w.own
	if p.apart {
		at = &w.apart
	} else {
		w.leave(ctx)
	}
	p.results = grown(&w.results, p.records)
	startCtx, started := context.WithTimeout(ctx, w.startTimeout)
	p.err = at.ensure(startCtx)
	started()
	if p.err != nil {
		return
	}
	if p.records == 0 {
		checkCtx, cancel := context.WithTimeout(ctx, w.startTimeout)
		defer cancel()
		if p.err = at.sink.Check(checkCtx); p.err != nil {
			p.err = fmt.Errorf("check sink: %w", p.err)
		}
		return
	}
	batch, sent := w.prepare(p)
	defer w.forget()
	p.sent = len(batch)
	if len(batch) == 0 {
		return
	}
	p.process = at.sink.Process()
	putCtx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	p.putAt = time.Now()
	p.err = at.sink.Put(putCtx, batch, sent)
	p.took = time.Since(p.putAt)
	w.metrics.Put(len(batch), p.took, p.err != nil)
	if at.sink.Gone() {
		w.batch = nil // The sink may still be reading it.
		p.gone, p.crashed = true, putCtx.Err() == nil
	}
	if w.index != nil {
		for i, r := range sent {
			p.results[w.index[i]] = r
		}
	}
	if p.crashed && p.apart && w.canCheck {
		// Whether it was the records or the target: the target tells.
		checkCtx, cancel := context.WithTimeout(ctx, w.startTimeout)
		defer cancel()
		p.checked = at.ensure(checkCtx) == nil && at.sink.Check(checkCtx) == nil
	}
}

// forget drops what prepare copied: each record would keep the response alive
// that it came in.
func (w *writer) forget() {
	clear(w.batch[:min(w.copied, len(w.batch))])
	w.copied = 0
}

// prepare returns the batch for the sink and where its results go. A put of
// one whole span without conversion is handed on without a copy.
func (w *writer) prepare(p *put) ([]pluginapi.Record, []pluginapi.Result) {
	w.index = nil
	if s := p.spans[0]; w.convert == nil && len(p.spans) == 1 && s.d.Origins == nil {
		return s.d.Records[s.lo:s.hi:s.hi], p.results
	}
	if len(w.batch) < p.records {
		w.batch = make([]pluginapi.Record, p.records)
	}
	w.copied = p.records
	batch := w.batch[:0]
	n := 0
	for _, s := range p.spans {
		for i := s.lo; i < s.hi; i, n = i+1, n+1 {
			rec := s.d.record(i)
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
				p.results[n].Outcome = pluginapi.Accept
				p.dropped++
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
