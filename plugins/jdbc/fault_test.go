package jdbc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/test/mariadbtest"
	"github.com/sluicehq/sluice/test/plugintest"
	"github.com/sluicehq/sluice/test/postgrestest"
)

// cutter stands between a sink and its database. It cuts the connection when the sink sends a certain text.
type cutter struct {
	address string
	mu      sync.Mutex
	when    string // "" never cuts.
	forward bool   // Pass the text on to the database before cutting, and wait for its answer.
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{address: l.Addr().String()}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.serve(ctx, client, target) })
		}
	})
	return c
}

func (c *cutter) set(when string, forward bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.when, c.forward = when, forward
}

func (c *cutter) serve(ctx context.Context, client net.Conn, target string) {
	defer client.Close()
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { _ = client.Close(); _ = server.Close() })
	defer stop()
	var cut sync.Once
	answered, deaf := make(chan struct{}), make(chan struct{})
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			select {
			case <-deaf: // The answer is swallowed.
				cut.Do(func() { close(answered) })
			default:
				_, _ = client.Write(buf[:n])
			}
			if err != nil {
				_ = client.Close()
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		c.mu.Lock()
		hit := c.when != "" && bytes.Contains(buf[:n], []byte(c.when))
		if hit {
			c.when = ""
		}
		forward := c.forward
		c.mu.Unlock()
		if hit {
			if forward {
				close(deaf)
				_, _ = server.Write(buf[:n])
				<-answered
			}
			return
		}
		if _, werr := server.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// through returns the address of p's database by way of c.
func (c *cutter) through(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = c.address
	return u.String()
}

func hostOf(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// TestConnectionLost: before the commit was sent nothing is stored and the sink tries again by itself; afterwards nobody
// knows.
func TestConnectionLost(t *testing.T) {
	for _, name := range []string{postgresPeer, mariadbPeer} {
		for _, tc := range []struct {
			name    string
			when    string
			forward bool
			unknown bool
			rows    string
		}{
			{"in begin", "BEGIN", false, false, "1"},
			{"in the statement", "INSERT", false, false, "1"},
			{"after the statement", "INSERT", true, false, "1"},
			{"in the commit", "COMMIT", false, true, "0"},
			{"after the commit", "COMMIT", true, true, "1"},
		} {
			t.Run(name+", "+tc.name, func(t *testing.T) {
				p := newPeer(t, name)
				if name == mariadbPeer && tc.when == "BEGIN" {
					tc.when = "START TRANSACTION"
				}
				p.exec(t, "CREATE TABLE lost (id INT)")
				c := newCutter(t, hostOf(t, p.dsn))
				direct := p.dsn
				p.dsn = c.through(t, p.dsn)
				if name == postgresPeer {
					p.dsn += "?sslmode=disable"
				}
				s := p.start(t, values{"table": "lost"})
				p.dsn = direct
				put(t, s) // Nothing.
				if err := s.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.set(tc.when, tc.forward)
				results, err := s.Put(t.Context(), []pluginapi.Record{of("id", 1)})
				if e := pluginapi.AsError(err, 0); tc.unknown {
					if e == nil || e.Class != pluginapi.Unknown || results[0].Outcome != 0 {
						t.Errorf("got %v, %+v; want a record without a result and an error of class unknown", results, e)
					}
				} else if err != nil || results[0].Outcome != pluginapi.Accept {
					t.Errorf("got %v, %v; want accept at the second try", results, err)
				}
				p.want(t, "SELECT count(*) FROM lost", tc.rows)
				accepted(t, put(t, s, of("id", 2)))
			})
		}
	}
}

func TestUnreachableAndRefused(t *testing.T) {
	postgres := func(t *testing.T) string { return newPeer(t, postgresPeer).dsn }
	mariadb := func(t *testing.T) string { return newPeer(t, mariadbPeer).dsn }
	for _, tc := range []struct {
		name string
		dsn  func(t *testing.T) string
		want pluginapi.Class
		code string
	}{
		{"postgres, closed port", func(t *testing.T) string { return "postgres://u:hush-x@" + plugintest.ClosedAddress(t) + "/d" }, pluginapi.Unavailable, "connect"},
		{"mysql, closed port", func(t *testing.T) string { return "mysql://u:hush-x@" + plugintest.ClosedAddress(t) + "/d" }, pluginapi.Unavailable, "connect"},
		{"postgres, wrong password", func(t *testing.T) string { return strings.Replace(postgres(t), postgrestest.Password, "hush-wrong", 1) }, pluginapi.Unavailable, "28P01"},
		{"mysql, wrong password", func(t *testing.T) string { return strings.Replace(mariadb(t), mariadbtest.Password, "hush-wrong", 1) }, pluginapi.Unavailable, "28000/1045"},
		{"postgres, no database", func(t *testing.T) string { return postgres(t) + "nowhere" }, pluginapi.Fatal, "3D000"},
		{"mysql, no database", func(t *testing.T) string { return mariadb(t) + "nowhere" }, pluginapi.Fatal, "42000/1049"},
		{"sqlite, no file", func(t *testing.T) string { return "sqlite:" + t.TempDir() + "/none.db" }, pluginapi.Fatal, "no_database"},
		{"sqlite, a folder", func(t *testing.T) string { return "sqlite:" + t.TempDir() }, pluginapi.Unavailable, "14"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &peer{dsn: tc.dsn(t)}
			s := p.start(t, values{"table": "t"})
			results, err := s.Put(t.Context(), []pluginapi.Record{of("id", 1), of("id", 2)})
			got := results[1].Err
			if tc.want == pluginapi.Fatal {
				got = pluginapi.AsError(err, 0)
			} else if results[0].Outcome != pluginapi.Retry || err != nil {
				t.Errorf("got %v, %v; want retry", results, err)
			}
			for _, e := range []*pluginapi.Error{got, pluginapi.AsError(s.Check(t.Context()), 0)} {
				if e == nil || e.Class != tc.want || e.Code != tc.code {
					t.Errorf("got %+v, want class %s and code %s", e, tc.want, tc.code)
				} else if strings.Contains(e.Message, "hush") {
					t.Errorf("the message holds the password: %s", e.Message)
				}
			}
		})
	}
}

func TestFatalErrors(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE nokey (id INT, other INT)")
		for _, tc := range []struct {
			name     string
			settings values
		}{
			{"no table", values{"table": "missing"}},
			{"no unique index", upsertBy("nokey", "id")},
			{"no column of the key", upsertBy("nokey", "nope")},
		} {
			s := p.start(t, tc.settings)
			results, err := s.Put(t.Context(), []pluginapi.Record{of("id", 1)})
			if e := pluginapi.AsError(err, 0); e == nil || e.Class != pluginapi.Fatal || results[0].Outcome != 0 {
				t.Errorf("%s: got %v, %v; want a fatal error and no result", tc.name, results, err)
			}
		}
	})
	t.Run("no rights", func(t *testing.T) {
		p := newPeer(t, postgresPeer)
		p.exec(t, "CREATE TABLE guarded (id INT)", "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'hush-reader'", "GRANT SELECT ON guarded TO reader")
		admin := p.dsn
		p.dsn = strings.Replace(admin, "postgres:"+postgrestest.Password, "reader:hush-reader", 1)
		s := p.start(t, values{"table": "guarded"})
		_, err := s.Put(t.Context(), []pluginapi.Record{of("id", 1)})
		if e := pluginapi.AsError(err, 0); e == nil || e.Class != pluginapi.Fatal || e.Code != "42501" {
			t.Errorf("got %+v, want a fatal error with code 42501", e)
		}
	})
	t.Run("no transactions", func(t *testing.T) {
		p := newPeer(t, mariadbPeer)
		p.exec(t, "CREATE TABLE old (id INT) ENGINE=MyISAM")
		_, err := p.start(t, values{"table": "old"}).Put(t.Context(), []pluginapi.Record{of("id", 1)})
		if e := pluginapi.AsError(err, 0); e == nil || e.Class != pluginapi.Fatal || e.Code != "no_transactions" {
			t.Errorf("got %+v, want a fatal error: MyISAM", e)
		}
	})
}

