package template_test

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
	"github.com/sluicehq/sluice/pluginapi/template"
)

func record() *pluginapi.Record {
	entry := func(k string, v data.Value) data.Entry { return data.Entry{Key: data.String(k), Value: v} }
	order := data.NewStruct("shop.Order",
		data.Field{Name: "id", Schema: &data.Schema{Kind: data.KindInt64}},
		data.Field{Name: "gone", Schema: &data.Schema{Kind: data.KindString, Optional: true}})
	value := data.Map([]data.Entry{
		entry("id", data.Uint64(18446744073709551615)),
		entry("a", data.Map([]data.Entry{entry("b", data.String("nested")), entry("n", data.Null())})),
		entry("a.b", data.String("dotted")),
		entry("we`rd}", data.String("quoted")),
		entry("empty", data.String("")),
		entry("order", data.StructValue(order, []data.Value{data.Int64(7), {}})),
		entry("list", data.Array([]data.Value{data.Int64(1), data.Int64(2)})),
	})
	return &pluginapi.Record{
		Topic: "orders", Partition: 3, Offset: 42,
		Timestamp: time.UnixMilli(1764400000123), TimestampType: pluginapi.CreateTime,
		Key:   pluginapi.BytesDatum([]byte("k/1")),
		Value: pluginapi.DataDatum(&data.Typed{Value: value}),
		Headers: []pluginapi.Header{
			{Key: "x.trace", Value: pluginapi.BytesDatum([]byte("first"))},
			{Key: "x.trace", Value: pluginapi.BytesDatum([]byte("last"))},
			{Key: "null"},
		},
	}
}

func TestAppend(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{"plain", "plain"},
		{"{topic}/{partition}/{offset}", "orders/3/42"},
		{"{key}", "k/1"},
		{"{value.id}", "18446744073709551615"},
		{"{value.a.b}", "nested"},
		{"{value.`a.b`}", "dotted"},
		{"{value.`we``rd}`}", "quoted"},
		{"[{value.empty}]", "[]"},
		{"{value.order.id}", "7"},
		{"{value.list}", "[1,2]"},
		{"{header.x.trace}", "last"},
		{"{header.`x.trace`}", "last"},
		{"{timestamp:2006-01-02T15:04:05.000Z07:00}", "2025-11-29T07:06:40.123Z"},
		{"{timestamp:2006/01/02}", "2025/11/29"},
		{"{timestamp}", "1764400000123"},
		{"{{topic}} {{{topic}}", "{topic}} {orders}"},
		{`{{"id":{value.id}}`, `{"id":18446744073709551615}`},
		{"ü{topic}ü", "üordersü"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			tpl, err := template.Parse(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tpl.Append([]byte("> "), record())
			if err != nil || string(got) != "> "+tc.want {
				t.Errorf("got %q, %v; want %q", got, err, "> "+tc.want)
			}
			if tpl.String() != tc.text {
				t.Errorf("String gives %q, want %q", tpl, tc.text)
			}
		})
	}
}

