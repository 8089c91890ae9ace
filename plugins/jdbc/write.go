package jdbc

import (
	"context"
	"strings"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

const (
	// attempts bounds the tries of a transaction that was rolled back for reasons that pass at once.
	attempts = 3
	// maxStatementBytes is about the most bytes of parameters in one statement.
	maxStatementBytes = 4 << 20
	// rollbackTimeout bounds a rollback, which is also done when the put's time is over.
	rollbackTimeout = 5 * time.Second
)

// writer writes the rows of one table in transactions.
type writer struct {
	db       database
	settings *settings
	table    *table
	rejected []*verdict // Of the transaction that is open.
}

// verdict is what is decided of one row, once its transaction is committed.
type verdict struct {
	row *row
	err *pluginapi.Error
	odd bool // Nobody foresaw the error: retried, not rejected.
}

// write stores rows, in the order of their delivery, and sets the result of each. A fault says why the rows without a result
// have none. A fault of kind faultStale means that the table changed; nothing was written.
func (w *writer) write(ctx context.Context, rows []*row, results []pluginapi.Result) *fault {
	if len(rows) == 0 {
		return nil
	}
	var f *fault
	for range attempts {
		var unknown bool
		f, unknown = w.transact(ctx, rows)
		switch {
		case f == nil:
			w.settle(rows, results)
			return nil
		case unknown:
			f.kind, f.err.Class = faultUnknown, pluginapi.Unknown
			return f
		case f.isolates():
			// The commit found a row at fault (a deferred constraint) and does not say which.
			return w.halve(ctx, f, rows, results)
		case !f.again() || ctx.Err() != nil:
			return retryAll(f, rows, results)
		}
	}
	return retryAll(f, rows, results)
}

func (w *writer) halve(ctx context.Context, f *fault, rows []*row, results []pluginapi.Result) *fault {
	if len(rows) == 1 {
		results[rows[0].index] = f.result()
		return nil
	}
	half := len(rows) / 2
	first := w.write(ctx, rows[:half], results)
	if second := w.write(ctx, rows[half:], results); first == nil {
		return second
	}
	return first
}

// result returns the result of a row that f is about.
func (f *fault) result() pluginapi.Result {
	if f.kind == faultData {
		return pluginapi.Result{Outcome: pluginapi.Reject, Err: f.err}
	}
	return pluginapi.Retried(f.err)
}

// retryAll asks for rows to be put again. A fatal or stale fault is returned instead, and one of the whole database too.
func retryAll(f *fault, rows []*row, results []pluginapi.Result) *fault {
	if f.kind == faultFatal || f.kind == faultStale {
		return f
	}
	for _, r := range rows {
		results[r.index] = pluginapi.Retried(f.err)
	}
	if f.kind == faultTarget || f.kind == faultTimeout {
		return f
	}
	return nil
}

// settle turns the verdicts of a committed transaction into results: what was not rejected is stored.
func (w *writer) settle(rows []*row, results []pluginapi.Result) {
	for _, r := range rows {
		results[r.index] = pluginapi.Result{Outcome: pluginapi.Accept}
	}
	for _, v := range w.rejected {
		f := fault{kind: faultData, err: v.err}
		if v.odd {
			f.kind = faultOdd
		}
		results[v.row.index] = f.result()
	}
}

// transact writes rows in one transaction. unknown is set where it may have been committed.
func (w *writer) transact(ctx context.Context, rows []*row) (f *fault, unknown bool) {
	w.rejected = w.rejected[:0]
	if f = w.begin(ctx); f != nil {
		return f, false
	}
	f = w.waves(ctx, rows, !w.db.savepoints())
	if f != nil && f.isolates() && w.db.savepoints() {
		// The transaction is spoilt. Most batches have no bad row, so savepoints are set only for one that has.
		w.rollback(ctx)
		w.rejected = w.rejected[:0]
		if f = w.begin(ctx); f != nil {
			return f, false
		}
		f = w.waves(ctx, rows, true)
	}
	if f != nil {
		w.rollback(ctx)
		return f, false
	}
	commit, cancel := context.WithTimeout(ctx, w.settings.timeout)
	defer cancel()
	if f, unknown = w.db.commit(commit); f != nil && !unknown {
		w.rollback(ctx)
	}
	return f, unknown
}

func (w *writer) begin(ctx context.Context) *fault {
	if f := w.db.connect(ctx, true); f != nil {
		return f
	}
	return w.exec(ctx, w.db.begin(), nil)
}

// rollback ends the transaction; a connection that cannot is dropped.
func (w *writer) rollback(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if f := w.db.exec(ctx, "ROLLBACK", nil); f != nil {
		w.db.close()
	}
}

func (w *writer) exec(ctx context.Context, statement string, params []any) *fault {
	ctx, cancel := context.WithTimeout(ctx, w.settings.timeout)
	defer cancel()
	return w.db.exec(ctx, statement, params)
}

// waves writes rows wave by wave. Without isolate the first fault ends it; with it rows at fault are looked for.
func (w *writer) waves(ctx context.Context, rows []*row, isolate bool) *fault {
	for _, wave := range fold(w.settings.upsert, rows) {
		for _, chunk := range w.chunks(wave) {
			var f *fault
			if isolate {
				_, f = w.isolate(ctx, chunk, false)
			} else {
				f = w.insert(ctx, chunk)
			}
			if f != nil {
				return f
			}
		}
	}
	return nil
}

// chunks cuts rows into those of one statement: of one shape, not too many, not too large.
func (w *writer) chunks(rows []*row) [][]*row {
	var out [][]*row
	open := make(map[*shape]int) // Place of the shape's last chunk.
	size := make(map[*shape]int)
	ordered := w.settings.upsert && !exact(rows)
	for _, r := range rows {
		limit := min(w.settings.maxRows, w.db.maxParams()/len(r.shape.columns))
		at, ok := open[r.shape]
		if !ok || len(out[at]) >= limit || size[r.shape]+r.bytes > maxStatementBytes || (ordered && at != len(out)-1) {
			at = len(out)
			out = append(out, nil)
			open[r.shape], size[r.shape] = at, 0
		}
		out[at] = append(out[at], r)
		size[r.shape] += r.bytes
	}
	return out
}

func (w *writer) insert(ctx context.Context, rows []*row) *fault {
	sh := rows[0].shape
	params := make([]any, 0, len(rows)*len(sh.columns))
	for _, r := range rows {
		params = append(params, r.params...)
	}
	return w.exec(ctx, statement(w.db, sh, len(rows)), params)
}

// isolate writes rows of one shape and finds those at fault by halving. With bad it is known that one of them is. clean says
// that none was. The transaction stays usable unless a fault is returned.
func (w *writer) isolate(ctx context.Context, rows []*row, bad bool) (clean bool, f *fault) {
	if !bad || len(rows) == 1 {
		if f = w.insertSaved(ctx, rows); f == nil {
			return true, nil
		}
		if !f.isolates() {
			return false, f
		}
		if len(rows) == 1 {
			return false, w.reject(ctx, rows[0], f)
		}
	}
	half := len(rows) / 2
	clean, f = w.isolate(ctx, rows[:half], false)
	if f != nil {
		return false, f
	}
	// If the first half is clean the second is not, and need not be tried as a whole.
	_, f = w.isolate(ctx, rows[half:], clean)
	return false, f
}

// insertSaved is insert with the transaction as it was if it fails for a row's fault.
func (w *writer) insertSaved(ctx context.Context, rows []*row) *fault {
	if !w.db.savepoints() {
		return w.insert(ctx, rows)
	}
	if f := w.exec(ctx, "SAVEPOINT sluice", nil); f != nil {
		return f
	}
	f := w.insert(ctx, rows)
	end := "RELEASE SAVEPOINT sluice"
	if f != nil {
		if !f.isolates() {
			return f
		}
		end = "ROLLBACK TO SAVEPOINT sluice"
	}
	if g := w.exec(ctx, end, nil); g != nil {
		return g
	}
	return f
}

// reject notes that r is at fault, and writes what was folded under it.
func (w *writer) reject(ctx context.Context, r *row, f *fault) *fault {
	w.rejected = append(w.rejected, &verdict{row: r, err: f.err, odd: f.kind == faultOdd})
	for _, wave := range fold(true, r.unfold()) {
		for _, chunk := range w.chunks(wave) {
			if _, f := w.isolate(ctx, chunk, false); f != nil {
				return f
			}
		}
	}
	return nil
}

// describe returns the names of what a database complains about, for the end of a message.
func describe(message string, parts ...string) string {
	var b strings.Builder
	b.WriteString(message)
	for i := 0; i+1 < len(parts); i += 2 {
		if parts[i+1] != "" && !strings.Contains(message, parts[i+1]) {
			b.WriteString(", " + parts[i] + " " + parts[i+1])
		}
	}
	return b.String()
}
