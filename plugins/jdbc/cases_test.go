package jdbc

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
	"github.com/sluicehq/sluice/test/mariadbtest"
	"github.com/sluicehq/sluice/test/postgrestest"
)

// The tests of this file are named after cases that people reported of other SQL sinks.

func TestJDBC01SameKeyTwiceInOneBatch(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE items (id BIGINT PRIMARY KEY, v VARCHAR(20))")
		s := p.start(t, upsertBy("items", "id"))
		accepted(t, put(t, s, of("id", 7, "v", "a"), of("id", 8, "v", "c"), of("id", 7, "v", "b"), of("id", 7, "v", "d")))
		p.want(t, "SELECT id, v FROM items ORDER BY id", "7|d", "8|c")
	})
}

func TestJDBC02EveryColumnIsKey(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE member_role (scope_id VARCHAR(20), role_id VARCHAR(20), PRIMARY KEY (scope_id, role_id))")
		s := p.start(t, values{"table": "member_role", "mode": "upsert", "pk": key("key", "scope_id", "role_id")})
		r := of("scope_id", "s1", "role_id", "r1")
		r.Key = r.Value
		accepted(t, put(t, s, r))
		accepted(t, put(t, s, r))
		accepted(t, put(t, s, r, r))
		p.want(t, "SELECT * FROM member_role", "s1|r1")
	})
}

func TestJDBC05NULInText(t *testing.T) {
	p := newPeer(t, postgresPeer)
	p.exec(t, "CREATE TABLE people (id INT PRIMARY KEY, name TEXT, doc JSONB)", "CREATE TABLE named (name TEXT PRIMARY KEY)")
	s := p.start(t, values{"table": "people"})
	results := put(t, s, of("id", 1, "name", "a"), of("id", 2, "name", "b"), of("id", 3, "name", "ab\x00cd"),
		of("id", 4, "doc", object("x", "no\x00")), of("id", 5, "name", "e"))
	accepted(t, results, 2, 3)
	if code := results[2].Err.Code; code != "22021" {
		t.Errorf("got code %q for a NUL in a text, want 22021", code)
	}
	if code := results[3].Err.Code; code != "22P05" {
		t.Errorf("got code %q for a NUL in JSON, want 22P05", code)
	}
	p.want(t, "SELECT id FROM people ORDER BY id", "1", "2", "5")

	k := p.start(t, upsertBy("named", "name"))
	accepted(t, put(t, k, of("name", "x\x00y"), of("name", "z")), 0)
	p.want(t, "SELECT name FROM named", "z")
}

// inZone runs the calling test once more in a process with another TZ, and reports whether this is that process.
func inZone(t *testing.T, zones ...string) bool {
	t.Helper()
	if os.Getenv("SLUICE_TEST_ZONE") != "" {
		return true
	}
	postgres, mariadb := postgrestest.Start(t).Address(), mariadbtest.Start(t).Address()
	for _, zone := range zones {
		t.Run(strings.ReplaceAll(zone, "/", "_"), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$", "-test.v")
			cmd.Env = append(os.Environ(), "TZ="+zone, "SLUICE_TEST_ZONE="+zone,
				postgrestest.AddressVariable+"="+postgres, mariadbtest.AddressVariable+"="+mariadb)
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("--- PASS")) {
				t.Errorf("TZ=%s: %v\n%s", zone, err, out)
			}
		})
	}
	return false
}

func TestJDBC07DateMovesBackADay(t *testing.T) {
	if !inZone(t, "America/New_York", "Asia/Kolkata") {
		return
	}
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE days (id INT, d DATE)")
		s := p.start(t, values{"table": "days"})
		accepted(t, put(t, s, of("id", 1, "d", data.Date(18262)), of("id", 2, "d", data.Date(0)), of("id", 3, "d", data.Date(-1))))
		p.want(t, "SELECT CAST(d AS CHAR(10)) FROM days ORDER BY id", "2020-01-01", "1970-01-01", "1969-12-31")
	})
}

