package abi

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPutRequestIsLenient(t *testing.T) {
	topics := []any{[]any{"a", nil, "later"}, []any{"b"}}
	for _, tc := range []struct {
		name   string
		record any
		want   pluginapi.Record
	}{
		{"defaults left out", []any{1}, pluginapi.Record{Topic: "b"}},
		{"undefined for null", []any{0, 1, 2, 0, 0, undefined}, pluginapi.Record{Topic: "a", Partition: 1, Offset: 2}},
		{
			"unknown trailing elements",
			[]any{0, 0, 0, 5, 1, nil, []byte{}, []any{[]any{"h", nil, 1}}, map[string]any{"new": []any{1, 2}}, cbor.Tag{Number: 9, Content: 1}},
			pluginapi.Record{
				Topic: "a", Timestamp: time.UnixMilli(5), TimestampType: pluginapi.CreateTime,
				Value: pluginapi.BytesDatum([]byte{}), Headers: []pluginapi.Header{{Key: "h"}},
			},
		},
		{
			"value that does not fit its schema",
			[]any{0, 0, 0, 0, 0, []any{0, 300}},
			pluginapi.Record{Topic: "a", Key: pluginapi.DataDatum(&data.Typed{Schema: &data.Schema{Kind: data.KindInt8}, Value: data.Int64(300)})},
		},
		{
			"unknown tag",
			[]any{0, 0, 0, 0, 0, []any{nil, cbor.Tag{Number: 55799, Content: "x"}}},
			pluginapi.Record{Topic: "a", Key: pluginapi.DataDatum(&data.Typed{Value: data.String("x")})},
		},
		{
			"half float",
			[]any{0, 0, 0, 0, 0, []any{nil, cbor.RawMessage{0xf9, 0xc1, 0x00}}},
			pluginapi.Record{Topic: "a", Key: pluginapi.DataDatum(&data.Typed{Value: data.Float32(-2.5)})},
		},
		{
			"fields left out and added",
			[]any{0, 0, 0, 0, 0, []any{1, []any{true}}, []any{1, []any{false, nil, 9}}},
			pluginapi.Record{
				Topic: "a",
				Key:   pluginapi.DataDatum(&data.Typed{Schema: pairSchema(), Value: data.StructValue(pairSchema(), []data.Value{data.Bool(true), {}})}),
				Value: pluginapi.DataDatum(&data.Typed{Schema: pairSchema(), Value: data.StructValue(pairSchema(), []data.Value{data.Bool(false), data.Null()})}),
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			schemas := []any{[]any{3}, []any{19, nil, false, undefined, map[string]string{}, []any{[]any{"a", 2}, []any{"b", nil}}}, []any{2}}
			frame := marshal(t, []any{1, map[string]any{"new": 1, "task": 4}, topics, schemas, []any{tc.record}, "later"})
			h, got, err := DecodePutRequest(frame)
			if err != nil {
				t.Fatal(err)
			}
			if h.Task != 4 {
				t.Errorf("got task %d, want 4", h.Task)
			}
			if err := diffRecords(got, []pluginapi.Record{tc.want}); err != nil {
				t.Error(err)
			}
		})
	}
}

func pairSchema() *data.Schema {
	return data.NewStruct("", data.Field{Name: "a", Schema: &data.Schema{Kind: data.KindBool}}, data.Field{Name: "b"})
}

