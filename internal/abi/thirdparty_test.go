package abi

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// The tests in this file build frames from docs/abi/frames.cddl with a CBOR
// library that shares nothing with this package.

// pairs is a map whose entries keep their order.
type pairs [][2]any

func (p pairs) MarshalCBOR() ([]byte, error) {
	out := appendMap(nil, len(p))
	for _, kv := range p {
		for _, v := range kv {
			b, err := cbor.Marshal(v)
			if err != nil {
				return nil, err
			}
			out = append(out, b...)
		}
	}
	return out, nil
}

var undefined = cbor.RawMessage{0xf7}

// foreignSchemas numbers schemas: each, then its fields, key and elements.
type foreignSchemas struct {
	list  []*data.Schema
	index map[*data.Schema]int
}

func (f *foreignSchemas) add(s *data.Schema) {
	if s == nil {
		return
	}
	if _, ok := f.index[s]; ok {
		return
	}
	f.index[s] = len(f.list)
	f.list = append(f.list, s)
	for _, field := range s.Fields {
		f.add(field.Schema)
	}
	f.add(s.Key)
	f.add(s.Elem)
}

func (f *foreignSchemas) number(s *data.Schema) any {
	if s == nil {
		return nil
	}
	return f.index[s]
}

func (f *foreignSchemas) schema(s *data.Schema) any {
	var name, of any
	if s.Name != "" {
		name = s.Name
	}
	params := pairs{}
	for _, k := range slices.Sorted(maps.Keys(s.Params)) {
		params = append(params, [2]any{k, s.Params[k]})
	}
	switch s.Kind {
	case data.KindStruct:
		fields := []any{}
		for _, field := range s.Fields {
			fields = append(fields, []any{field.Name, f.number(field.Schema)})
		}
		of = fields
	case data.KindArray:
		of = f.number(s.Elem)
	case data.KindMap:
		of = []any{f.number(s.Key), f.number(s.Elem)}
	default: // Null.
	}
	out := []any{int(s.Kind), name, s.Optional, foreignValue(s.Default), params, of}
	if s.Version > 0 || s.Doc != "" {
		out = append(out, s.Version)
	}
	if s.Doc != "" {
		out = append(out, s.Doc)
	}
	return out
}

func foreignValue(v data.Value) any {
	switch v.Kind() {
	case data.KindMissing:
		return undefined
	case data.KindNull:
		return nil
	case data.KindBool:
		return v.Bool()
	case data.KindUint64:
		n, _ := v.Uint()
		return n
	case data.KindFloat32:
		f, _ := v.Float()
		return cbor.RawMessage(binary.BigEndian.AppendUint32([]byte{0xfa}, math.Float32bits(float32(f))))
	case data.KindFloat64:
		f, _ := v.Float()
		return cbor.RawMessage(binary.BigEndian.AppendUint64([]byte{0xfb}, math.Float64bits(f)))
	case data.KindString:
		return v.Str()
	case data.KindBytes:
		return v.Bytes()
	case data.KindDecimal:
		d := v.Decimal()
		return cbor.Tag{Number: 4, Content: []any{-int(d.Scale()), *d.Unscaled()}}
	case data.KindDate:
		return cbor.Tag{Number: 100, Content: v.Days()}
	case data.KindTime:
		return int64(v.TimeOfDay())
	case data.KindTimestamp:
		p := pairs{{1, v.Instant().Unix()}}
		if ns := v.Instant().Nanosecond(); ns != 0 {
			p = append(p, [2]any{-9, ns})
		}
		return cbor.Tag{Number: 1001, Content: p}
	case data.KindUUID:
		u := v.UUID()
		return cbor.Tag{Number: 37, Content: u[:]}
	case data.KindArray:
		return foreignValues(v.Elems())
	case data.KindStruct:
		return foreignValues(v.Struct().Fields)
	case data.KindMap:
		p := pairs{}
		for _, e := range v.Entries() {
			p = append(p, [2]any{foreignValue(e.Key), foreignValue(e.Value)})
		}
		return p
	default:
		n, _ := v.Int()
		return n
	}
}

func foreignValues(list []data.Value) []any {
	out := []any{}
	for _, v := range list {
		out = append(out, foreignValue(v))
	}
	return out
}