func TestJDBC08TimestampDependsOnSessionZone(t *testing.T) {
	if !inZone(t, "Europe/Vienna", "UTC", "Asia/Tokyo") {
		return
	}
	moments := []time.Time{time.Unix(1718447400, 0), time.Unix(1711852200, 0)}
	t.Run(mariadbPeer, func(t *testing.T) {
		p := newPeer(t, mariadbPeer)
		p.exec(t, "CREATE TABLE moments (id INT, ts TIMESTAMP NULL, dt DATETIME)")
		s := p.start(t, values{"table": "moments"})
		for i, m := range moments {
			accepted(t, put(t, s, of("id", i, "ts", data.Timestamp(m), "dt", data.Timestamp(m))))
		}
		accepted(t, put(t, s, of("id", 2, "ts", "2024-06-15T12:30:00+02:00", "dt", "2024-06-15T10:30:00Z")))
		p.want(t, "SELECT UNIX_TIMESTAMP(ts), CAST(dt AS CHAR) FROM moments ORDER BY id",
			"1718447400|2024-06-15 10:30:00", "1711852200|2024-03-31 02:30:00", "1718447400|2024-06-15 10:30:00")
	})
	t.Run(postgresPeer, func(t *testing.T) {
		p := newPeer(t, postgresPeer)
		p.exec(t, "CREATE TABLE moments (id INT, ts TIMESTAMPTZ, dt TIMESTAMP)")
		s := p.start(t, values{"table": "moments"})
		for i, m := range moments {
			accepted(t, put(t, s, of("id", i, "ts", data.Timestamp(m), "dt", data.Timestamp(m))))
		}
		accepted(t, put(t, s, of("id", 2, "ts", "2024-06-15T12:30:00+02:00", "dt", "2024-06-15T12:30:00+02:00")))
		p.want(t, "SELECT extract(epoch FROM ts)::bigint, dt::text FROM moments ORDER BY id",
			"1718447400|2024-06-15 10:30:00", "1711852200|2024-03-31 02:30:00", "1718447400|2024-06-15 10:30:00")
	})
}

func TestJDBC10NumericLosesDigits(t *testing.T) {
	numbers := []string{"1.23456789012345678901", "100", "0.000000000000000001", "-0.10"}
	for _, tc := range []struct{ peer, column, query string }{
		{postgresPeer, "NUMERIC", "SELECT amount::text FROM amounts ORDER BY id"},
		{sqlitePeer, "TEXT", "SELECT amount FROM amounts ORDER BY id"},
	} {
		t.Run(tc.peer, func(t *testing.T) {
			p := newPeer(t, tc.peer)
			p.exec(t, "CREATE TABLE amounts (id INT, amount "+tc.column+")")
			s := p.start(t, values{"table": "amounts"})
			var batch []pluginapi.Record
			for i, n := range numbers {
				batch = append(batch, of("id", i, "amount", decimal(t, n)))
			}
			accepted(t, put(t, s, batch...))
			p.want(t, tc.query, numbers...)
		})
	}
	t.Run("sqlite numeric column", func(t *testing.T) {
		p := newPeer(t, sqlitePeer)
		p.exec(t, "CREATE TABLE amounts (id INT, amount DECIMAL(30,20))")
		s := p.start(t, values{"table": "amounts"})
		accepted(t, put(t, s, of("id", 1, "amount", decimal(t, "1.23456789012345678901")), of("id", 2, "amount", decimal(t, "1.25"))), 0)
		p.want(t, "SELECT amount FROM amounts", "1.25")
	})
	t.Run("mariadb", func(t *testing.T) {
		p := newPeer(t, mariadbPeer)
		p.exec(t, "CREATE TABLE amounts (id INT, amount DECIMAL(30,20))")
		s := p.start(t, values{"table": "amounts"})
		accepted(t, put(t, s, of("id", 1, "amount", decimal(t, "1.23456789012345678901")), of("id", 2, "amount", decimal(t, "12e2"))))
		p.want(t, "SELECT amount FROM amounts ORDER BY id", "1.23456789012345678901", "1200.00000000000000000000")
	})
}

func TestJDBC11ExplicitNullBecomesDefault(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE notes (id INT, note VARCHAR(20) DEFAULT 'default', amount DECIMAL(5,1) DEFAULT 1.0)")
		schema := data.NewStruct("note",
			data.Field{Name: "id", Schema: &data.Schema{Kind: data.KindInt32}},
			data.Field{Name: "note", Schema: &data.Schema{Kind: data.KindString, Optional: true, Default: data.String("")}},
			data.Field{Name: "amount", Schema: &data.Schema{Kind: data.KindDecimal, Optional: true, Default: decimal(t, "1.0")}})
		typed := func(fields ...data.Value) pluginapi.Record {
			return pluginapi.Record{Value: pluginapi.DataDatum(&data.Typed{Schema: schema, Value: data.StructValue(schema, fields)})}
		}
		s := p.start(t, values{"table": "notes"})
		accepted(t, put(t, s,
			typed(data.Int32(1), data.Null(), data.Null()),
			typed(data.Int32(2), data.String(""), decimal(t, "2.5")),
			typed(data.Int32(3), data.Value{}, data.Value{})))
		p.want(t, "SELECT id, note, amount FROM notes ORDER BY id", "1|NULL|NULL", "2||2.5", "3|default|"+map[string]string{sqlitePeer: "1"}[p.name]+map[string]string{postgresPeer: "1.0", mariadbPeer: "1.0"}[p.name])
	})
}