func TestPutRequestMalformed(t *testing.T) {
	deep := append(bytes.Repeat([]byte{0x81}, maxDepth+2), 0xf6)
	value := func(v any) []any {
		return []any{1, map[string]any{}, []any{[]any{"a"}}, []any{}, []any{[]any{0, 0, 0, 0, 0, []any{nil, v}}}}
	}
	raw := func(hex ...byte) []byte {
		return bytes.Replace(marshal(t, value("MARK")), marshal(t, "MARK"), hex, 1)
	}
	for _, tc := range []struct {
		name  string
		frame any
		want  string
	}{
		{"empty", []byte{}, "ends early"},
		{"not an array", 1, "want an array"},
		{"no version", []any{}, "without a version"},
		{"later version", []any{2}, "version 2"},
		{"huge length", []byte{0x85, 1, 0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "more than the frame holds"},
		{"topic out of range", []any{1, map[string]any{}, []any{}, []any{}, []any{[]any{0}}}, "topic number 0 of 0"},
		{"schema out of range", []any{1, map[string]any{}, []any{[]any{"a"}}, []any{}, []any{[]any{0, 0, 0, 0, 0, []any{3, 1}}}}, "schema number 3 of 0"},
		{"schema refers out of range", []any{1, map[string]any{}, []any{}, []any{[]any{17, nil, false, nil, map[string]any{}, 9}}}, "schema number 9 of 1"},
		{"wide partition", []any{1, map[string]any{}, []any{[]any{"a"}}, []any{}, []any{[]any{0, 1 << 40}}}, "outside 32 bits"},
		{"topic id", []any{1, map[string]any{}, []any{[]any{"a", []byte{1}}}}, "topic id of 1 bytes"},
		{"bytes after the end", []byte{0x81, 1, 0}, "after the end"},
		{"value too deep", raw(deep...), "nests deeper"},
		{"indefinite array", raw(0x9f, 0x00, 0xff), "indefinite length"},
		{"reserved head", raw(0x1c), "reserved head"},
		{"simple value", raw(0xf8, 0xff), "not known"},
		{"simple value in two bytes", raw(0xf8, 0x14), "in two bytes"},
		{"short uuid", value(cbor.Tag{Number: 37, Content: []byte{1}}), "uuid of 1 bytes"},
		{"decimal exponent", value(cbor.Tag{Number: 4, Content: []any{1 << 20, 1}}), "out of bounds"},
		{"decimal mantissa", value(cbor.Tag{Number: 4, Content: []any{1, "x"}}), "want an integer"},
		{"long bignum", value(cbor.Tag{Number: 2, Content: make([]byte, maxBignum+1)}), "bignum"},
		{"wide date", value(cbor.Tag{Number: 100, Content: 1 << 40}), "outside 32 bits"},
		{"timestamp key", value(cbor.Tag{Number: 1001, Content: map[int]int{7: 1}}), "key 7"},
		{"nanoseconds", value(cbor.Tag{Number: 1001, Content: map[int]int{-9: 1_000_000_000}}), "nanoseconds"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			frame, ok := tc.frame.([]byte)
			if !ok {
				frame = marshal(t, tc.frame)
			}
			_, _, err := DecodePutRequest(frame)
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTooManyFieldsLeftOut(t *testing.T) {
	fields := make([]any, 2000)
	for i := range fields {
		fields[i] = []any{"f", nil}
	}
	records := make([]any, 4000)
	for i := range records {
		records[i] = []any{0, 0, 0, 0, 0, []any{0, []any{}}}
	}
	schemas := []any{[]any{19, nil, false, undefined, map[string]any{}, fields}}
	_, _, err := DecodePutRequest(marshal(t, []any{1, map[string]any{}, []any{[]any{"a"}}, schemas, records}))
	if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "left out") {
		t.Errorf("got %v, want too many fields left out", err)
	}
}

func TestSchemaMayReferToItself(t *testing.T) {
	node := data.NewStruct("node", data.Field{Name: "next"})
	node.Fields[0].Schema = node
	list := data.StructValue(node, []data.Value{data.StructValue(node, []data.Value{data.Null()})})
	batch := []pluginapi.Record{{Topic: "t", Value: pluginapi.DataDatum(&data.Typed{Schema: node, Value: list})}}
	var dec Decoder
	var last *data.Schema
	for i := range 2 {
		batch[0].Offset = int64(i)
		_, got, err := dec.PutRequest(AppendPutRequest(nil, PutHeader{}, batch))
		if err != nil {
			t.Fatal(err)
		}
		typed, _ := got[0].Value.Data()
		if s := typed.Schema; s.Fields[0].Schema != s || !typed.Value.Equal(list) {
			t.Errorf("got %+v, want a struct of itself", s)
		}
		if last != nil && typed.Schema != last {
			t.Error("the same schema in the next frame is another pointer")
		}
		last = typed.Schema
	}
}

func TestInvalidTextIsReplaced(t *testing.T) {
	batch := []pluginapi.Record{{Topic: "t", Headers: []pluginapi.Header{{Key: "a\xffb"}}}}
	_, got, err := DecodePutRequest(AppendPutRequest(nil, PutHeader{}, batch))
	if err != nil {
		t.Fatal(err)
	}
	if key := got[0].Headers[0].Key; key != "a\ufffdb" {
		t.Errorf("got %q", key)
	}
}

func TestPutResponseMalformed(t *testing.T) {
	accept := pluginapi.Result{Outcome: pluginapi.Accept}
	for _, tc := range []struct {
		name   string
		frame  any
		want   string
		stored []pluginapi.Result
	}{
		{"too many", []any{1, 0, 0, []any{1, 1, 1}}, "3 results for 2 records", nil},
		{"too few", []any{1, 0, 0, []any{1}}, "1 results for 2 records", nil},
		{"too many from first on", []any{1, 2, 1, []any{1, 1}}, "2 results for 1 records", nil},
		{"first out of range", []any{1, 2, 3, []any{}}, "first record 3 of 2", nil},
		{"first far out of range", []any{1, 2, uint64(1 << 63), []any{}}, "first record", nil},
		{"unknown kind", []any{1, 3, 0, []any{}}, "kind 3", nil},
		{"no error", []any{1, 1, nil, 0, []any{}}, "without an error", nil},
		{"short", []any{1, 0, 0}, "of 3 elements", nil},
		{"garbage behind a good result", []any{1, 0, 0, []any{1, "x"}}, "want an array", nil},
		{"emitted record without a topic", []any{1, 0, 0, []any{1, []any{1, 0, "", "", 0, []any{[]any{}}}}}, "without a topic", nil},
		{"emitted record with a negative partition", []any{1, 0, 0, []any{1, []any{1, 0, "", "", 0, []any{[]any{"t", -1}}}}}, "partition -1", nil},
		{"emitted value of an unknown schema", []any{1, 0, 0, []any{1, []any{1, 0, "", "", 0, []any{[]any{"t", nil, nil, nil, []any{0, 1}}}}}, []any{}}, "schema number 0 of 0", nil},
		{"zero outcome", []any{1, 0, 0, []any{0, 1}}, "record 0: outcome 0", []pluginapi.Result{{}, accept}},
		{"unknown outcome", []any{1, 0, 0, []any{1, 4}}, "record 1: outcome 4", []pluginapi.Result{accept, {}}},
		{"outcome beyond a byte", []any{1, 0, 0, []any{257, []any{258, 1}}}, "outcome 257", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			results := make([]pluginapi.Result, 2)
			_, _, err := DecodePutResponse(marshal(t, tc.frame), results)
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			for i := range results {
				var want pluginapi.Result
				if tc.stored != nil {
					want = tc.stored[i]
				}
				if !reflect.DeepEqual(results[i], want) {
					t.Errorf("result %d: got %+v, want %+v", i, results[i], want)
				}
			}
		})
	}
}

func TestErrorTextIsCut(t *testing.T) {
	long := &pluginapi.Error{Class: pluginapi.Transient, Code: strings.Repeat("c", maxCode+1), Message: strings.Repeat("ü", maxMessage)}
	frame := marshal(t, []any{1, long.Code, long.Message, 0})
	for name, b := range map[string][]byte{"read": frame, "written": AppendError(nil, long)} {
		got, err := DecodeError(b)
		if err != nil {
			t.Fatal(err)
		}
		if got.Code != long.Code[:maxCode] || got.Message != long.Message[:maxMessage] {
			t.Errorf("%s: got a code of %d and a message of %d bytes", name, len(got.Code), len(got.Message))
		}
	}
	if len(AppendError(nil, long)) > maxMessage+maxCode+20 {
		t.Error("the whole text is written")
	}
}

func TestErrorOfLaterVersion(t *testing.T) {
	got, err := DecodeError(marshal(t, []any{99, "c", "m", 5, "later"}))
	want := pluginapi.Error{Code: "c", Message: "m", RetryAfter: 5 * time.Millisecond}
	if err != nil || *got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestStartMalformed(t *testing.T) {
	settings, _ := everySetting()
	for _, tc := range []struct {
		name  string
		start any
		want  string
	}{
		{"wrong type", map[string]any{"settings": map[string]any{"timeout": "1s"}}, `setting "timeout": malformed frame`},
		{"wrong element", map[string]any{"settings": map[string]any{"waits": []any{true}}}, `setting "waits"`},
		{"not a map", []any{}, "want a map"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := DecodeStart(marshal(t, tc.start), settings)
			if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