func (f *foreignSchemas) datum(d pluginapi.Datum) any {
	if b, ok := d.Bytes(); ok {
		return b
	}
	if typed, ok := d.Data(); ok {
		return []any{f.number(typed.Schema), foreignValue(typed.Value)}
	}
	return nil
}

func foreignRequest(t cbor.EncMode, h PutHeader, batch []pluginapi.Record) ([]byte, error) {
	schemas := foreignSchemas{index: map[*data.Schema]int{}}
	type topic struct {
		name string
		id   pluginapi.TopicID
	}
	topics, topicList := map[topic]int{}, []any{}
	for _, rec := range batch {
		key := topic{rec.Topic, rec.TopicID}
		if _, ok := topics[key]; !ok {
			topics[key] = len(topics)
			var id any
			if rec.TopicID != (pluginapi.TopicID{}) {
				id = rec.TopicID[:]
			}
			topicList = append(topicList, []any{rec.Topic, id})
		}
		for _, d := range append([]pluginapi.Datum{rec.Key, rec.Value}, headerValues(rec.Headers)...) {
			if typed, ok := d.Data(); ok {
				schemas.add(typed.Schema)
			}
		}
	}
	schemaList := []any{}
	for _, s := range schemas.list {
		schemaList = append(schemaList, schemas.schema(s))
	}
	records := []any{}
	for _, rec := range batch {
		var millis int64
		if rec.TimestampType != pluginapi.NoTimestamp {
			millis = rec.Timestamp.UnixMilli()
		}
		out := []any{
			topics[topic{rec.Topic, rec.TopicID}], rec.Partition, rec.Offset, millis, int(rec.TimestampType),
			schemas.datum(rec.Key), schemas.datum(rec.Value),
		}
		if len(rec.Headers) > 0 {
			headers := []any{}
			for _, h := range rec.Headers {
				headers = append(headers, []any{h.Key, schemas.datum(h.Value)})
			}
			out = append(out, headers)
		}
		records = append(records, out)
	}
	header := pairs{{"deadline-ms", h.Deadline.Milliseconds()}, {"connector", h.Connector}, {"task", h.Task}}
	return t.Marshal([]any{1, header, topicList, schemaList, records})
}

func headerValues(headers []pluginapi.Header) []pluginapi.Datum {
	var out []pluginapi.Datum
	for _, h := range headers {
		out = append(out, h.Value)
	}
	return out
}

func TestPutRequestAgainstThirdParty(t *testing.T) {
	enc, err := cbor.EncOptions{BigIntConvert: cbor.BigIntConvertShortest}.EncMode()
	if err != nil {
		t.Fatal(err)
	}
	dec, err := cbor.DecOptions{MaxNestedLevels: 256}.DecMode()
	if err != nil {
		t.Fatal(err)
	}
	header := PutHeader{Deadline: 30 * time.Second, Connector: "orders", Task: 2}
	rapid.Check(t, func(t *rapid.T) {
		batch := genBatch(t)
		foreign, err := foreignRequest(enc, header, batch)
		if err != nil {
			t.Fatal(err)
		}
		ours := AppendPutRequest(nil, header, batch)
		if !bytes.Equal(ours, foreign) {
			t.Fatalf("got %x, want %x", ours, foreign)
		}
		if err := dec.Wellformed(ours); err != nil {
			t.Fatalf("frame %x: %v", ours, err)
		}
		// The same in wider integers, as another writer may have it.
		_, got, err := DecodePutRequest(widen(t, foreign))
		if err != nil {
			t.Fatal(err)
		}
		if err := diffRecords(got, batch); err != nil {
			t.Fatal(err)
		}
	})
}

// widen writes a frame again with some of its heads in more bytes than needed.
func widen(t *rapid.T, frame []byte) []byte {
	r := reader{buf: frame}
	var out []byte
	for r.pos < len(frame) {
		start := r.pos
		major, _, n := r.head()
		if major == majorSimple {
			out = append(out, frame[start:r.pos]...)
			continue
		}
		switch width := rapid.IntRange(0, 4).Draw(t, "width"); {
		case width == 1 && n <= math.MaxUint8:
			out = append(out, major|24, byte(n))
		case width == 2 && n <= math.MaxUint16:
			out = binary.BigEndian.AppendUint16(append(out, major|25), uint16(n))
		case width == 3 && n <= math.MaxUint32:
			out = binary.BigEndian.AppendUint32(append(out, major|26), uint32(n))
		case width == 4:
			out = binary.BigEndian.AppendUint64(append(out, major|27), n)
		default:
			out = appendHead(out, major, n)
		}
		if major == majorBytes || major == majorText {
			out = append(out, r.take(n)...)
		}
	}
	return out
}