// TestDeferredConstraint: the commit itself says that some row is at fault, not which.
func TestDeferredConstraint(t *testing.T) {
	for _, name := range []string{postgresPeer, sqlitePeer} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, name)
			p.exec(t, "CREATE TABLE parents (id INT PRIMARY KEY)", "INSERT INTO parents VALUES (1)",
				"CREATE TABLE children (id INT PRIMARY KEY, parent INT REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)")
			s := p.start(t, values{"table": "children"})
			var batch []pluginapi.Record
			for i := range 10 {
				parent := 1
				if i == 3 || i == 8 {
					parent = 2
				}
				batch = append(batch, of("id", i, "parent", parent))
			}
			accepted(t, put(t, s, batch...), 3, 8)
			p.want(t, "SELECT count(*) FROM children", "8")
		})
	}
}

// TestOtherUniqueIndex: a row that meets another one in an index beside the key's must not overwrite it.
func TestOtherUniqueIndex(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE users (id INT PRIMARY KEY, email VARCHAR(50) UNIQUE, n INT)")
		s := p.start(t, upsertBy("users", "id"))
		accepted(t, put(t, s, of("id", 1, "email", "a", "n", 1), of("id", 2, "email", "b", "n", 1)))
		accepted(t, put(t, s, of("id", 3, "email", "c", "n", 1), of("id", 2, "email", "a", "n", 2), of("id", 4, "email", "b", "n", 2), of("id", 1, "email", "a", "n", 3)), 1, 2)
		p.want(t, "SELECT id, email, n FROM users ORDER BY id", "1|a|3", "2|b|1", "3|c|1")
	})
}

