package convert

import (
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

func TestEncode(t *testing.T) {
	object := data.Map([]data.Entry{{Key: data.String("a"), Value: data.Int64(1)}})
	typed := func(v data.Value) pluginapi.Datum { return pluginapi.DataDatum(&data.Typed{Value: v}) }
	for _, tc := range []struct {
		name      string
		converter string
		options   map[string]any
		datum     pluginapi.Datum
		want      string
		absent    bool
		err       bool
	}{
		{"bytes as they are", "json", nil, pluginapi.BytesDatum([]byte("{")), "{", false, false},
		{"absent stays so", "json", nil, pluginapi.Datum{}, "", true, false},
		{"empty bytes are not absent", "bytes", nil, pluginapi.BytesDatum([]byte{}), "", false, false},
		{"an empty string is not absent", "string", nil, typed(data.String("")), "", false, false},
		{"text", "string", nil, typed(data.String("ü")), "ü", false, false},
		{"an object as json", "json", nil, typed(object), `{"a":1}`, false, false},
		{"an object without a converter", "bytes", nil, typed(object), `{"a":1}`, false, false},
		{"a string as json", "json", nil, typed(data.String("x")), `"x"`, false, false},
		{"null as json", "json", nil, typed(data.Null()), "null", false, false},
		{"with its schema", "json", map[string]any{"schemas_enable": true}, typed(object), "", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := New(Spec{Name: tc.converter, Options: tc.options})
			if err != nil {
				t.Fatal(err)
			}
			for name, encode := range map[string]func(pluginapi.Datum) ([]byte, error){
				"key": (&Chain{Key: c}).EncodeKey, "value": (&Chain{Value: c}).EncodeValue, "header": (&Chain{Header: c}).EncodeHeader,
			} {
				got, err := encode(tc.datum)
				if (err != nil) != tc.err || string(got) != tc.want || !tc.err && (got == nil) != tc.absent {
					t.Errorf("%s: got %q (nil %t), %v; want %q", name, got, got == nil, err, tc.want)
				}
			}
		})
	}
	if got, err := (*Chain)(nil).EncodeValue(typed(object)); err != nil || string(got) != `{"a":1}` {
		t.Errorf("without a chain: got %q, %v", got, err)
	}
}
