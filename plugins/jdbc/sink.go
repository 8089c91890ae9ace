package jdbc

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// sink writes batches into tables. It is used by one goroutine, as the contract says, and keeps only what it knows of tables
// between puts.
type sink struct {
	settings settings
	db       database
	log      *slog.Logger
	tables   map[tableName]*table
}

var (
	_ pluginapi.Sink    = (*sink)(nil)
	_ pluginapi.Checker = (*sink)(nil)
)

// maxTables bounds the tables that are remembered; a template makes as many as records name.
const maxTables = 1000

// Start reads the settings. It connects at the first put or check.
func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	settings, err := readSettings(cfg)
	if err != nil {
		return err
	}
	s.settings = settings
	s.log = cfg.Logger
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.tables = make(map[tableName]*table)
	s.db, err = open(cfg.String("dsn"), &s.settings)
	return err
}

// Check connects, asks the server for a sign of life and, where the table does not depend on the record, looks for it.
func (s *sink) Check(ctx context.Context) error {
	if s.db == nil {
		return pluginapi.NewError(pluginapi.Fatal, "not_started", "the sink is not started")
	}
	if f := s.db.connect(ctx, false); f != nil {
		return f.err
	}
	ctx, cancel := context.WithTimeout(ctx, s.settings.timeout)
	defer cancel()
	if f := s.db.ping(ctx); f != nil {
		s.db.close()
		return f.err
	}
	if !s.settings.table.fixed {
		return nil
	}
	if _, f := s.read(ctx, s.settings.table.constant); f != nil {
		return f.err
	}
	return nil
}

// Stop closes the connection.
func (s *sink) Stop(context.Context) error {
	if s.db != nil {
		s.db.close()
	}
	return nil
}

// Put writes the batch, each table in a transaction of its own.
func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results := make([]pluginapi.Result, len(batch))
	if len(batch) == 0 {
		return results, nil
	}
	if s.db == nil {
		return results, pluginapi.NewError(pluginapi.Fatal, "not_started", "the sink is not started")
	}
	groups, order := s.group(batch, results)
	var worst *pluginapi.Error
	for n, name := range order {
		f := s.putTable(ctx, name, batch, groups[name], results)
		if f == nil {
			continue
		}
		if worst == nil || f.err.Class == pluginapi.Fatal {
			worst = f.err
		}
		if f.kind == faultTarget || f.kind == faultTimeout {
			// The other tables are in the same database.
			for _, rest := range order[n:] {
				for _, i := range groups[rest] {
					if results[i].Outcome == 0 {
						results[i] = pluginapi.Retried(f.err)
					}
				}
			}
			return results, nil
		}
	}
	if worst != nil {
		return results, worst
	}
	return results, nil
}

// group sorts the records by table and rejects those that have no row at all.
func (s *sink) group(batch []pluginapi.Record, results []pluginapi.Result) (groups map[tableName][]int, order []tableName) {
	groups = make(map[tableName][]int, 1)
	for i := range batch {
		r := &batch[i]
		if problem := rowless(r); problem != "" {
			results[i] = pluginapi.Rejected(codeValue, problem)
			continue
		}
		name, err := s.settings.table.of(r)
		if err != nil {
			results[i] = pluginapi.Rejected(codeTable, fmt.Sprintf("table: %v", err))
			continue
		}
		if _, ok := groups[name]; !ok {
			order = append(order, name)
		}
		groups[name] = append(groups[name], i)
	}
	return groups, order
}

// rowless says why a record's value makes no row, "" if it does.
func rowless(r *pluginapi.Record) string {
	typed, ok := r.Value.Data()
	switch {
	case r.Value.IsAbsent():
		return "the record has no value (a tombstone); this version deletes no rows"
	case !ok:
		return `the value is bytes; set a converter that makes an object of it, such as "json"`
	case typed.Value.Kind() != data.KindStruct && typed.Value.Kind() != data.KindMap:
		return fmt.Sprintf("the value is of type %s; a row needs an object with a field for each column", typed.Value.Kind())
	default:
		return ""
	}
}

// putTable writes the records of one table, whose places in the batch are indexes.
func (s *sink) putTable(ctx context.Context, name tableName, batch []pluginapi.Record, indexes []int, results []pluginapi.Result) *fault {
	for again := false; ; again = true {
		t, fresh := s.tables[name], again
		if t == nil {
			var f *fault
			if t, f = s.table(ctx, name); f != nil {
				return unread(f, indexes, results)
			}
			fresh = true
		}
		rows, unknown := s.rows(t, batch, indexes, results)
		if !unknown || fresh {
			w := writer{db: s.db, settings: &s.settings, table: t}
			if f := w.write(ctx, rows, results); f == nil || f.kind != faultStale || fresh {
				return f
			}
		}
		// The table may have changed since it was read. Once a put is enough: what does not fit then never will.
		delete(s.tables, name)
		s.log.Info("table is read again", "table", name.String())
		var left []int
		for _, i := range indexes {
			if results[i].Outcome != pluginapi.Accept {
				results[i] = pluginapi.Result{}
				left = append(left, i)
			}
		}
		indexes = left
	}
}

// unread answers for records whose table cannot be read.
func unread(f *fault, indexes []int, results []pluginapi.Result) *fault {
	if f.kind == faultFatal || f.kind == faultStale || f.kind == faultTarget || f.kind == faultTimeout {
		return f
	}
	for _, i := range indexes {
		results[i] = pluginapi.Retried(f.err)
	}
	return nil
}

// rows makes the rows of one table and rejects records that have none. unknown is set if a field has no column.
func (s *sink) rows(t *table, batch []pluginapi.Record, indexes []int, results []pluginapi.Result) (rows []*row, unknown bool) {
	b := newRowBuilder(s.db, &s.settings, t)
	rows = make([]*row, 0, len(indexes))
	for _, i := range indexes {
		r, field, err := b.build(i, &batch[i])
		if err != nil {
			unknown = unknown || field
			results[i] = pluginapi.Result{Outcome: pluginapi.Reject, Err: err}
			continue
		}
		rows = append(rows, r)
	}
	return rows, unknown
}

// table reads a table and remembers it, trying once more on a connection that turns out to be dead.
func (s *sink) table(ctx context.Context, name tableName) (*table, *fault) {
	var f *fault
	for range 2 {
		if f = s.db.connect(ctx, true); f != nil {
			return nil, f
		}
		read, cancel := context.WithTimeout(ctx, s.settings.timeout)
		var t *table
		t, f = s.read(read, name)
		cancel()
		if f == nil {
			if len(s.tables) >= maxTables {
				clear(s.tables)
			}
			s.tables[name] = t
			return t, nil
		}
		if f.kind != faultLost {
			break
		}
	}
	return nil, f
}

// read reads a table and checks that the settings fit it.
func (s *sink) read(ctx context.Context, name tableName) (*table, *fault) {
	t, f := s.db.read(ctx, name)
	if f != nil {
		return nil, f
	}
	if t == nil {
		return nil, newFault(faultFatal, "no_table", fmt.Sprintf("table %q does not exist; create it, tables are not made by this version", name))
	}
	if missing := t.bind(&s.settings); missing != "" {
		return nil, newFault(faultFatal, "no_column", fmt.Sprintf("table %q has no column %q, which pk or version names", name, missing))
	}
	return t, nil
}