// TestDeadlock: two writers that lock the same rows in opposite order both get through.
func TestDeadlock(t *testing.T) {
	p := newPeer(t, postgresPeer)
	p.exec(t, "CREATE TABLE hot (id TEXT PRIMARY KEY, n INT)", "INSERT INTO hot VALUES ('a', 0), ('b', 0)")
	other, err := pgx.Connect(t.Context(), p.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.WithoutCancel(t.Context()))
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE hot SET n = 1 WHERE id = 'a'"); err != nil {
		t.Fatal(err)
	}
	s := p.start(t, upsertBy("hot", "id"))
	done := make(chan []pluginapi.Result)
	go func() {
		results, err := s.Put(t.Context(), []pluginapi.Record{of("id", "b", "n", 2), of("id", "a", "n", 2)})
		if err != nil {
			t.Errorf("put: %v", err)
		}
		done <- results
	}()
	// It holds b and waits for a as soon as the server says that somebody waits.
	for {
		if rows := p.query(t, "SELECT count(*) FROM pg_locks WHERE NOT granted"); rows[0] != "0" {
			break
		}
	}
	_, err = tx.Exec(t.Context(), "UPDATE hot SET n = 1 WHERE id = 'b'")
	if err != nil {
		_ = tx.Rollback(t.Context()) // This side was chosen to fail.
	} else if err := tx.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	accepted(t, <-done)
	p.want(t, "SELECT id, n FROM hot ORDER BY id", "a|2", "b|2")
}

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		change values
		want   string
	}{
		{values{"dsn": "hush"}, "want postgres://"},
		{values{"dsn": "oracle://u:hush@h/d"}, "not known"},
		{values{"dsn": "postgres://u:hush%zz@h:port/d"}, "percent-encoded"},
		{values{"dsn": "postgres://u:hush@h:99999999/d"}, "percent-encoded"},
		{values{"dsn": "mysql://u:hu%sh@h/d"}, "percent-encoded"},
		{values{"dsn": "mysql://u:hush@h"}, "no database"},
		{values{"dsn": "mysql://u:hush@h/d?allowAllFiles=true"}, "allowAllFiles"},
		{values{"dsn": "mysql://u:hush@h/d?tls=maybe"}, "tls"},
		{values{"dsn": "sqlite:"}, "path"},
		{values{"dsn": "sqlite:a.db?mode=memory"}, "question mark"},
		{values{"table": "{nope}"}, "{nope}"},
		{values{"table": "a.b.c"}, "schema.name"},
		{values{"table": ".b"}, "schema.name"},
		{values{"mode": "upsert"}, "needs pk"},
		{values{"version": "v"}, "upsert"},
		{values{"mode": "upsert", "pk": key("value", "a", "a")}, "twice"},
		{values{"mode": "upsert", "pk": key("value", "v"), "version": "v"}, "part of the key"},
		{values{"pk": key("kafka", "a")}, "three fields"},
	} {
		settings := values{"dsn": "sqlite:a.db", "table": "t"}
		for name, v := range tc.change {
			settings[name] = v
		}
		err := new(sink).Start(t.Context(), pluginapi.Config{Values: settings})
		e := pluginapi.AsError(err, 0)
		if e == nil || e.Class != pluginapi.Invalid || !strings.Contains(e.Message, tc.want) || strings.Contains(e.Message, "hush") {
			t.Errorf("%v: got %v, want an invalid error with %q and without the password", tc.change, err, tc.want)
		}
	}
	p := Plugin()
	d := p.Describe()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}

// TestNoSecretInLog puts a batch that fails in every way there is and looks at what was logged.
func TestNoSecretInLog(t *testing.T) {
	p := newPeer(t, postgresPeer)
	p.exec(t, "CREATE TABLE people (id INT PRIMARY KEY)")
	var log bytes.Buffer
	s := p.startLogging(t, values{"table": "people"}, slog.New(slog.NewTextHandler(io.Writer(&log), nil)))
	results := put(t, s, of("id", "x"), of("id", 1), of("id", 1), of("nope", 1))
	accepted(t, results, 0, 2, 3)
	for _, r := range results {
		if r.Err != nil && strings.Contains(r.Err.Message, postgrestest.Password) {
			t.Errorf("a message holds the password: %s", r.Err.Message)
		}
	}
	if strings.Contains(log.String(), postgrestest.Password) {
		t.Errorf("the log holds the password:\n%s", log.String())
	}
}