func TestAppendMissing(t *testing.T) {
	for _, tc := range []struct {
		text   string
		change func(*pluginapi.Record)
		want   string
	}{
		{"{value.nope}", nil, `{value.nope}: the record has no field "nope"`},
		{"{value.a.n}", nil, "{value.a.n}: it is null"},
		{"{value.a.n.x}", nil, `{value.a.n.x}: there is no field "x" in a null`},
		{"{value.order.gone}", nil, `{value.order.gone}: the record has no field "gone"`},
		{"{key.id}", nil, `{key.id}: the key is bytes; set a converter that reads it, such as "json"`},
		{"{header.none}", nil, "{header.none}: the record has no such header"},
		{"{header.null}", nil, "{header.null}: the record has no header's value"},
		{"{key}", func(r *pluginapi.Record) { r.Key = pluginapi.Datum{} }, "{key}: the record has no key"},
		{"{value.id}", func(r *pluginapi.Record) { r.Value = pluginapi.Datum{} }, "{value.id}: the record has no value"},
		{"{value.id}", func(r *pluginapi.Record) { r.Value = pluginapi.BytesDatum([]byte(`{"id":1}`)) }, `{value.id}: the value is bytes; set a converter that reads it, such as "json"`},
		{"{timestamp:2006}", func(r *pluginapi.Record) { r.TimestampType = pluginapi.NoTimestamp }, "{timestamp:2006}: the record has no timestamp"},
	} {
		t.Run(tc.text, func(t *testing.T) {
			tpl, err := template.Parse("x" + tc.text + "y")
			if err != nil {
				t.Fatal(err)
			}
			r := record()
			if tc.change != nil {
				tc.change(r)
			}
			got, err := tpl.Append([]byte("kept"), r)
			var field *template.FieldError
			if !errors.As(err, &field) || err.Error() != tc.want {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
			if string(got) != "kept" {
				t.Errorf("got %q beside the error, want what came in", got)
			}
		})
	}
}

func TestAppendEscaped(t *testing.T) {
	tpl, err := template.Parse("/{topic}/{key}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tpl.AppendEscaped(nil, record(), func(dst, field []byte) []byte {
		return append(dst, url.PathEscape(string(field))...)
	})
	if want := "/orders/k%2F1"; err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct {
		text   string
		offset int
		want   string
	}{
		{"a{topic", 1, "never closed"},
		{"a{", 1, "never closed"},
		{"{}", 0, "no name"},
		{"ab{tpoic}", 2, "there is no placeholder {tpoic}; use {topic}"},
		{"{topic.x}", 0, "write {topic}"},
		{"{value.}", 0, "name is empty"},
		{"{value.a..b}", 0, "name is empty"},
		{"{value:a}", 0, "follows a dot"},
		{"{value.a`b`}", 0, "in back-ticks"},
		{"{value.`a}", 0, "never closed"},
		{"{value.`a`b}", 0, "follows a dot"},
		{"{header}", 0, "as in {header.trace-id}"},
		{"{header.}", 0, "as in {header.trace-id}"},
		{"{header.`a`b}", 0, "behind the back-ticks"},
		{"{timestamp:}", 0, "a layout follows a colon"},
		{"{timestamp.x}", 0, "a layout follows a colon"},
		{"{timestamp:YYYY-MM-dd}", 0, "holds no part of a date"},
		{"{Topic}", 0, "there is no placeholder {Topic}"},
		{strings.Repeat("x", template.MaxLength+1), template.MaxLength, "longer than"},
	} {
		t.Run(tc.text[:min(len(tc.text), 20)], func(t *testing.T) {
			_, err := template.Parse(tc.text)
			var syntax *template.SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("got %v, want a SyntaxError", err)
			}
			if syntax.Offset != tc.offset || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q at %d, want %q at %d", err, syntax.Offset, tc.want, tc.offset)
			}
		})
	}
}

func TestConstant(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		constant   bool
	}{
		{"", "", true},
		{"a{{b", "a{b", true},
		{"a{topic}", "", false},
		{"{topic}", "", false},
	} {
		tpl, err := template.Parse(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := tpl.Constant(); got != tc.want || ok != tc.constant {
			t.Errorf("%q: got %q, %v; want %q, %v", tc.text, got, ok, tc.want, tc.constant)
		}
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	tpl, err := template.Parse("{topic}/{partition}/{offset}/{value.a.b}/{timestamp:2006-01-02}")
	if err != nil {
		t.Fatal(err)
	}
	r, buf := record(), make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { buf, _ = tpl.Append(buf[:0], r) }); n != 0 {
		t.Errorf("got %v allocations per record, want 0", n)
	}
}

func TestImportsOnlyStandardLibrary(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/sluicehq/sluice/pluginapi"
	for dep := range strings.FieldsSeq(string(out)) {
		if dep != module && dep != module+"/data" && dep != module+"/template" {
			t.Errorf("pluginapi/template imports %s; a WASM guest would have to link it", dep)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"{topic}", "{value.`a.b`}", "{{", "{timestamp:2006}", "{header.x}", "{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tpl, err := template.Parse(text)
		if err != nil {
			return
		}
		if _, err := tpl.Append(nil, record()); err != nil {
			var field *template.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}

func ExampleTemplate_Append() {
	tpl, err := template.Parse("{topic}/{timestamp:2006/01/02}/{value.a.b}.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	path, err := tpl.Append(nil, record())
	fmt.Println(string(path), err)
	// Output: orders/2025/11/29/nested.json <nil>
}
