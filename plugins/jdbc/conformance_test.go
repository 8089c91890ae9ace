package jdbc

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
	"github.com/sluicehq/sluice/pluginapi/sinktest"
	"github.com/sluicehq/sluice/test/plugintest"
)

func TestConformance(t *testing.T) {
	columns := map[string]string{
		postgresPeer: "id TEXT %s, pad TEXT",
		mariadbPeer:  "id VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin %s, pad LONGTEXT",
		sqlitePeer:   "id TEXT %s, pad TEXT",
	}
	for _, name := range []string{postgresPeer, mariadbPeer, sqlitePeer} {
		for _, mode := range []string{modeInsert, modeUpsert} {
			t.Run(name+", "+mode, func(t *testing.T) {
				p := newPeer(t, name)
				plugintest.EachForm(t, Plugin(), mode == modeUpsert, func(t *testing.T, newSink plugintest.Maker) {
					sinktest.Run(t, func(t testing.TB) sinktest.Target {
						settings := values{"dsn": p.dsn, "table": "kit", "mode": mode}
						pk := ""
						if mode == modeUpsert {
							settings["pk"], pk = key("value", "id"), "PRIMARY KEY"
						}
						p.exec(t, "DROP TABLE IF EXISTS kit", fmt.Sprintf("CREATE TABLE kit ("+columns[name]+")", pk))
						at := func(change values) func(testing.TB) sinktest.Sink {
							return func(t testing.TB) sinktest.Sink {
								all := maps.Clone(settings)
								maps.Copy(all, change)
								return newSink(t, all)
							}
						}
						target := sinktest.Target{
							New:    at(nil),
							Data:   true,
							Folds:  mode == modeUpsert,
							Stored: func(t testing.TB) []string { return p.query(t, "SELECT id FROM kit") },
							Bad: func(testing.TB) pluginapi.Record {
								return record(object("id", "bad", "nope", 1))
							},
							Misconfigured: at(values{"table": "a.b.c"}),
						}
						switch name {
						case postgresPeer:
							target.Unreachable = at(values{"dsn": "postgres://u:p@" + plugintest.ClosedAddress(t) + "/d"})
							target.FailAfter = func(t testing.TB, n int) { failAfter(t, p, n) }
							target.Repair = func(t testing.TB) { p.exec(t, "DROP TRIGGER outage ON kit", "DROP FUNCTION outage") }
							target.Bad = func(testing.TB) pluginapi.Record { return record(object("id", "bad", "pad", "\x00")) }
						case mariadbPeer:
							target.Unreachable = at(values{"dsn": "mysql://u:p@" + plugintest.ClosedAddress(t) + "/d"})
						default:
							dir := t.TempDir() // A folder is a file that cannot be opened.
							target.Unreachable = at(values{"dsn": "sqlite:" + filepath.Clean(dir)})
							target.Bad = func(testing.TB) pluginapi.Record {
								return record(object("id", data.Array(nil), "pad", object("a", data.Bool(true)), "nope", 1))
							}
						}
						return target
					})
				})
			})
		}
	}
}

// failAfter makes the table answer as a server that is shut down, once it has n more rows.
func failAfter(t testing.TB, p *peer, n int) {
	t.Helper()
	p.exec(t, fmt.Sprintf(`CREATE OR REPLACE FUNCTION outage() RETURNS trigger AS $$ BEGIN
		IF (SELECT count(*) FROM kit) >= %s THEN RAISE EXCEPTION 'shut down' USING ERRCODE = '57P01'; END IF;
		RETURN NEW; END $$ LANGUAGE plpgsql`, fmt.Sprintf("(SELECT %d)", atLeast(t, p)+n)),
		"CREATE OR REPLACE TRIGGER outage BEFORE INSERT ON kit FOR EACH ROW EXECUTE FUNCTION outage()")
}

// atLeast returns how many rows the table has.
func atLeast(t testing.TB, p *peer) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(p.query(t, "SELECT count(*) FROM kit")[0], &n); err != nil {
		t.Fatal(err)
	}
	return n
}
