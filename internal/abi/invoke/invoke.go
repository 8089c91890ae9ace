// Package invoke calls the methods of a sink the way every form of the plugin
// boundary does: a panic becomes an error, a [pluginapi.Reporter] is preferred,
// and results that cannot be right are told apart from those that stand.
//
// It is called where the sink's code runs: in the worker for a builtin, in the
// plugin for a process. It starts no goroutine.
package invoke

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/sluicehq/sluice/pluginapi"
)

// Codes of the errors the boundary itself makes. They are part of the ABI.
const (
	CodePanic     = "panic"       // The sink panicked.
	CodeBadAnswer = "bad_answer"  // The sink broke the contract of Put.
	CodeCrash     = "crash"       // The sink's process ended.
	CodeTimeout   = "put_timeout" // The sink did not return in time.
)

// PanicError is a panic of a sink's method.
type PanicError struct {
	Method string // "Start", "Put", "Check" or "Stop".
	Value  any
	Stack  []byte
}

// maxPanicText bounds a panic value's text, in bytes.
const maxPanicText = 4 << 10

// Error returns the method and the panic's value.
func (e *PanicError) Error() string {
	text := fmt.Sprint(e.Value)
	if len(text) > maxPanicText {
		text = text[:maxPanicText]
	}
	return fmt.Sprintf("panic in %s: %s", e.Method, text)
}

// Unwrap returns the panic as an error of class Unknown.
func (e *PanicError) Unwrap() error {
	return pluginapi.NewError(pluginapi.Unknown, CodePanic, e.Error())
}

// guard turns a panic into *err.
func guard(method string, err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Method: method, Value: v, Stack: debug.Stack()}
	}
}

// Start calls s.Start.
func Start(ctx context.Context, s pluginapi.Sink, cfg pluginapi.Config) (err error) {
	defer guard("Start", &err)
	return s.Start(ctx, cfg)
}

// Check calls s.Check, or returns nil where s has none.
func Check(ctx context.Context, s pluginapi.Sink) (err error) {
	defer guard("Check", &err)
	c, ok := s.(pluginapi.Checker)
	if !ok {
		return nil
	}
	return c.Check(ctx)
}

// Stop calls s.Stop.
func Stop(ctx context.Context, s pluginapi.Sink) (err error) {
	defer guard("Stop", &err)
	return s.Stop(ctx)
}

// Put calls s.PutReport or s.Put. Without an error, either results holds one
// result for each record of batch, or it is nil and every record's result was
// reported. With an error results is nil, and what was reported is all that is
// known.
//
// report is called by one goroutine at a time, with runs of results that lie in
// the batch and have an outcome each, and never after Put returned.
func Put(ctx context.Context, s pluginapi.Sink, batch []pluginapi.Record, report func(first int, results []pluginapi.Result)) (results []pluginapi.Result, err error) {
	if r, ok := s.(pluginapi.Reporter); ok {
		return nil, putReport(ctx, r, batch, report)
	}
	results, err = put(ctx, s, batch)
	n := len(results)
	switch {
	case err == nil && n == len(batch):
		if missing := countMissing(results); missing > 0 {
			reportRuns(results, report)
			return nil, badAnswer("%d of %d records have no result", missing, n)
		}
		return results, nil
	case err == nil:
		return nil, badAnswer("%d results for %d records", n, len(batch))
	case n <= len(batch):
		reportRuns(results, report)
	}
	return nil, err
}

func put(ctx context.Context, s pluginapi.Sink, batch []pluginapi.Record) (results []pluginapi.Result, err error) {
	defer guard("Put", &err)
	return s.Put(ctx, batch)
}

// reportRuns reports the results that have an outcome.
func reportRuns(results []pluginapi.Result, report func(int, []pluginapi.Result)) {
	for first := 0; first < len(results); {
		if !known(results[first].Outcome) {
			first++
			continue
		}
		end := first + 1
		for end < len(results) && known(results[end].Outcome) {
			end++
		}
		report(first, results[first:end])
		first = end
	}
}

func putReport(ctx context.Context, s pluginapi.Reporter, batch []pluginapi.Record, report func(int, []pluginapi.Result)) error {
	t := tally{missing: len(batch), seen: make([]bool, len(batch)), report: report}
	err := callReport(ctx, s, batch, t.add)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	switch {
	case err != nil:
		return err
	case t.wrong != nil:
		return t.wrong
	case t.missing > 0:
		return badAnswer("%d of %d records have no result", t.missing, len(batch))
	}
	return nil
}

func callReport(ctx context.Context, s pluginapi.Reporter, batch []pluginapi.Record, report func(int, []pluginapi.Result)) (err error) {
	defer guard("Put", &err)
	return s.PutReport(ctx, batch, report)
}

// tally follows what a reporter reports, from any goroutine.
type tally struct {
	mu      sync.Mutex
	over    bool   // PutReport has returned: later reports do not count.
	seen    []bool // Records with a result.
	missing int    // Records without.
	wrong   error  // The first report that could not be.
	report  func(int, []pluginapi.Result)
}

func (t *tally) add(first int, results []pluginapi.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	if first < 0 || first > len(t.seen) || len(results) > len(t.seen)-first {
		if t.wrong == nil {
			t.wrong = badAnswer("%d results from record %d of %d", len(results), first, len(t.seen))
		}
		return
	}
	for i := range results {
		if known(results[i].Outcome) && !t.seen[first+i] {
			t.seen[first+i] = true
			t.missing--
		}
	}
	reportRuns(results, func(at int, run []pluginapi.Result) { t.report(first+at, run) })
}

func known(o pluginapi.Outcome) bool { return o >= pluginapi.Accept && o <= pluginapi.Reject }

func countMissing(results []pluginapi.Result) int {
	n := 0
	for i := range results {
		if !known(results[i].Outcome) {
			n++
		}
	}
	return n
}

func badAnswer(format string, args ...any) error {
	return pluginapi.NewError(pluginapi.Unknown, CodeBadAnswer, fmt.Sprintf(format, args...))
}
