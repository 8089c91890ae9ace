package jdbc

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// TestUpsertIsAsOneByOne: whatever a batch holds, the table ends as if its records had been put one by one, and each record
// gets the answer it got there.
func TestUpsertIsAsOneByOne(t *testing.T) {
	for _, version := range []string{"", "v"} {
		t.Run("version "+version, func(t *testing.T) {
			p := newPeer(t, sqlitePeer)
			const columns = " (id INT PRIMARY KEY, a INT CHECK (a < 9), b INT, v INT)"
			p.exec(t, "CREATE TABLE together"+columns, "CREATE TABLE single"+columns)
			start := func(table string) *sink {
				settings := upsertBy(table, "id")
				if version != "" {
					settings["version"] = version
				}
				return p.start(t, settings)
			}
			together, single := start("together"), start("single")
			rapid.Check(t, func(rt *rapid.T) {
				p.exec(t, "DELETE FROM together", "DELETE FROM single")
				for range 2 { // The second batch meets rows.
					n := rapid.IntRange(1, 8).Draw(rt, "records")
					var batch []pluginapi.Record
					for range n {
						pairs := []any{"id", rapid.IntRange(0, 2).Draw(rt, "id"), "v", rapid.IntRange(0, 3).Draw(rt, "v")}
						for _, name := range []string{"a", "b"} {
							if rapid.Bool().Draw(rt, "has "+name) {
								pairs = append(pairs, name, rapid.IntRange(0, 10).Draw(rt, name))
							}
						}
						batch = append(batch, of(pairs...))
					}
					got := put(t, together, batch...)
					for i := range batch {
						want := put(t, single, batch[i])[0]
						// A row that a newer one made needless is not looked at, and so not found to be bad.
						if got[i].Outcome != want.Outcome && got[i].Outcome != pluginapi.Accept {
							rt.Errorf("record %d: got %s (%v), one by one %s", i, got[i].Outcome, got[i].Err, want.Outcome)
						}
					}
					a, b := p.query(t, "SELECT * FROM together ORDER BY id"), p.query(t, "SELECT * FROM single ORDER BY id")
					if strings.Join(a, "\n") != strings.Join(b, "\n") {
						rt.Fatalf("together\n%s\none by one\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
					}
				}
			})
		})
	}
}

func TestNewerRowWinsByVersion(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE versions (id INT PRIMARY KEY, a VARCHAR(10), updated VARCHAR(40))", "INSERT INTO versions (id, a) VALUES (3, 'null')")
		settings := upsertBy("versions", "id")
		settings["version"] = "updated"
		s := p.start(t, settings)
		at := func(id int, a, second string) pluginapi.Record {
			return of("id", id, "a", a, "updated", "2024-01-01T00:00:"+second+"Z")
		}
		accepted(t, put(t, s, at(1, "old", "01"), at(1, "new", "03"), at(1, "late", "02"), at(2, "x", "05"), at(3, "set", "01")))
		accepted(t, put(t, s, at(1, "older", "02"), at(2, "same", "05")))
		// Texts of unlike form are the database's to compare.
		accepted(t, put(t, s, at(2, "longer", "05.5"), at(2, "longest", "06")))
		accepted(t, put(t, s, of("id", 4, "a", "none"), of("id", 5, "updated", nil)), 0, 1)
		p.want(t, "SELECT id, a FROM versions ORDER BY id", "1|new", "2|longest", "3|set")
	})
}

// TestBadRowDoesNotHideTheOneBefore: the last of a key's records cannot be stored, so the one before it counts.
func TestBadRowDoesNotHideTheOneBefore(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE items (id INT PRIMARY KEY, v VARCHAR(5) CHECK (length(v) <= 5))")
		s := p.start(t, upsertBy("items", "id"))
		accepted(t, put(t, s, of("id", 1, "v", "a"), of("id", 1, "v", "b"), of("id", 1, "v", "much too long"), of("id", 2, "v", "c")), 2)
		p.want(t, "SELECT id, v FROM items ORDER BY id", "1|b", "2|c")
	})
}

