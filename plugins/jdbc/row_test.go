package jdbc

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

func TestRecordsWithoutARow(t *testing.T) {
	p := newPeer(t, sqlitePeer)
	p.exec(t, "CREATE TABLE items (id INTEGER PRIMARY KEY, v TEXT, twice INT GENERATED ALWAYS AS (id * 2))")
	s := p.start(t, upsertBy("items", "id"))
	raw := pluginapi.Record{Value: pluginapi.BytesDatum([]byte(`{"id":1}`))}
	results := put(t, s, pluginapi.Record{}, raw, record(data.String("x")), of(), of("v", "no key"), of("id", nil, "v", "null key"),
		of("id", 1, "nope", 1), of("id", 1, "twice", 2), of("id", 1, "v", "good"))
	accepted(t, results, 0, 1, 2, 3, 4, 5, 6, 7)
	for i, want := range []string{"tombstone", "converter", "string", "key", "key", "key", "nope", "twice"} {
		if got := results[i].Err; !strings.Contains(got.Message, want) || got.Code == "" {
			t.Errorf("record %d: got %q, want a message with %q", i, got.Message, want)
		}
	}
	p.want(t, "SELECT id, v FROM items", "1|good")

	settings := upsertBy("items", "id")
	settings["unknown_fields"] = "ignore"
	accepted(t, put(t, p.start(t, settings), of("id", 2, "nope", 1, "twice", 9, "v", "ignored")))
	p.want(t, "SELECT id, v, twice FROM items WHERE id = 2", "2|ignored|4")
}

func TestKeySources(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE byplace (topic VARCHAR(50), part INT, off BIGINT, v VARCHAR(10), PRIMARY KEY (topic, part, off))",
			"CREATE TABLE bykey (id BIGINT PRIMARY KEY, v VARCHAR(10))")
		s := p.start(t, values{"table": "byplace", "mode": "upsert", "pk": key("kafka", "topic", "part", "off")})
		r := of("v", "x")
		r.Partition, r.Offset = 3, 1<<40
		accepted(t, put(t, s, r))
		accepted(t, put(t, s, r, r))
		p.want(t, "SELECT * FROM byplace", "orders|3|1099511627776|x")

		k := p.start(t, values{"table": "bykey", "mode": "upsert", "pk": key("key", "id")})
		keyed := func(key pluginapi.Datum, v string) pluginapi.Record {
			r := of("id", 99, "v", v)
			r.Key = key
			return r
		}
		accepted(t, put(t, k,
			keyed(pluginapi.DataDatum(&data.Typed{Value: data.Int32(1)}), "int"),
			keyed(pluginapi.DataDatum(&data.Typed{Value: data.String("2")}), "text"),
			keyed(pluginapi.BytesDatum([]byte("3")), "bytes"),
			keyed(pluginapi.DataDatum(&data.Typed{Value: object("id", 4)}), "object"),
			keyed(pluginapi.Datum{}, "none"),
			keyed(pluginapi.DataDatum(&data.Typed{Value: object("other", 4)}), "other"),
			keyed(pluginapi.BytesDatum([]byte("\xff")), "binary")), 4, 5, 6)
		p.want(t, "SELECT id, v FROM bykey ORDER BY id", "1|int", "2|text", "3|bytes", "4|object")
	})
}

func TestAutomaticColumns(t *testing.T) {
	types := map[string]string{postgresPeer: "SERIAL", mariadbPeer: "INT AUTO_INCREMENT", sqlitePeer: "INTEGER"}
	onEach(t, func(t *testing.T, p *peer) {
		p.exec(t, "CREATE TABLE numbered (id "+types[p.name]+" PRIMARY KEY, v VARCHAR(10))")
		s := p.start(t, values{"table": "numbered"})
		// Zero is zero, not the next number; null is not a number; what is not there is made.
		accepted(t, put(t, s, of("id", 0, "v", "zero"), of("id", nil, "v", "null")), 1)
		accepted(t, put(t, s, of("v", "next")))
		p.want(t, "SELECT id, v FROM numbered ORDER BY id", "0|zero", "1|next")
	})
}

func TestNamesAreQuoted(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		q := `"`
		if p.name == mariadbPeer {
			q = "`"
		}
		// A quote inside is doubled.
		table, column := q+"Select; DROP"+q+q+q, q+"Order"+q+q+"By"+q
		p.exec(t, "CREATE TABLE "+table+" (id INT PRIMARY KEY, "+column+" INT)")
		s := p.start(t, upsertBy("Select; DROP"+q, "id"))
		accepted(t, put(t, s, of("id", 1, "Order"+q+"By", 2)))
		accepted(t, put(t, s, of("id", 1, "Order"+q+"By", 3)))
		p.want(t, "SELECT * FROM "+table, "1|3")
	})
}