func TestPutResponseAgainstThirdParty(t *testing.T) {
	results := []pluginapi.Result{
		{Outcome: pluginapi.Accept},
		{Outcome: pluginapi.Retry, Err: &pluginapi.Error{Class: pluginapi.Throttled, Code: "429", Message: "später", RetryAfter: 1500 * time.Microsecond}},
		pluginapi.Rejected("23505", "duplicate"),
	}
	wire := []any{1, []any{2, 2, "429", "später", 2}, []any{3, 6, "23505", "duplicate", 0}}
	emitting := []pluginapi.Result{{Outcome: pluginapi.Accept, Emitted: []pluginapi.Emitted{
		{Topic: "t", Value: pluginapi.BytesDatum([]byte("v"))},
		{
			Topic: "u", Placed: true, Partition: 7, Timestamp: time.UnixMilli(5), Key: pluginapi.DataDatum(&data.Typed{Value: data.String("k")}),
			Headers: []pluginapi.Header{{Key: "h", Value: pluginapi.BytesDatum([]byte("w"))}},
		},
	}}}
	emitted := []any{[]any{1, 0, "", "", 0, []any{
		[]any{"t", nil, nil, nil, []byte("v")}, []any{"u", 7, 5, []any{nil, "k"}, nil, []any{[]any{"h", []byte("w")}}},
	}}}
	fault := &pluginapi.Error{Class: pluginapi.Unavailable, Code: "x", Message: "down"}
	for _, tc := range []struct {
		name  string
		frame []byte
		want  any
	}{
		{"rest", AppendPutResponse(nil, false, 0, results), []any{1, 0, 0, wire}},
		{"part", AppendPutResponse(nil, true, 300, results), []any{1, 2, 300, wire}},
		{"emitting", AppendPutResponse(nil, true, 0, emitting), []any{1, 2, 0, emitted}},
		{"error", AppendPutError(nil, fault, 2, results[:1]), []any{1, 1, []any{3, "x", "down", 0}, 2, wire[:1]}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, err := cbor.Marshal(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(tc.frame, want) {
				t.Errorf("got %x, want %x", tc.frame, want)
			}
		})
	}
}

func TestMapsAgainstThirdParty(t *testing.T) {
	settings, values := everySetting()
	desc := pluginapi.Description{ABIVersion: 1, Name: "x", Form: pluginapi.FormData, Settings: settings, Capabilities: []pluginapi.Capability{1}}
	start := pluginapi.Config{Connector: "c", Task: 1, Values: values}
	for _, tc := range []struct {
		name  string
		frame []byte
		read  func(b []byte) (any, error)
		want  any
	}{
		{"description", AppendDescription(nil, &desc), func(b []byte) (any, error) { return DecodeDescription(b) }, desc},
		{"start", AppendStart(nil, start, settings), func(b []byte) (any, error) { return DecodeStart(b, settings) }, start},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dec, err := cbor.DecOptions{UTF8: cbor.UTF8RejectInvalid, DupMapKey: cbor.DupMapKeyEnforcedAPF}.DecMode()
			if err != nil {
				t.Fatal(err)
			}
			var m map[string]any
			if err := dec.Unmarshal(tc.frame, &m); err != nil {
				t.Fatal(err)
			}
			m["what comes later"] = []any{map[int]int{1: 2}}
			// Written by the library, in an order of its own.
			for _, sort := range []cbor.SortMode{cbor.SortLengthFirst, cbor.SortBytewiseLexical} {
				enc, err := cbor.EncOptions{Sort: sort, ShortestFloat: cbor.ShortestFloat16}.EncMode()
				if err != nil {
					t.Fatal(err)
				}
				foreign, err := enc.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				got, err := tc.read(foreign)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, tc.want) {
					t.Errorf("got  %+v\nwant %+v", got, tc.want)
				}
			}
		})
	}
}
