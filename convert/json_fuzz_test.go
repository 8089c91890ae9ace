package convert_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzJSON compares with encoding/json: what one accepts the other does, but
// for text that has no exact form here, and the content is the same.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0.5e+3,true,false,null,"\u00e9\n\ud83d\ude00"],"b":{},"a":2}`, "[]", "[1,]", "01", "-", "1e5", "18446744073709551616", "-0.0", `"\ud800"`, "\ufeff1", "",
		`{"schema":` + order + `,"payload":` + orderPayload + `}`, `{"payload":1,"schema":{"type":"int8"}}`, `{"schema":null,"payload":[{}]}`,
	} {
		f.Add([]byte(s))
	}
	c := converter(f, "json", map[string]any{"schemas_enable": false})
	auto := converter(f, "json", nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		before := string(b)
		_, autoErr := auto.Convert(b)
		d, err := c.Convert(b)
		if string(b) != before {
			t.Fatal("the record was changed")
		}
		if !json.Valid(b) {
			if err == nil || autoErr == nil {
				t.Fatalf("%q: accepted, encoding/json refuses it", b)
			}
			return
		}
		if err != nil {
			stricter := !utf8.Valid(b) || strings.Contains(err.Error(), "surrogate") || strings.Contains(err.Error(), "nest deeper") || strings.Contains(err.Error(), "too large")
			if !stricter {
				t.Fatalf("%q: %v, encoding/json accepts it", b, err)
			}
			return
		}
		typed, _ := d.Data()
		out := typed.Value.AppendJSON(nil)
		if _, err := c.Convert(out); err != nil {
			t.Fatalf("%q came out as %q: %v", b, out, err)
		}
		if got, want := decode(t, out), decode(t, b); got != want {
			t.Fatalf("%q: got %s, encoding/json has %s", b, got, want)
		}
	})
}

// decode writes what encoding/json makes of b, numbers as floats, so that the
// forms of one number compare equal.
func decode(t *testing.T, b []byte) string {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return "error" // A number outside float64.
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(out), "-0", "0")
}

func sample() []byte {
	return []byte(`{"order_id":1234567890123,"customer":{"id":42,"name":"Ada Example","email":"ada@example.org","tags":["new","vip","eu"]},` +
		`"currency":"EUR","total":129.95,"paid":true,"coupon":null,"created_at":"2025-11-29T07:06:40.001Z","items":[` +
		`{"sku":"A-1001","title":"A thing with a longer title","quantity":2,"price":19.99},{"sku":"A-1002","title":"Another thing","quantity":1,"price":89.97},` +
		`{"sku":"A-1003","title":"Small thing","quantity":3,"price":0.00}],"note":"` + strings.Repeat("lorem ipsum ", 36) + `"}`)
}

func BenchmarkJSON(b *testing.B) {
	text := sample()
	b.Run("sluice", func(b *testing.B) {
		c := converter(b, "json", nil)
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Convert(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			var v any
			if err := json.Unmarshal(text, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
	envelope := []byte(`{"schema":` + order + `,"payload":` + orderPayload + `}`)
	b.Run("schema-payload", func(b *testing.B) {
		c := converter(b, "json", nil)
		b.SetBytes(int64(len(envelope)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Convert(envelope); err != nil {
				b.Fatal(err)
			}
		}
	})
}
