package abi

import (
	"fmt"
	"math"
	"math/big"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// genSchema draws a schema of any kind, nested up to depth.
func genSchema(t *rapid.T, depth int) *data.Schema {
	last := data.KindStruct
	if depth == 0 {
		last = data.KindUUID
	}
	s := &data.Schema{Kind: data.Kind(rapid.IntRange(int(data.KindBool), int(last)).Draw(t, "kind"))}
	s.Name = rapid.StringN(0, 8, -1).Draw(t, "name")
	s.Optional = rapid.Bool().Draw(t, "optional")
	s.Version = rapid.IntRange(0, 3).Draw(t, "version")
	s.Doc = rapid.StringN(0, 4, -1).Draw(t, "doc")
	if rapid.Bool().Draw(t, "has params") {
		s.Params = map[string]string{"scale": rapid.String().Draw(t, "param"), "ü": ""}
	}
	switch s.Kind {
	case data.KindArray:
		s.Elem = genSchema(t, depth-1)
	case data.KindMap:
		s.Key = &data.Schema{Kind: data.KindString}
		s.Elem = genSchema(t, depth-1)
	case data.KindStruct:
		for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
			s.Fields = append(s.Fields, data.Field{Name: fmt.Sprintf("f%d", i), Schema: genSchema(t, depth-1)})
		}
		s.Index()
	default: // Has no parts.
	}
	if rapid.Bool().Draw(t, "has default") {
		s.Default = genValue(t, s)
	}
	return s
}

// genValue draws a value that fits s, or null.
func genValue(t *rapid.T, s *data.Schema) data.Value {
	if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
		return data.Null()
	}
	switch s.Kind {
	case data.KindBool:
		return data.Bool(rapid.Bool().Draw(t, "bool"))
	case data.KindInt8:
		return data.Int8(rapid.Int8().Draw(t, "int8"))
	case data.KindInt16:
		return data.Int16(rapid.Int16().Draw(t, "int16"))
	case data.KindInt32:
		return data.Int32(rapid.Int32().Draw(t, "int32"))
	case data.KindInt64:
		return data.Int64(rapid.Int64().Draw(t, "int64"))
	case data.KindUint64:
		return data.Uint64(rapid.Uint64().Draw(t, "uint64"))
	case data.KindFloat32:
		f := math.Float32frombits(rapid.Uint32().Draw(t, "float32"))
		if math.IsNaN(float64(f)) { // A signalling one is quiet after any conversion.
			f = float32(math.NaN())
		}
		return data.Float32(f)
	case data.KindFloat64:
		return data.Float64(math.Float64frombits(rapid.Uint64().Draw(t, "float64")))
	case data.KindString:
		return data.String(rapid.String().Draw(t, "string"))
	case data.KindBytes:
		return data.Bytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case data.KindDecimal:
		n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "digits"))
		if rapid.Bool().Draw(t, "negative") {
			n.Neg(n)
		}
		return data.DecimalValue(data.NewDecimal(n, rapid.Int32Range(-data.MaxScale, data.MaxScale).Draw(t, "scale")))
	case data.KindDate:
		return data.Date(rapid.Int32().Draw(t, "date"))
	case data.KindTime:
		return data.Time(time.Duration(rapid.Int64Range(0, int64(24*time.Hour)-1).Draw(t, "time")))
	case data.KindTimestamp:
		sec := rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds")
		return data.Timestamp(time.Unix(sec, rapid.SampledFrom([]int64{0, 1, 999_999_999}).Draw(t, "nanoseconds")))
	case data.KindUUID:
		return data.UUID([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid")))
	case data.KindArray:
		elems := make([]data.Value, rapid.IntRange(0, 4).Draw(t, "length"))
		for i := range elems {
			elems[i] = genValue(t, s.Elem)
		}
		return data.Array(elems)
	case data.KindMap:
		entries := make([]data.Entry, rapid.IntRange(0, 4).Draw(t, "length"))
		for i := range entries {
			entries[i] = data.Entry{Key: data.String(fmt.Sprint(i)), Value: genValue(t, s.Elem)}
		}
		return data.Map(entries)
	case data.KindStruct:
		fields := make([]data.Value, len(s.Fields))
		for i := range fields {
			if rapid.IntRange(0, 4).Draw(t, "missing") > 0 {
				fields[i] = genValue(t, s.Fields[i].Schema)
			}
		}
		return data.StructValue(s, fields)
	default:
		return data.Null()
	}
}

