package kafka

import (
	"reflect"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

func TestPut(t *testing.T) {
	b := func(s string) pluginapi.Datum { return pluginapi.BytesDatum([]byte(s)) }
	at := time.UnixMilli(7).UTC()
	headers := []pluginapi.Header{{Key: "region", Value: b("eu")}, {Key: "region", Value: b("us")}}
	record := pluginapi.Record{Topic: "in", Partition: 3, Offset: 9, Timestamp: at, TimestampType: pluginapi.CreateTime, Key: b("k"), Value: b("v"), Headers: headers}
	tombstone := record
	tombstone.Value, tombstone.Headers, tombstone.TimestampType = pluginapi.Datum{}, nil, pluginapi.NoTimestamp
	for _, tc := range []struct {
		name   string
		config map[string]any
		record pluginapi.Record
		want   *pluginapi.Emitted
		reject string // Its code.
	}{
		{"everything is copied", map[string]any{"topic": "out"}, record, &pluginapi.Emitted{Topic: "out", Partition: 3, Timestamp: at, Key: b("k"), Value: b("v"), Headers: headers}, ""},
		{"by what the record says", map[string]any{"topic": "{topic}-{header.region}"}, record, &pluginapi.Emitted{Topic: "in-us", Partition: 3, Timestamp: at, Key: b("k"), Value: b("v"), Headers: headers}, ""},
		{"its partition", map[string]any{"topic": "out", "partition": "source"}, record, &pluginapi.Emitted{Topic: "out", Partition: 3, Placed: true, Timestamp: at, Key: b("k"), Value: b("v"), Headers: headers}, ""},
		{"without headers and timestamp", map[string]any{"topic": "out", "headers": false, "timestamp": false}, record, &pluginapi.Emitted{Topic: "out", Partition: 3, Key: b("k"), Value: b("v")}, ""},
		{"a tombstone", map[string]any{"topic": "out"}, tombstone, &pluginapi.Emitted{Topic: "out", Partition: 3, Key: b("k")}, ""},
		{"a tombstone that is not wanted", map[string]any{"topic": "out", "tombstones": "drop"}, tombstone, nil, ""},
		{"a template it has nothing for", map[string]any{"topic": "{header.region}"}, tombstone, nil, "topic"},
		{"back to where it was read", map[string]any{"topic": "{topic}"}, record, nil, "loop"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := Plugin().New()
			values := map[string]any{"partition": "key", "headers": true, "timestamp": true, "tombstones": "forward"}
			for k, v := range tc.config {
				values[k] = v
			}
			if err := s.Start(t.Context(), pluginapi.Config{Values: values}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // What it keeps from put to put changes nothing.
				got, err := s.Put(t.Context(), []pluginapi.Record{record, tc.record})
				if err != nil || len(got) != 2 {
					t.Fatalf("got %v, %v", got, err)
				}
				switch r := got[1]; {
				case tc.reject != "":
					if r.Outcome != pluginapi.Reject || r.Err.Code != tc.reject || len(r.Emitted) > 0 {
						t.Errorf("got %+v, want it rejected for its %s", r, tc.reject)
					}
				case r.Outcome != pluginapi.Accept:
					t.Errorf("got %v %v, want it accepted", r.Outcome, r.Err)
				case tc.want == nil && len(r.Emitted) > 0, tc.want != nil && (len(r.Emitted) != 1 || !reflect.DeepEqual(r.Emitted[0], *tc.want)):
					t.Errorf("got %+v, want %+v", r.Emitted, tc.want)
				}
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	for _, topic := range []string{"", "{nonsense", "{no}"} {
		if err := Plugin().New().Start(t.Context(), pluginapi.Config{Values: map[string]any{"topic": topic}}); err == nil {
			t.Errorf("topic %q is taken", topic)
		}
	}
}