func TestJDBC13BinaryColumn(t *testing.T) {
	types := map[string]string{postgresPeer: "BYTEA", mariadbPeer: "VARBINARY(20)", sqlitePeer: "BLOB"}
	hex := map[string]string{postgresPeer: "encode(body, 'hex')", mariadbPeer: "lower(hex(body))", sqlitePeer: "lower(hex(body))"}
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE blobs (id INT, body "+types[p.name]+")")
		s := p.start(t, values{"table": "blobs"})
		body, empty := []byte{0x00, 0xff, 0x10}, []byte{}
		accepted(t, put(t, s, of("id", 1, "body", body)))
		accepted(t, put(t, s, of("id", 2, "body", body), of("id", 3, "body", empty)))
		accepted(t, put(t, s, of("id", 4, "body", empty)))
		p.want(t, "SELECT length(body), "+hex[p.name]+" FROM blobs ORDER BY id", "3|00ff10", "3|00ff10", "0|", "0|")
	})
}

func TestJDBC14UnsignedAboveInt64(t *testing.T) {
	p := newPeer(t, mariadbPeer)
	p.exec(t, "CREATE TABLE counters (id INT, n BIGINT UNSIGNED)")
	s := p.start(t, values{"table": "counters"})
	accepted(t, put(t, s,
		of("id", 1, "n", data.Uint64(18446744073709551615)),
		of("id", 2, "n", decimal(t, "18446744073709551615")),
		of("id", 3, "n", decimal(t, "9223372036854775808")),
		of("id", 4, "n", -1)), 3)
	p.want(t, "SELECT CAST(n AS CHAR) FROM counters ORDER BY id", "18446744073709551615", "18446744073709551615", "9223372036854775808")

	t.Run("sqlite", func(t *testing.T) {
		p := newPeer(t, sqlitePeer)
		p.exec(t, "CREATE TABLE counters (id INT, n BIGINT, x TEXT)")
		s := p.start(t, values{"table": "counters"})
		big := data.Uint64(18446744073709551615)
		accepted(t, put(t, s, of("id", 1, "n", big), of("id", 2, "x", big)), 0)
		p.want(t, "SELECT x FROM counters", "18446744073709551615")
	})
}

func TestJDBC16DotsAndDashesInTopic(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		q := `"`
		if p.name == mariadbPeer {
			q = "`"
		}
		for _, name := range []string{"k_shop.eu.orders", "k_shop-eu.orders"} {
			p.exec(t, "CREATE TABLE "+q+name+q+" (id INT)")
		}
		s := p.start(t, values{"table": "k_{topic}"})
		a, b := of("id", 1), of("id", 2)
		a.Topic, b.Topic = "shop.eu.orders", "shop-eu.orders"
		accepted(t, put(t, s, a, b))
		p.want(t, "SELECT id FROM "+q+"k_shop.eu.orders"+q, "1")
		p.want(t, "SELECT id FROM "+q+"k_shop-eu.orders"+q, "2")
	})
	t.Run("schema", func(t *testing.T) {
		p := newPeer(t, postgresPeer)
		p.exec(t, "CREATE SCHEMA audit", "CREATE TABLE audit.orders (id INT)", `CREATE TABLE audit."a.b" (id INT)`)
		accepted(t, put(t, p.start(t, values{"table": "audit.orders"}), of("id", 1)))
		r := of("id", 2)
		r.Topic = "a.b"
		accepted(t, put(t, p.start(t, values{"table": "audit.{topic}"}), r))
		p.want(t, "SELECT id FROM audit.orders", "1")
		p.want(t, `SELECT id FROM audit."a.b"`, "2")
	})
	t.Run("long names do not meet", func(t *testing.T) {
		p := newPeer(t, postgresPeer)
		long := strings.Repeat("x", 63)
		p.exec(t, "CREATE TABLE "+long+" (id INT)")
		s := p.start(t, values{"table": "{topic}"})
		r := of("id", 1)
		r.Topic = long + "y"
		results, err := s.Put(t.Context(), []pluginapi.Record{r})
		if e := pluginapi.AsError(err, 0); e == nil || e.Class != pluginapi.Fatal || results[0].Outcome != 0 {
			t.Errorf("got %v, %v; want a fatal error: the table does not exist", results, err)
		}
	})
}