func TestValues(t *testing.T) {
	uuid := data.UUID([16]byte{0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x41, 0x11, 0x81, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x1a})
	at := data.Timestamp(time.Date(2024, 6, 15, 10, 30, 0, 123456789, time.UTC))
	peers := make(map[string]*peer) // Missing where the machine lacks it.
	onEach(t, func(_ *testing.T, p *peer) { peers[p.name] = p })
	peers[sqlitePeer] = newPeer(t, sqlitePeer) // Its file lives as long as its test.
	for _, tc := range []struct {
		name, column string
		v            data.Value
		want         string // "" means rejected.
		on           string // Peers, empty for all.
	}{
		{"boolean", "BOOLEAN", data.Bool(true), "t", postgresPeer},
		{"boolean", "BOOLEAN", data.Bool(true), "1", mariadbPeer + sqlitePeer},
		{"boolean as text", "VARCHAR(10)", data.Bool(true), "true", ""},
		{"number as text", "VARCHAR(10)", data.Int64(7), "7", ""},
		{"float32 keeps its digits", "DOUBLE PRECISION", data.Float32(0.1), "0.1", ""},
		{"whole float in an integer", "INT", data.Float64(7), "7", ""},
		{"whole decimal in an integer", "INT", decimal(t, "7.00"), "7", ""},
		{"fraction in an integer", "INT", decimal(t, "7.5"), "", postgresPeer + mariadbPeer},
		{"too large", "SMALLINT", data.Int64(70000), "", postgresPeer + mariadbPeer},
		{"nan", "DOUBLE PRECISION", data.Float64(nan()), "NaN", postgresPeer},
		{"nan", "DOUBLE PRECISION", data.Float64(nan()), "", mariadbPeer + sqlitePeer},
		{"time", "TIME(6)", data.Time(time.Hour + 1500*time.Microsecond), "01:00:00.0015", postgresPeer},
		{"time", "TIME(6)", data.Time(time.Hour + 1500*time.Microsecond), "01:00:00.001500", mariadbPeer},
		{"timestamp is cut to microseconds", "TIMESTAMP(6)", at, "2024-06-15 10:30:00.123456", postgresPeer + sqlitePeer},
		{"timestamp is cut to microseconds", "DATETIME(6)", at, "2024-06-15 10:30:00.123456", mariadbPeer},
		{"timestamp in a date", "DATE", at, "", ""},
		{"midnight in a date", "DATE", data.Timestamp(time.Date(2024, 6, 15, 0, 0, 0, 0, time.UTC)), "2024-06-15", postgresPeer + mariadbPeer},
		{"uuid", "UUID", uuid, "11111111-1111-4111-8111-11111111111a", ""},
		{"uuid as text", "VARCHAR(36)", uuid, "11111111-1111-4111-8111-11111111111a", ""},
		{"bytes as text", "VARCHAR(10)", data.Bytes([]byte("ü")), "ü", ""},
		{"bytes that are no text", "VARCHAR(10)", data.Bytes([]byte{0xff}), "", ""},
		{"number in JSON", "JSON", decimal(t, "1.10"), "1.10", postgresPeer + mariadbPeer},
		{"text in JSON is JSON", "JSON", data.String(`{"a":[1]}`), `{"a":[1]}`, ""},
		{"text in JSON that is not", "JSON", data.String(`{"a"`), "", postgresPeer + mariadbPeer},
		{"list in an integer", "INT", data.Array(nil), "", ""},
		{"emoji", "VARCHAR(10)", data.String("😀"), "😀", ""},
		{"too long", "VARCHAR(3)", data.String("four"), "", postgresPeer + mariadbPeer},
	} {
		for _, peer := range []string{postgresPeer, mariadbPeer, sqlitePeer} {
			if tc.on != "" && !strings.Contains(tc.on, peer) {
				continue
			}
			t.Run(tc.name+", "+peer, func(t *testing.T) {
				p := peers[peer]
				if p == nil {
					t.Skip("no " + peer)
				}
				p.exec(t, "DROP TABLE IF EXISTS one", "CREATE TABLE one (v "+tc.column+")")
				results := put(t, p.start(t, values{"table": "one"}), of("v", tc.v))
				if tc.want == "" {
					accepted(t, results, 0)
					p.want(t, "SELECT v FROM one")
					return
				}
				accepted(t, results)
				p.want(t, "SELECT v FROM one", tc.want)
			})
		}
	}
}

func TestDateBeforeTheYear1(t *testing.T) {
	p := newPeer(t, postgresPeer)
	p.exec(t, "CREATE TABLE days (d DATE, ts TIMESTAMP)")
	old := data.Timestamp(time.Unix(-800000*86400+3600, 0))
	accepted(t, put(t, p.start(t, values{"table": "days"}), of("d", data.Date(-800000), "ts", old), of("d", data.Date(-719163), "ts", old)))
	p.want(t, "SELECT d - date '1970-01-01', extract(epoch FROM ts)::bigint FROM days ORDER BY d", "-800000|-69119996400", "-719163|-69119996400")
}

func nan() float64 {
	var zero float64
	return zero / zero
}

// TestLargeStatement: rows that would make one statement too large for the server are split over several.
func TestLargeStatement(t *testing.T) {
	onEach(t, func(t *testing.T, p *peer) {
		text := "TEXT"
		if p.name == mariadbPeer {
			text = "LONGTEXT"
		}
		p.exec(t, "CREATE TABLE large (id INT PRIMARY KEY, v "+text+")")
		s := p.start(t, values{"table": "large"})
		big := strings.Repeat("x", 3<<20)
		var batch []pluginapi.Record
		for i := range 8 {
			batch = append(batch, of("id", i, "v", big))
		}
		accepted(t, put(t, s, batch...))
		p.want(t, "SELECT count(*), sum(length(v)) FROM large", "8|25165824")
		if p.name == mariadbPeer {
			// Larger than the server's max_allowed_packet: alone at fault.
			accepted(t, put(t, s, of("id", 10, "v", strings.Repeat("x", 17<<20)), of("id", 11, "v", "small")), 0)
			p.want(t, "SELECT id FROM large WHERE id >= 10", "11")
		}
	})
}