// TestBadRowDoesNotHideAnOlderOne: the second record is too old only if the first is stored, and the third, which makes the
// first needless, does not make up for the second.
func TestBadRowDoesNotHideAnOlderOne(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE items (id INT PRIMARY KEY, a VARCHAR(5) CHECK (length(a) <= 5), b INT, v INT)")
		settings := upsertBy("items", "id")
		settings["version"] = "v"
		s := p.start(t, settings)
		put(t, s, of("id", 1, "v", 1, "a", "much too long"), of("id", 1, "v", 0, "b", 7), of("id", 1, "v", 1, "a", "x"))
		p.want(t, "SELECT a, b, v FROM items", "x|7|1")
	})
}

// TestKeysThatAreOneToTheDatabase: keys that differ in text only, so that nobody but the database knows they are one.
func TestKeysThatAreOneToTheDatabase(t *testing.T) {
	create := map[string]string{
		mariadbPeer: "CREATE TABLE names (name VARCHAR(20) PRIMARY KEY, n INT)",
		sqlitePeer:  "CREATE TABLE names (name TEXT COLLATE NOCASE PRIMARY KEY, n INT)",
	}
	for name, statement := range create {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, name)
			p.exec(t, statement)
			s := p.start(t, upsertBy("names", "name"))
			accepted(t, put(t, s, of("name", "b", "n", 1), of("name", "B", "n", 2), of("name", "a", "n", 3), of("name", "b", "n", 4), of("name", "B", "n", 5)))
			p.want(t, "SELECT lower(name), n FROM names ORDER BY name", "a|3", "b|5")
		})
	}
	t.Run("postgres", func(t *testing.T) {
		p := newPeer(t, postgresPeer)
		p.exec(t, "CREATE TABLE ids (id UUID PRIMARY KEY, n INT)")
		s := p.start(t, upsertBy("ids", "id"))
		lower, upper := "11111111-1111-4111-8111-11111111111a", "11111111-1111-4111-8111-11111111111A"
		accepted(t, put(t, s, of("id", upper, "n", 1), of("id", lower, "n", 2), of("id", upper, "n", 3)))
		p.want(t, "SELECT n FROM ids", "3")
	})
}

func TestManyShapesInOneBatch(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE shapes (id INT, a INT, b INT, c INT)")
		s := p.start(t, values{"table": "shapes", "max_rows": int64(7)})
		var batch []pluginapi.Record
		for i := range 100 {
			pairs := []any{"id", i}
			for bit, name := range []string{"a", "b", "c"} {
				if i>>bit&1 == 1 {
					pairs = append(pairs, name, i)
				}
			}
			batch = append(batch, of(pairs...))
		}
		accepted(t, put(t, s, batch...))
		p.want(t, "SELECT count(*), count(a), count(b), count(c) FROM shapes", "100|50|50|48")
	})
}

func TestCompareVersions(t *testing.T) {
	for _, tc := range []struct {
		a, b  data.Value
		order int
		ok    bool
	}{
		{data.Int64(1), data.Int8(2), -1, true},
		{data.Uint64(1 << 63), data.Int64(-1), 1, true},
		{decimal(t, "1.10"), decimal(t, "1.1"), 0, true},
		{data.Date(1), data.Date(0), 1, true},
		{data.String("a"), data.String("a"), 0, true},
		{data.String("a"), data.String("b"), 0, false},
		{data.String("2024-01-01T00:00:01Z"), data.String("2024-01-01T00:00:02Z"), -1, true},
		{data.String("2024-01-01T00:00:01Z"), data.String("2024-01-01T00:00:02.5Z"), 0, false},
		{data.Int64(1), data.Float64(2), 0, false},
		{data.Float64(1), data.Float64(2), 0, false},
	} {
		order, ok := compareVersions(tc.a, tc.b)
		if ok != tc.ok || (ok && order != tc.order) {
			t.Errorf("%v, %v: got %d, %v; want %d, %v", tc.a, tc.b, order, ok, tc.order, tc.ok)
		}
	}
}