// schemalessKinds are the kinds that need no schema to come through as they are.
var schemalessKinds = []data.Kind{
	data.KindBool, data.KindInt64, data.KindFloat32, data.KindFloat64, data.KindString,
	data.KindBytes, data.KindDecimal, data.KindDate, data.KindTimestamp, data.KindUUID,
}

func genDatum(t *rapid.T) pluginapi.Datum {
	switch rapid.IntRange(0, 4).Draw(t, "datum") {
	case 0:
		return pluginapi.Datum{}
	case 1, 2:
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		return pluginapi.BytesDatum(append([]byte{}, b...))
	case 3:
		kind := rapid.SampledFrom(schemalessKinds).Draw(t, "kind")
		return pluginapi.DataDatum(&data.Typed{Value: genValue(t, &data.Schema{Kind: kind})})
	default:
		s := genSchema(t, 3)
		return pluginapi.DataDatum(&data.Typed{Schema: s, Value: genValue(t, s)})
	}
}

func genBatch(t *rapid.T) []pluginapi.Record {
	shared := genSchema(t, 2)
	batch := make([]pluginapi.Record, rapid.IntRange(0, 12).Draw(t, "records"))
	for i := range batch {
		rec := &batch[i]
		rec.Topic = fmt.Sprintf("topic-%d", rapid.IntRange(0, 11).Draw(t, "topic"))
		if rapid.Bool().Draw(t, "has id") {
			rec.TopicID = pluginapi.TopicID{byte(rapid.IntRange(0, 2).Draw(t, "id")), 15: 1}
		}
		rec.Partition = rapid.Int32Range(0, math.MaxInt32).Draw(t, "partition")
		rec.Offset = rapid.Int64Range(0, math.MaxInt64).Draw(t, "offset")
		rec.TimestampType = pluginapi.TimestampType(rapid.IntRange(0, 2).Draw(t, "timestamp type"))
		if rec.TimestampType != pluginapi.NoTimestamp {
			rec.Timestamp = time.UnixMilli(rapid.Int64Range(-1, 1<<45).Draw(t, "timestamp")).UTC()
		}
		rec.Key = genDatum(t)
		rec.Value = genDatum(t)
		if rapid.Bool().Draw(t, "shared schema") {
			rec.Value = pluginapi.DataDatum(&data.Typed{Schema: shared, Value: genValue(t, shared)})
		}
		for range rapid.IntRange(0, 2).Draw(t, "headers") {
			rec.Headers = append(rec.Headers, pluginapi.Header{Key: rapid.String().Draw(t, "header"), Value: genDatum(t)})
		}
	}
	return batch
}

func genError(t *rapid.T) *pluginapi.Error {
	if rapid.Bool().Draw(t, "no error") {
		return nil
	}
	return &pluginapi.Error{
		Class:      pluginapi.Class(rapid.IntRange(0, 6).Draw(t, "class")),
		Code:       rapid.StringN(0, 20, -1).Draw(t, "code"),
		Message:    rapid.String().Draw(t, "message"),
		RetryAfter: time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "retry after")) * time.Millisecond,
	}
}

func genEmitted(t *rapid.T) []pluginapi.Emitted {
	list := make([]pluginapi.Emitted, rapid.IntRange(1, 3).Draw(t, "emitted"))
	for i := range list {
		e := &list[i]
		e.Topic = rapid.StringN(0, 8, -1).Draw(t, "to")
		if e.Placed = rapid.Bool().Draw(t, "placed"); e.Placed {
			e.Partition = rapid.Int32Range(0, math.MaxInt32).Draw(t, "partition")
		}
		if rapid.Bool().Draw(t, "has timestamp") {
			e.Timestamp = time.UnixMilli(rapid.Int64Range(-1, 1<<45).Draw(t, "timestamp")).UTC()
		}
		e.Key, e.Value = genDatum(t), genDatum(t)
		for range rapid.IntRange(0, 2).Draw(t, "headers") {
			e.Headers = append(e.Headers, pluginapi.Header{Key: rapid.String().Draw(t, "header"), Value: genDatum(t)})
		}
	}
	return list
}
