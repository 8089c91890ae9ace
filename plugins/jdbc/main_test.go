package jdbc

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
	"github.com/sluicehq/sluice/test/mariadbtest"
	"github.com/sluicehq/sluice/test/postgrestest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.Stop()
	mariadbtest.Stop()
	os.Exit(code)
}

// peer is a database that a test writes to through the sink and reads through another client.
type peer struct {
	name  string
	dsn   string
	exec  func(t testing.TB, statements ...string)
	query func(t testing.TB, query string) []string
}

const (
	postgresPeer = "postgres"
	mariadbPeer  = "mariadb"
	sqlitePeer   = "sqlite"
)

func newPeer(t testing.TB, name string) *peer {
	t.Helper()
	switch name {
	case postgresPeer:
		server := postgrestest.Start(t)
		dsn := server.Database(t)
		return &peer{
			name, dsn,
			func(t testing.TB, s ...string) { postgrestest.Exec(t, dsn, s...) },
			func(t testing.TB, q string) []string { return server.Query(t, dsn, q) },
		}
	case mariadbPeer:
		server := mariadbtest.Start(t)
		dsn := server.Database(t)
		return &peer{
			name, dsn,
			func(t testing.TB, s ...string) { server.Exec(t, dsn, s...) },
			func(t testing.TB, q string) []string { return server.Query(t, dsn, q) },
		}
	default:
		path := filepath.Join(t.TempDir(), "test.db")
		p := &peer{name: name, dsn: "sqlite:" + path}
		p.exec = func(t testing.TB, statements ...string) {
			t.Helper()
			db := openFile(t, path)
			defer db.Close()
			for _, s := range statements {
				if _, err := db.ExecContext(t.Context(), s); err != nil {
					t.Fatalf("%s: %v", s, err)
				}
			}
		}
		p.query = func(t testing.TB, query string) []string { return queryFile(t, path, query) }
		p.exec(t, "PRAGMA user_version=1")
		return p
	}
}

func openFile(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func queryFile(t testing.TB, path, query string) (out []string) {
	t.Helper()
	db := openFile(t, path)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		var cells []string
		for _, v := range values {
			if !v.Valid {
				v.String = "NULL"
			}
			cells = append(cells, v.String)
		}
		out = append(out, strings.Join(cells, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// onEach runs a test on each kind of database.
func onEach(t *testing.T, test func(t *testing.T, p *peer)) {
	for _, name := range []string{postgresPeer, mariadbPeer, sqlitePeer} {
		t.Run(name, func(t *testing.T) { test(t, newPeer(t, name)) })
	}
}

type values map[string]any

// upsertBy returns the settings of an upsert into table with a key from the value.
func upsertBy(table string, fields ...string) values {
	return values{"table": table, "mode": "upsert", "pk": key("value", fields...)}
}

func key(source string, fields ...string) map[string]any {
	list := make([]any, len(fields))
	for i, f := range fields {
		list[i] = f
	}
	return map[string]any{"source": source, "fields": list}
}

// start returns a started sink.
func (p *peer) start(t testing.TB, settings values) *sink {
	t.Helper()
	return p.startLogging(t, settings, slog.New(slog.DiscardHandler))
}

func (p *peer) startLogging(t testing.TB, settings values, log *slog.Logger) *sink {
	t.Helper()
	settings["dsn"] = p.dsn
	s := new(sink)
	if err := s.Start(t.Context(), pluginapi.Config{Values: settings, Logger: log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

// put puts records and returns their results; an error fails the test.
func put(t testing.TB, s *sink, records ...pluginapi.Record) []pluginapi.Result {
	t.Helper()
	results, err := s.Put(t.Context(), records)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	if len(results) != len(records) {
		t.Fatalf("got %d results for %d records", len(results), len(records))
	}
	return results
}

// accepted fails the test unless all results accept, but for those at the given places, which must reject.
func accepted(t testing.TB, results []pluginapi.Result, rejected ...int) {
	t.Helper()
	for i, r := range results {
		want := pluginapi.Accept
		if slices.Contains(rejected, i) {
			want = pluginapi.Reject
		}
		if r.Outcome != want {
			t.Errorf("record %d: got %s (%v), want %s", i, r.Outcome, r.Err, want)
		}
	}
}

func (p *peer) want(t testing.TB, query string, rows ...string) {
	t.Helper()
	if got := p.query(t, query); !slices.Equal(got, rows) {
		t.Errorf("%s:\ngot  %q\nwant %q", query, got, rows)
	}
}

// object returns a schemaless object from pairs of names and values.
func object(pairs ...any) data.Value {
	var entries []data.Entry
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, data.Entry{Key: data.String(pairs[i].(string)), Value: value(pairs[i+1])})
	}
	return data.Map(entries)
}

func value(v any) data.Value {
	switch v := v.(type) {
	case nil:
		return data.Null()
	case data.Value:
		return v
	case string:
		return data.String(v)
	case int:
		return data.Int64(int64(v))
	case float64:
		return data.Float64(v)
	case bool:
		return data.Bool(v)
	case []byte:
		return data.Bytes(v)
	default:
		panic(fmt.Sprintf("no value for %T", v))
	}
}

func decimal(t testing.TB, text string) data.Value {
	t.Helper()
	d, err := data.ParseDecimal(text)
	if err != nil {
		t.Fatal(err)
	}
	return data.DecimalValue(d)
}

// record returns a record of the topic "orders" whose value is v.
func record(v data.Value) pluginapi.Record {
	return pluginapi.Record{Topic: "orders", Value: pluginapi.DataDatum(&data.Typed{Value: v})}
}

// of returns a record with an object from pairs of names and values.
func of(pairs ...any) pluginapi.Record { return record(object(pairs...)) }