func TestJDBC20TableChangedWhileRunning(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE evolving (id INT PRIMARY KEY, a VARCHAR(5))")
		var log bytes.Buffer
		s := p.startLogging(t, values{"table": "evolving"}, slog.New(slog.NewTextHandler(&log, nil)))
		accepted(t, put(t, s, of("id", 1, "a", "x")))
		p.exec(t, "ALTER TABLE evolving ADD b VARCHAR(5)")
		accepted(t, put(t, s, of("id", 2, "a", "y", "b", "z")))
		if n := strings.Count(log.String(), "table is read again"); n != 1 {
			t.Errorf("got %d refreshes logged, want 1:\n%s", n, log.String())
		}
		// The other way: a column that was there is gone, which only the database knows.
		p.exec(t, "ALTER TABLE evolving DROP COLUMN a")
		accepted(t, put(t, s, of("id", 3, "a", "gone"), of("id", 4, "b", "w")), 0)
		p.want(t, "SELECT id, b FROM evolving ORDER BY id", "1|NULL", "2|z", "4|w")
	})
}

// TestJDBC20TypeChangedWhileRunning: a statement that the server has prepared knows the types of old.
func TestJDBC20TypeChangedWhileRunning(t *testing.T) {
	p := newPeer(t, postgresPeer)
	p.exec(t, "CREATE TABLE changing (id INT, v INT)")
	s := p.start(t, values{"table": "changing"})
	for range 3 {
		accepted(t, put(t, s, of("id", 1, "v", 1), of("id", 2, "v", "2")))
	}
	p.exec(t, "ALTER TABLE changing ALTER COLUMN v TYPE TEXT")
	for range 3 {
		accepted(t, put(t, s, of("id", 3, "v", "x"), of("id", 4, "v", "y")))
		accepted(t, put(t, s, of("id", 5, "v", "z")))
	}
	p.want(t, "SELECT v, count(*) FROM changing GROUP BY v ORDER BY v", "1|3", "2|3", "x|3", "y|3", "z|3")
}

// TestPoolerLosesStatements: behind a pooler the server may not know what was prepared on another of its connections.
func TestPoolerLosesStatements(t *testing.T) {
	p := newPeer(t, postgresPeer)
	p.exec(t, "CREATE TABLE pooled (id INT)")
	s := p.start(t, values{"table": "pooled"})
	for range 3 {
		accepted(t, put(t, s, of("id", 1)))
	}
	db := s.db.(*postgres)
	if f := db.exec(t.Context(), "DEALLOCATE ALL", nil); f != nil {
		t.Fatal(f.err)
	}
	for range 3 {
		accepted(t, put(t, s, of("id", 1)))
	}
	if !db.plain {
		t.Error("statements are prepared again")
	}
	p.want(t, "SELECT count(*) FROM pooled", "6")
}

func TestJDBC22BadTopicMakesGoodTopicInsertTwice(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE good (id INT PRIMARY KEY)", "CREATE TABLE bad (id INT PRIMARY KEY, v VARCHAR(5) NOT NULL)")
		s := p.start(t, values{"table": "{topic}"})
		var batch []pluginapi.Record
		for i := range 10 {
			r := of("id", i)
			r.Topic = "good"
			batch = append(batch, r)
		}
		r := of("id", 1, "v", nil)
		r.Topic = "bad"
		batch = append(batch[:5:5], append([]pluginapi.Record{r}, batch[5:]...)...)
		accepted(t, put(t, s, batch...), 5)
		p.want(t, "SELECT count(*) FROM good", "10")
		p.want(t, "SELECT count(*) FROM bad", "0")
	})
}

func TestJDBC23DataErrorIsNotRetried(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE short (id INT PRIMARY KEY, v VARCHAR(5) CHECK (length(v) <= 5))")
		s := p.start(t, values{"table": "short"})
		for _, bad := range []int{0, 5, 9} {
			var batch []pluginapi.Record
			for i := range 10 {
				v := "ok"
				if i == bad {
					v = "toolongvalue"
				}
				batch = append(batch, of("id", bad*100+i, "v", v))
			}
			results := put(t, s, batch...)
			accepted(t, results, bad)
			want := map[string]string{postgresPeer: "22001", mariadbPeer: "22001/1406", sqlitePeer: "275"}[p.name]
			if got := results[bad].Err; got.Code != want {
				t.Errorf("got %q (%s), want code %q", got.Code, got.Message, want)
			}
		}
		p.want(t, "SELECT count(*) FROM short", "27")
	})
}

