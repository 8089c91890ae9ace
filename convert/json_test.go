package convert_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice/convert"
	"github.com/sluicehq/sluice/pluginapi/data"
)

func read(t testing.TB, c convert.Converter, s string) *data.Typed {
	t.Helper()
	d, err := c.Convert([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	typed, ok := d.Data()
	if !ok {
		t.Fatalf("%s: no data", s)
	}
	return typed
}

// TestCONV02Integers: every digit of a number stays, whatever its size.
func TestCONV02Integers(t *testing.T) {
	c := converter(t, "json", nil)
	for _, tc := range []struct {
		in   string
		kind data.Kind
		want string
	}{
		{"0", data.KindInt64, "0"},
		{"-0", data.KindInt64, "0"},
		{"9223372036854775807", data.KindInt64, "9223372036854775807"},
		{"-9223372036854775808", data.KindInt64, "-9223372036854775808"},
		{"9223372036854775808", data.KindUint64, "9223372036854775808"},
		{"18446744073709551615", data.KindUint64, "18446744073709551615"},
		{"18446744073709551616", data.KindDecimal, "18446744073709551616"},
		{"327267367867168100000", data.KindDecimal, "327267367867168100000"},
		{"-9223372036854775809", data.KindDecimal, "-9223372036854775809"},
		{"1e400", data.KindDecimal, "1e400"},
		{"1.10", data.KindDecimal, "1.10"},
		{"0.1000000000000000055511151231257827", data.KindDecimal, "0.1000000000000000055511151231257827"},
		{"-1.5E-3", data.KindDecimal, "-0.0015"},
		{"0.0", data.KindDecimal, "0.0"},
		{"-0.0", data.KindFloat64, "-0"},
		{"-0e0", data.KindFloat64, "-0"},
		{"-0.0e10", data.KindFloat64, "-0"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			v := read(t, c, `{"a":`+tc.in+`}`).Value.Get("a")
			if v.Kind() != tc.kind || string(v.AppendJSON(nil)) != tc.want {
				t.Errorf("got %s %s, want %s %s", v.Kind(), v.AppendJSON(nil), tc.kind, tc.want)
			}
		})
	}
}

func TestJSONValues(t *testing.T) {
	c := converter(t, "json", nil)
	for _, tc := range []struct{ name, in, want string }{
		{"spaces", " \t\r\n{ \"a\" : [ 1 , true , false , null ] , \"b\" : { } , \"c\" : [ ] } \n", `{"a":[1,true,false,null],"b":{},"c":[]}`},
		{"escapes", `"\"\\\/\b\f\n\r\t\u00e9\u0000\ud83d\ude00x"`, `"\"\\/\u0008\u000c\n\r\té\u0000😀x"`},
		{"long text before an escape", `"0123456789abcdef ü 0123456789\n!"`, `"0123456789abcdef ü 0123456789\n!"`},
		{"duplicate names", `{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		{"duplicate names, escaped", `{"a":1,"\u0061":2}`, `{"a":2}`},
		{"null and empty are kept", `{"a":null,"b":"","c":{}}`, `{"a":null,"b":"","c":{}}`},
		{"order", `{"z":1,"a":2}`, `{"z":1,"a":2}`},
		{"not an envelope: other fields", `{"schema":{"type":"string"},"payload":"x","more":1}`, `{"schema":{"type":"string"},"payload":"x","more":1}`},
		{"not an envelope: no payload", `{"schema":{"type":"string"}}`, `{"schema":{"type":"string"}}`},
		{"not an envelope: another schema", `{"schema":"v1","payload":{"a":1}}`, `{"schema":"v1","payload":{"a":1}}`},
		{"not an envelope: another type", `{"schema":{"type":"object"},"payload":{"a":1}}`, `{"schema":{"type":"object"},"payload":{"a":1}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := read(t, c, tc.in).Value
			if got := string(v.AppendJSON(nil)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestJSONManyNames passes the size where names are compared one by one.
func TestJSONManyNames(t *testing.T) {
	var in strings.Builder
	for i := range 200 {
		fmt.Fprintf(&in, `,"n%d":%d`, i%100, i)
	}
	v := read(t, converter(t, "json", nil), "{"+in.String()[1:]+"}").Value
	if n := len(v.Entries()); n != 100 {
		t.Fatalf("got %d entries, want 100", n)
	}
	for i, e := range v.Entries() {
		if n, _ := e.Value.Int(); e.Key.Str() != fmt.Sprintf("n%d", i) || n != int64(i+100) {
			t.Errorf("entry %d is %s: %d", i, e.Key.Str(), n)
		}
	}
}

func TestJSONSyntaxErrors(t *testing.T) {
	c := converter(t, "json", nil)
	for _, tc := range []struct {
		name, in string
		position int
		want     string
	}{
		{"empty", "", 1, "the bytes are empty"},
		{"spaces", "  ", 3, "the text ends"},
		{"byte order mark", "\ufeff{}", 1, "byte order mark"},
		{"trailing", `{} x`, 4, "'x' behind the value"},
		{"trailing NUL", "1\x00", 2, "byte 0x00 behind the value"},
		{"NUL in string", "\"a\x00\"", 3, "byte 0x00 in a string"},
		{"invalid UTF-8", "\"a\xc3\x28\"", 3, "invalid UTF-8"},
		{"invalid UTF-8 behind an escape", "\"\\n\xff\"", 4, "invalid UTF-8"},
		{"encoded surrogate", "\"\xed\xa0\x80\"", 2, "invalid UTF-8"},
		{"lone surrogate", `"\ud800"`, 2, "half of a surrogate pair"},
		{"low surrogate first", `"\udc00\ud800"`, 2, "half of a surrogate pair"},
		{"two high surrogates", `"\ud800\ud800"`, 2, "half of a surrogate pair"},
		{"short escape", `"\u00g0"`, 2, "four hexadecimal digits"},
		{"unknown escape", `"\x"`, 3, "'x' behind a backslash"},
		{"unclosed string", `"abc`, 5, "within a string"},
		{"unclosed escape", `"\`, 3, "within a string"},
		{"unclosed array", `[1,`, 4, "the text ends"},
		{"unclosed object", `{"a":1`, 7, "the text ends"},
		{"comma at end of array", `[1,]`, 4, "']' where a value belongs"},
		{"comma at end of object", `{"a":1,}`, 8, "'}' where a name in quotes belongs"},
		{"no colon", `{"a" 1}`, 6, `'1' where ":" belongs`},
		{"no comma", `[1 2]`, 4, `'2' where "," or "]" belongs`},
		{"bare name", `{a:1}`, 2, "'a' where a name in quotes belongs"},
		{"leading zero", `01`, 1, "a number begins with 0"},
		{"plus", `+1`, 1, "'+' where a value belongs"},
		{"point", `1.`, 3, "within a number"},
		{"NaN", `NaN`, 1, "'N' where a value belongs"},
		{"exponent out of bounds", `1e99999`, 1, "too large"},
		{"exponent out of any bounds", `1e99999999999999999999`, 1, "too large"},
		{"word", `nul`, 4, "want null"},
		{"comment", `// x`, 1, "'/' where a value belongs"},
		{"too deep", strings.Repeat("[", convert.MaxJSONDepth+1), convert.MaxJSONDepth + 1, "nest deeper"},
		{"broken envelope", `{"schema":{"type":"string",},"payload":"x"}`, 28, "'}' where a name in quotes belongs"},
		{"broken payload", `{"schema":{"type":"int32"},"payload":[1}}`, 38, "'[' where the schema says int32"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.Convert([]byte(tc.in))
			var syntax *convert.SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset != tc.position-1 || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want position %d: %s", err, tc.position, tc.want)
			}
		})
	}
	deep := strings.Repeat("[", convert.MaxJSONDepth) + strings.Repeat("]", convert.MaxJSONDepth)
	if _, err := c.Convert([]byte(deep)); err != nil {
		t.Errorf("depth %d: %v", convert.MaxJSONDepth, err)
	}
	many := "[" + strings.Repeat("0,", convert.MaxJSONValues) + "0]"
	if _, err := c.Convert([]byte(many)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too many values: got %v", err)
	}
}

const order = `{"type":"struct","name":"acme.Order","version":3,"doc":"d","optional":false,"fields":[
 {"field":"id","type":"int64","optional":false},
 {"field":"tiny","type":"int8"},
 {"field":"short","type":"int16"},
 {"field":"int","type":"int32"},
 {"field":"ok","type":"boolean"},
 {"field":"f","type":"float"},
 {"field":"d","type":"double"},
 {"field":"note","type":"string","optional":true,"default":"-"},
 {"field":"gone","type":"string","optional":true},
 {"field":"raw","type":"bytes"},
 {"field":"tags","type":"array","optional":true,"items":{"type":"string","optional":true}},
 {"field":"attrs","type":"map","keys":{"type":"string"},"values":{"type":"int32"}},
 {"field":"byid","type":"map","keys":{"type":"int32"},"values":{"type":"string"}},
 {"field":"price","type":"bytes","name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2"}},
 {"field":"day","type":"int32","name":"org.apache.kafka.connect.data.Date","version":1},
 {"field":"time","type":"int32","name":"org.apache.kafka.connect.data.Time","version":1},
 {"field":"at","type":"int64","name":"org.apache.kafka.connect.data.Timestamp","version":1},
 {"field":"sub","type":"struct","fields":[{"field":"x","type":"int32","default":7}]}]}`

const orderPayload = `{"id":9223372036854775807,"tiny":-128,"short":32767,"int":-5,"ok":true,"f":0.1,"d":-0.0,"note":null,
 "raw":"AP8=","tags":["a",null],"attrs":{"x":1,"x":2},"byid":[[1,"one"],[2,"two"]],"price":"A+g=","day":-1,"time":86399999,"at":1764400000001,"sub":{}}`

// TestJSONSchemaPayload reads every type of Connect, whichever field is first.
func TestJSONSchemaPayload(t *testing.T) {
	const want = `{"id":9223372036854775807,"tiny":-128,"short":32767,"int":-5,"ok":true,"f":0.1,"d":-0,"note":null,"raw":"AP8=","tags":["a",null],"attrs":{"x":2},"byid":{"1":"one","2":"two"},"price":10.00,"day":"1969-12-31","time":"23:59:59.999","at":"2025-11-29T07:06:40.001Z","sub":{"x":7}}`
	for _, in := range []string{
		`{"schema":` + order + `,"payload":` + orderPayload + `}`,
		` { "payload" : ` + orderPayload + ` , "schema" : ` + order + ` } `,
	} {
		for _, options := range []map[string]any{nil, {"schemas_enable": true}} {
			typed := read(t, converter(t, "json", options), in)
			if got := string(typed.Value.AppendJSON(nil)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			s := typed.Schema
			if s.Kind != data.KindStruct || s.Name != "acme.Order" || s.Version != 3 || s.Doc != "d" || s.Optional {
				t.Errorf("got schema %+v", s)
			}
			for field, kind := range map[string]data.Kind{
				"id": data.KindInt64, "tiny": data.KindInt8, "short": data.KindInt16, "int": data.KindInt32, "f": data.KindFloat32, "d": data.KindFloat64,
				"price": data.KindDecimal, "day": data.KindDate, "time": data.KindTime, "at": data.KindTimestamp, "raw": data.KindBytes, "note": data.KindNull, "gone": data.KindMissing,
			} {
				if got := typed.Value.Get(field).Kind(); got != kind {
					t.Errorf("field %s is %s, want %s", field, got, kind)
				}
			}
			if d := s.Fields[s.FieldIndex("note")].Schema; !d.Optional || d.Default.Str() != "-" {
				t.Errorf("got field note %+v", d)
			}
		}
	}
}

func TestJSONSchemaIsShared(t *testing.T) {
	c := converter(t, "json", map[string]any{"schemas_cache_size": int64(2)})
	text := []byte(`{"schema":` + order + `,"payload":` + orderPayload + `}`)
	d, err := c.Convert(text)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := d.Data()
	again := read(t, c, string(text))
	if first.Schema != again.Schema {
		t.Error("two records with the same schema text have two schemas")
	}
	// The schema must not live in the record's memory.
	for i := range text {
		text[i] = 'x'
	}
	if again.Schema.Name != "acme.Order" || again.Schema.FieldIndex("id") != 0 {
		t.Errorf("the schema changed with the record: %q", again.Schema.Name)
	}
	for i := range 5 {
		read(t, c, fmt.Sprintf(`{"schema":{"type":"string","version":%d},"payload":"x"}`, i))
	}
}

func TestJSONNullWithDefault(t *testing.T) {
	const schema = `{"type":"struct","fields":[{"field":"o","type":"int32","optional":true,"default":7},{"field":"r","type":"int32","default":8}]}`
	for _, tc := range []struct {
		name    string
		replace bool
		payload string
		want    string
	}{
		{"null stays null", false, `{"o":null,"r":1}`, `{"o":null,"r":1}`},
		{"null in a required field", false, `{"o":1,"r":null}`, `field r: null where the schema says int32, not optional`},
		{"missing", false, `{}`, `{"o":7,"r":8}`},
		{"null becomes default", true, `{"o":null,"r":null}`, `{"o":7,"r":8}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := converter(t, "json", map[string]any{"replace_null_with_default": tc.replace})
			d, err := c.Convert([]byte(`{"schema":` + schema + `,"payload":` + tc.payload + `}`))
			var got string
			if err != nil {
				got = err.Error()
			} else {
				typed, _ := d.Data()
				got = string(typed.Value.AppendJSON(nil))
			}
			if !strings.Contains(got, tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestCONV13DecimalScales: two decimals in one schema keep their own scale,
// also when two schemas are read at once.
func TestCONV13DecimalScales(t *testing.T) {
	schema := func(a, b int) string {
		const field = `{"field":"%s","type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"%d"}}`
		return `{"type":"struct","fields":[` + fmt.Sprintf(field, "a", a) + "," + fmt.Sprintf(field, "b", b) + "]}"
	}
	c := converter(t, "json", nil)
	var wg sync.WaitGroup
	for _, tc := range []struct {
		a, b int
		want string
	}{{2, 6, `{"a":12.34,"b":0.001234}`}, {0, -3, `{"a":1234,"b":1234e3}`}} {
		wg.Go(func() {
			for range 100 {
				d, err := c.Convert([]byte(`{"schema":` + schema(tc.a, tc.b) + `,"payload":{"a":"BNI=","b":"BNI="}}`))
				if err != nil {
					t.Error(err)
					return
				}
				if typed, _ := d.Data(); string(typed.Value.AppendJSON(nil)) != tc.want {
					t.Errorf("got %s, want %s", typed.Value.AppendJSON(nil), tc.want)
				}
			}
		})
	}
	wg.Wait()
}

// TestCONV14DecimalSign: the unscaled value is a two's complement integer.
func TestCONV14DecimalSign(t *testing.T) {
	c := converter(t, "json", nil)
	for in, want := range map[string]string{
		`"AIAAAAAAAAAA"`: "9223372036854775808",
		`"AP//////////"`: "18446744073709551615",
		`"/w=="`:         "-1",
		`"gA=="`:         "-128",
		`"fw=="`:         "127",
		`"AIA="`:         "128",
		`"AIA"`:          "128", // No padding.
		`"AA=="`:         "0",
		`12.50`:          "12.50", // The numeric form.
		`-1e2`:           "-1e2",
	} {
		typed := read(t, c, `{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"0"}},"payload":`+in+`}`)
		if got := typed.Value.Decimal().String(); typed.Value.Kind() != data.KindDecimal || got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// TestCONV04FloatNames: what JSON has no number for comes as a string.
func TestCONV04FloatNames(t *testing.T) {
	c := converter(t, "json", nil)
	for _, kind := range []string{"float", "double"} {
		for in, want := range map[string]string{`"NaN"`: `"NaN"`, `"Infinity"`: `"Infinity"`, `"-Infinity"`: `"-Infinity"`, `-0.0`: "-0", `-0`: "-0", `1`: "1"} {
			typed := read(t, c, `{"schema":{"type":"`+kind+`"},"payload":`+in+`}`)
			if got := string(typed.Value.AppendJSON(nil)); got != want {
				t.Errorf("%s %s: got %s, want %s", kind, in, got, want)
			}
		}
	}
}

func TestJSONSchemaErrors(t *testing.T) {
	for _, tc := range []struct{ name, schema, payload, want string }{
		{"unknown type", `{"type":"uint8"}`, `1`, `the schema: type "uint8" is not known`},
		{"no type", `{}`, `1`, `the schema: type "" is not known`},
		{"not an object", `"string"`, `1`, "the schema: want an object, got string"},
		{"array without items", `{"type":"array"}`, `[]`, "the schema: items: want an object"},
		{"map without keys", `{"type":"map","values":{"type":"string"}}`, `{}`, "the schema: keys: want an object"},
		{"struct without fields", `{"type":"struct"}`, `{}`, "fields is missing"},
		{"field without name", `{"type":"struct","fields":[{"type":"int32"}]}`, `{}`, "no name"},
		{"field twice", `{"type":"struct","fields":[{"field":"a","type":"int32"},{"field":"a","type":"int32"}]}`, `{}`, `field "a" is there twice`},
		{"field of unknown type", `{"type":"struct","fields":[{"field":"a","type":"x"}]}`, `{}`, `field "a": type "x" is not known`},
		{"decimal without scale", `{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"}`, `"AA=="`, "parameter scale"},
		{"decimal with a giant scale", `{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"999999999"}}`, `"AA=="`, "parameter scale"},
		{"date as int64", `{"type":"int64","name":"org.apache.kafka.connect.data.Date"}`, `1`, "want int32"},
		{"default of another type", `{"type":"int32","default":"x"}`, `1`, `default: '"' where the schema says int32`},
		{"optional as text", `{"type":"int32","optional":"yes"}`, `1`, "optional is a string"},
		{"int8 too large", `{"type":"int8"}`, `128`, "the number is outside int8"},
		{"int64 too large", `{"type":"int64"}`, `9223372036854775808`, "the number is outside int64"},
		{"int with fraction", `{"type":"int32"}`, `1.0`, "fraction or exponent"},
		{"string for int", `{"type":"int32"}`, `"1"`, `'"' where the schema says int32`},
		{"int for string", `{"type":"string"}`, `1`, "'1' where the schema says string"},
		{"float too large", `{"type":"float"}`, `1e39`, "outside float32"},
		{"text for float", `{"type":"double"}`, `"1"`, "a string where"},
		{"null required", `{"type":"string"}`, `null`, "not optional"},
		{"not base64", `{"type":"bytes"}`, `"*"`, "base64"},
		{"decimal of no bytes", `{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"0"}}`, `""`, "a decimal of 0 bytes"},
		{"time of two days", `{"type":"int32","name":"org.apache.kafka.connect.data.Time"}`, `86400000`, "outside a day"},
		{"required field missing", `{"type":"struct","fields":[{"field":"a","type":"int32"}]}`, `{}`, `the required field "a" is missing`},
		{"unknown field", `{"type":"struct","fields":[]}`, `{"b":1}`, `field "b" is not in the schema`},
		{"nested", `{"type":"struct","fields":[{"field":"a","type":"struct","fields":[{"field":"b","type":"int32"}]}]}`, `{"a":{"b":"x"}}`, "field a.b:"},
		{"map entry of three", `{"type":"map","keys":{"type":"int32"},"values":{"type":"int32"}}`, `[[1,2,3]]`, "an entry of a map is too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := converter(t, "json", map[string]any{"schemas_enable": true})
			_, err := c.Convert([]byte(`{"schema":` + tc.schema + `,"payload":` + tc.payload + `}`))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
