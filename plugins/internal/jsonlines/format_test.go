package jsonlines

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

func bytesDatum(s string) pluginapi.Datum { return pluginapi.BytesDatum([]byte(s)) }

func dataDatum(v data.Value) pluginapi.Datum { return pluginapi.DataDatum(&data.Typed{Value: v}) }

func TestAppendValue(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   pluginapi.Datum
		want string
	}{
		{"tombstone", pluginapi.Datum{}, "null"},
		{"empty bytes", bytesDatum(""), `""`},
		{"object as it is", bytesDatum(`{"b": 1.00, "a":18446744073709551616}`), `{"b": 1.00, "a":18446744073709551616}`},
		{"object over lines", bytesDatum("{\n \"a\" : \"x y\",\r\n \"b\": [ 1 ]\n}\n"), `{"a":"x y","b":[1]}`},
		{"scalar", bytesDatum(`17`), `17`},
		{"json null", bytesDatum(`null`), `null`},
		{"text", bytesDatum("a \"b\"\nc"), `"a \"b\"\nc"`},
		{"leading zero is text", bytesDatum("007"), `"007"`},
		{"byte order mark is text", bytesDatum("\ufeff{}"), "\"\ufeff{}\""},
		{"two values are text", bytesDatum("{} {}"), `"{} {}"`},
		{"two lines are text", bytesDatum("{}\n{}"), `"{}\n{}"`},
		{"binary", bytesDatum("\xff\x00"), `{"base64":"/wA="}`},
		{"json with invalid utf-8", bytesDatum("{\"a\":\"\xff\"}"), `{"base64":"eyJhIjoi/yJ9"}`},
		{"data null", dataDatum(data.Null()), "null"},
		{"data decimal", dataDatum(data.DecimalValue(data.NewDecimal(big.NewInt(1100), 3))), "1.100"},
		{"data text with breaks", dataDatum(data.String("a\nb\u2028")), "\"a\\nb\u2028\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := New(nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.Append([]byte("> "), &pluginapi.Record{Value: tc.in})
			if err != nil || string(got) != "> "+tc.want {
				t.Errorf("got %s, %v; want %s", got, err, tc.want)
			}
			if !json.Valid(got[2:]) || bytes.ContainsAny(got, "\n\r") || !utf8.Valid(got) {
				t.Errorf("%q is not one line of JSON", got)
			}
		})
	}
}

func TestAppendIncluded(t *testing.T) {
	r := &pluginapi.Record{
		Topic: `o"rders`, Partition: 3, Offset: 42,
		Timestamp: time.UnixMilli(1764400000120), TimestampType: pluginapi.CreateTime,
		Key: bytesDatum("007"), Value: bytesDatum(`{"a":1}`),
		Headers: []pluginapi.Header{
			{Key: "h", Value: bytesDatum("1")},
			{Key: "h", Value: bytesDatum("\xff")},
			{Key: "n"},
			{Key: "d", Value: dataDatum(data.Int64(5))},
		},
	}
	for _, tc := range []struct {
		name    string
		include []string
		change  func(*pluginapi.Record)
		want    string
	}{
		{"all, in one order", []string{"headers", "key", "timestamp", "offset", "partition", "topic"}, nil, `{"topic":"o\"rders","partition":3,"offset":42,"timestamp":"2025-11-29T07:06:40.120Z","key":"007","headers":[{"key":"h","value":"1"},{"key":"h","value":{"base64":"/w=="}},{"key":"n","value":null},{"key":"d","value":5}],"value":{"a":1}}`},
		{"a numeric key stays text", []string{"key"}, func(r *pluginapi.Record) { r.Key = bytesDatum("17") }, `{"key":"17","value":{"a":1}}`},
		{"nothing there", []string{"key", "headers", "timestamp"}, func(r *pluginapi.Record) {
			r.Key, r.Value, r.Headers, r.TimestampType = pluginapi.Datum{}, pluginapi.Datum{}, nil, pluginapi.NoTimestamp
		}, `{"timestamp":null,"key":null,"headers":[],"value":null}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := New(tc.include)
			if err != nil {
				t.Fatal(err)
			}
			r := *r
			if tc.change != nil {
				tc.change(&r)
			}
			got, err := f.Append(nil, &r)
			if err != nil || string(got) != tc.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, tc.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for include, want := range map[string]string{
		"key key": `include names "key" twice`,
		"value":   `include names "value"; it may name topic, partition`,
	} {
		if _, err := New(strings.Fields(include)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", include, err, want)
		}
	}
}

func TestScanDepth(t *testing.T) {
	for _, tc := range []struct {
		depth int
		want  bool
	}{{maxDepth, true}, {maxDepth + 1, false}} {
		text := strings.Repeat("[", tc.depth) + strings.Repeat("]", tc.depth)
		if got, _ := scan([]byte(text)); got != tc.want {
			t.Errorf("depth %d: got %v, want %v", tc.depth, got, tc.want)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0.5e+3,true,false,null,"\u00e9\n"],"b":{}}`, "[]", "[1,]", `{"a"}`, `{"a":1,}`, "01", "-", "1.", "1e", "nul", "\"\x01\"", `"\x"`, " 1\n", "", "\xff", `"` + "\xff" + `"`,
		`[[{"a":[]}]]`, `[}`, `{]`, "{\"a\":1]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		valid, broken := scan(b)
		if want := json.Valid(b) && utf8.Valid(b); valid != want {
			t.Fatalf("%q: got %v, want %v", b, valid, want)
		}
		if valid && broken != bytes.ContainsAny(b, "\n\r") {
			t.Fatalf("%q: line break seen: %v", b, broken)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	value := []byte(`{"id":123456789,"name":"` + strings.Repeat("text ", 160) + `","items":[1,2.50,{"a":null,"b":true}],"note":"` + strings.Repeat("x", 100) + `"}`)
	f, err := New(nil)
	if err != nil {
		b.Fatal(err)
	}
	r := &pluginapi.Record{Value: pluginapi.BytesDatum(value)}
	buf := make([]byte, 0, 2048)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = f.Append(buf[:0], r)
	}
}