func TestJDBC26SQLiteBusyOnLockUpgrade(t *testing.T) {
	p := newPeer(t, sqlitePeer)
	p.exec(t, "CREATE TABLE busy (id TEXT PRIMARY KEY, n INT)")
	const writers, batches, size = 4, 25, 20
	var wg sync.WaitGroup
	for w := range writers {
		s := p.start(t, upsertBy("busy", "id"))
		wg.Go(func() {
			for b := range batches {
				var batch []pluginapi.Record
				for i := range size {
					batch = append(batch, of("id", fmt.Sprintf("%d-%d-%d", w, b, i), "n", i))
				}
				results, err := s.Put(t.Context(), batch)
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				accepted(t, results)
			}
		})
	}
	wg.Wait()
	p.want(t, "SELECT count(*) FROM busy", fmt.Sprint(writers*batches*size))
}

func TestJDBC28NestedStruct(t *testing.T) {
	types := map[string]string{postgresPeer: "JSONB", mariadbPeer: "JSON", sqlitePeer: "JSON"}
	city := map[string]string{postgresPeer: "addr->>'city'", mariadbPeer: "JSON_VALUE(addr, '$.city')", sqlitePeer: "addr->>'city'"}
	nested := object("id", 1, "addr", object("city", "Ulm", "geo", object("lat", 48.4)), "tags", data.Array([]data.Value{data.String("a"), data.String("b")}))
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE typed (id INT, addr "+types[p.name]+", tags TEXT)", "CREATE TABLE plain (id INT, tags TEXT)", "CREATE TABLE number (id INT, addr INT, tags TEXT)")
		accepted(t, put(t, p.start(t, values{"table": "typed"}), record(nested)))
		p.want(t, "SELECT "+city[p.name]+", tags FROM typed", `Ulm|["a","b"]`)
		for _, table := range []string{"plain", "number"} {
			results := put(t, p.start(t, values{"table": table}), record(nested), of("id", 2))
			accepted(t, results, 0)
			if !strings.Contains(results[0].Err.Message, "addr") {
				t.Errorf("the message does not name the field: %s", results[0].Err.Message)
			}
			p.want(t, "SELECT id FROM "+table, "2")
		}
	})
}

func TestJDBC29StringToSpecialTypes(t *testing.T) {
	p := newPeer(t, postgresPeer)
	p.exec(t, "CREATE TYPE mood AS ENUM ('ok', 'sad')", "CREATE DOMAIN small AS INT CHECK (VALUE < 100)",
		"CREATE TABLE special (id INT PRIMARY KEY, j JSONB, u UUID, e mood, ip INET, iv INTERVAL, tags TEXT[], nums INT[], d small, ts TIMESTAMPTZ)")
	s := p.start(t, upsertBy("special", "id"))
	list := func(v ...data.Value) data.Value { return data.Array(v) }
	accepted(t, put(t, s,
		of("id", 1, "j", `{"a":1}`, "u", "11111111-1111-4111-8111-11111111111A", "e", "ok", "ip", "10.0.0.1/8", "iv", "1 day 02:00:00"),
		of("id", 2, "e", "angry"),
		of("id", 3, "tags", list(data.String(`a "b", {c}\`), data.Null(), data.String("")), "nums", list(data.Int64(1), data.Null())),
		of("id", 4, "nums", list(list(data.Int64(1), data.Int64(2)), list(data.Int64(3), data.Int64(4)))),
		of("id", 5, "nums", list(data.String("x"))),
		of("id", 6, "d", 100),
		of("id", 7, "d", 99.0, "tags", "{p,q}"),
		of("id", 8, "nums", object("a", 1))), 1, 4, 5, 7)
	p.want(t, "SELECT id, j, u, e, ip, iv, tags, nums, d FROM special ORDER BY id",
		`1|{"a": 1}|11111111-1111-4111-8111-11111111111a|ok|10.0.0.1/8|1 day 02:00:00|NULL|NULL|NULL`,
		`3|NULL|NULL|NULL|NULL|NULL|{"a \"b\", {c}\\",NULL,""}|{1,NULL}|NULL`,
		`4|NULL|NULL|NULL|NULL|NULL|NULL|{{1,2},{3,4}}|NULL`,
		`7|NULL|NULL|NULL|NULL|NULL|{p,q}|NULL|99`)
}
