package convert_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/convert"
	"github.com/sluicehq/sluice/pluginapi"
)

func converter(t testing.TB, name string, options map[string]any) convert.Converter {
	t.Helper()
	c, err := convert.New(convert.Spec{Name: name, Options: options})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// show writes a datum so that absent, bytes and data are told apart.
func show(d pluginapi.Datum) string {
	if d.IsAbsent() {
		return "absent"
	}
	if b, ok := d.Bytes(); ok {
		return "bytes " + string(b)
	}
	typed, _ := d.Data()
	return typed.Value.Kind().String() + " " + string(typed.Value.AppendJSON(nil))
}

// TestCONV01Tombstone: what is absent stays so in every converter, and is told
// apart from empty bytes and from a null within the text.
func TestCONV01Tombstone(t *testing.T) {
	envelope := map[string]any{"schemas_enable": true}
	schemaless := map[string]any{"schemas_enable": false}
	for _, tc := range []struct {
		name, converter string
		options         map[string]any
		in              []byte
		want            string
	}{
		{"bytes, absent", "bytes", nil, nil, "absent"},
		{"bytes, empty", "bytes", nil, []byte{}, "bytes "},
		{"bytes, null", "bytes", nil, []byte("null"), "bytes null"},
		{"string, absent", "string", nil, nil, "absent"},
		{"string, empty", "string", nil, []byte{}, `string ""`},
		{"string, null", "string", nil, []byte("null"), `string "null"`},
		{"json, absent", "json", nil, nil, "absent"},
		{"json, empty", "json", nil, []byte{}, "read JSON: position 1: the bytes are empty; want a value"},
		{"json, null", "json", nil, []byte("null"), "null null"},
		{"json, envelope of null", "json", nil, []byte(`{"schema":null,"payload":null}`), "null null"},
		{"json with schemas, absent", "json", envelope, nil, "absent"},
		{"json with schemas, empty", "json", envelope, []byte{}, "read JSON: position 1: the bytes are empty; want a value"},
		{"json with schemas, null", "json", envelope, []byte("null"), `read JSON: position 1: want an object with exactly the fields "schema" and "payload"; for records without a schema set schemas_enable = false`},
		{"json with schemas, envelope of null", "json", envelope, []byte(`{"schema":null,"payload":null}`), "null null"},
		{"json without schemas, absent", "json", schemaless, nil, "absent"},
		{"json without schemas, envelope of null", "json", schemaless, []byte(`{"schema":null,"payload":null}`), `map {"schema":null,"payload":null}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			chain := convert.Chain{Value: converter(t, tc.converter, tc.options)}
			var out pluginapi.Record
			keep, err := chain.Convert(&pluginapi.Record{Value: pluginapi.BytesDatum(tc.in)}, &out)
			got := show(out.Value)
			if err != nil {
				got = err.Error()
			}
			if got != tc.want || keep != (err == nil) {
				t.Errorf("got %s, kept %v; want %s", got, keep, tc.want)
			}
		})
	}
}

// TestCONV20HeaderText: header text that looks like something else is changed
// by no converter that was not asked to.
func TestCONV20HeaderText(t *testing.T) {
	values := []string{"1::2", "69203120e780", "  0.11", "007", "true ", "1E-2", "14:34:22.222Z", "{a", "null", "\xc3\x28", ""}
	rec := pluginapi.Record{}
	for _, v := range values {
		rec.Headers = append(rec.Headers, pluginapi.Header{Key: "h", Value: pluginapi.BytesDatum([]byte(v))})
	}
	for _, c := range []convert.Converter{nil, converter(t, "", nil), converter(t, "bytes", nil)} {
		var out pluginapi.Record
		if _, err := (&convert.Chain{Header: c}).Convert(&rec, &out); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if got, ok := out.Headers[i].Value.Bytes(); !ok || string(got) != v {
				t.Errorf("header %q came out as %s", v, show(out.Headers[i].Value))
			}
		}
	}
	text := converter(t, "string", nil)
	for _, v := range values {
		d, err := text.Convert([]byte(v))
		if v == "\xc3\x28" {
			if !errors.Is(err, convert.ErrUTF8) || !strings.Contains(err.Error(), "position 1") {
				t.Errorf("invalid UTF-8: got %v", err)
			}
			continue
		}
		if typed, _ := d.Data(); err != nil || typed.Value.Str() != v {
			t.Errorf("%q came out as %s, %v", v, show(d), err)
		}
	}
}

func TestChainStages(t *testing.T) {
	bad := pluginapi.BytesDatum([]byte("{"))
	json := converter(t, "json", nil)
	chain := convert.Chain{Key: json, Value: json, Header: json}
	for _, tc := range []struct {
		name  string
		rec   pluginapi.Record
		stage string
		text  string
	}{
		{"key", pluginapi.Record{Key: bad, Value: bad}, convert.StageKey, "position 2"},
		{"value", pluginapi.Record{Value: bad}, convert.StageValue, "position 2"},
		{"header", pluginapi.Record{Headers: []pluginapi.Header{{Key: "none"}, {Key: "h\n", Value: bad}}}, convert.StageHeader, `header "h\n": read JSON: position 2`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out pluginapi.Record
			_, err := chain.Convert(&tc.rec, &out)
			var stage *convert.Error
			if !errors.As(err, &stage) || stage.Stage != tc.stage || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v (%+v), want %s in stage %s", err, stage, tc.text, tc.stage)
			}
		})
	}
}

func TestChainLeavesRecordAlone(t *testing.T) {
	rec := pluginapi.Record{
		Topic: "orders", Partition: 1, Offset: 2,
		Key:   pluginapi.BytesDatum([]byte(`"k\n"`)),
		Value: pluginapi.BytesDatum([]byte(`{"a":"x"}`)),
		Headers: []pluginapi.Header{
			{Key: "h", Value: pluginapi.BytesDatum([]byte(`1`))},
			{Key: "n"},
		},
	}
	json := converter(t, "json", nil)
	var out pluginapi.Record
	if _, err := (&convert.Chain{Key: json, Value: json, Header: json}).Convert(&rec, &out); err != nil {
		t.Fatal(err)
	}
	got := []string{out.Topic, show(out.Key), show(out.Value), show(out.Headers[0].Value), show(out.Headers[1].Value)}
	if want := []string{"orders", `string "k\n"`, `map {"a":"x"}`, "int64 1", "absent"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = []string{show(rec.Key), show(rec.Value), show(rec.Headers[0].Value)}
	if want := []string{`bytes "k\n"`, `bytes {"a":"x"}`, "bytes 1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the record became %q, want %q", got, want)
	}
	// What is not bytes any more, a transform's work, is left as it is.
	again := out
	if _, err := (&convert.Chain{Value: json}).Convert(&again, &out); err != nil || show(out.Value) != `map {"a":"x"}` {
		t.Errorf("data came out as %s, %v", show(out.Value), err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		spec convert.Spec
		want string
	}{
		{"converter", convert.Spec{Name: "avro"}, `converter "avro" is not known; use bytes, json, string`},
		{"option", convert.Spec{Name: "json", Options: map[string]any{"schema_enable": true}}, `converter "json" has no option "schema_enable"; it has schemas_enable`},
		{"option of none", convert.Spec{Name: "string", Options: map[string]any{"x": true}}, `converter "string" has no option "x"; it has none`},
		{"type", convert.Spec{Name: "json", Options: map[string]any{"schemas_enable": "yes"}}, `converter "json": option schemas_enable is a string, want bool`},
		{"range", convert.Spec{Name: "json", Options: map[string]any{"schemas_cache_size": int64(-1)}}, "outside 0 to"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := convert.New(tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestSettingsAreSound(t *testing.T) {
	for _, name := range convert.Names() {
		settings, ok := convert.Settings(name)
		if !ok {
			t.Errorf("%s has no settings", name)
		}
		d := pluginapi.Description{ABIVersion: pluginapi.ABIVersion, Name: name, Form: pluginapi.FormData, Settings: settings}
		if err := d.Validate(); err != nil {
			t.Error(err)
		}
	}
}
