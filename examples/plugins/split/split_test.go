package split

import (
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

func TestPut(t *testing.T) {
	object := func(v data.Value) pluginapi.Datum {
		return pluginapi.DataDatum(&data.Typed{Value: data.Map([]data.Entry{{Key: data.String("lines"), Value: v}})})
	}
	s := Plugin().New()
	if err := s.Start(t.Context(), pluginapi.Config{Values: map[string]any{"topic": "out", "field": "lines"}}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		value  pluginapi.Datum
		want   []string // KEY=VALUE.
		reject bool
	}{
		{"a list", object(data.Array([]data.Value{data.Int64(1), data.String("x")})), []string{"k/0=1", "k/1=x"}, false},
		{"an empty list", object(data.Array(nil)), nil, false},
		{"no list", object(data.Int64(1)), []string{`k={"lines":1}`}, false},
		{"no field", pluginapi.DataDatum(&data.Typed{Value: data.Map(nil)}), nil, false},
		{"a tombstone", pluginapi.Datum{}, nil, false},
		{"bytes", pluginapi.BytesDatum([]byte("{}")), nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := s.Put(t.Context(), []pluginapi.Record{{Key: pluginapi.BytesDatum([]byte("k")), Value: tc.value}})
			if err != nil || len(got) != 1 || (got[0].Outcome == pluginapi.Reject) != tc.reject || len(got[0].Emitted) != len(tc.want) {
				t.Fatalf("got %+v, %v; want %q, rejected %t", got, err, tc.want, tc.reject)
			}
			for i, e := range got[0].Emitted {
				if have := string(e.Key.AppendText(nil)) + "=" + string(e.Value.AppendText(nil)); e.Topic != "out" || have != tc.want[i] {
					t.Errorf("record %d: got %s to %s, want %s to out", i, have, e.Topic, tc.want[i])
				}
			}
		})
	}
}
