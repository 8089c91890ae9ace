package abi

import (
	"math"
	"math/big"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// The tags values use.
const (
	tagBignum    = 2    // Of a byte string: an integer beyond 64 bits.
	tagNegBignum = 3    // The same below zero: -1 - n.
	tagDecimal   = 4    // Of [exponent, mantissa].
	tagUUID      = 37   // Of 16 bytes.
	tagDate      = 100  // Of days since 1970-01-01.
	tagTimestamp = 1001 // Of { 1: seconds since 1970, -9: nanoseconds }.
)

// appendDatum appends d. Its schema, if any, is in table.
func appendDatum(dst []byte, d pluginapi.Datum, table *schemaTable) []byte {
	if b, ok := d.Bytes(); ok {
		return appendBytes(dst, b)
	}
	typed, ok := d.Data()
	if !ok {
		return append(dst, itemNull)
	}
	dst = appendArray(dst, 2)
	schema := schemaOf(typed)
	dst = table.appendIndex(dst, schema)
	return appendValue(dst, typed.Value, schema)
}

// schemaOf returns the schema typed travels with: its own, or that of a struct,
// which always has one.
func schemaOf(typed *data.Typed) *data.Schema {
	if typed.Schema == nil {
		if s := typed.Value.Struct(); s != nil {
			return s.Schema
		}
	}
	return typed.Schema
}

// appendValue appends v as a value of s, which may be nil. A value that does
// not fit its schema is written as a schemaless one.
func appendValue(dst []byte, v data.Value, s *data.Schema) []byte {
	switch v.Kind() {
	case data.KindNull:
		return append(dst, itemNull)
	case data.KindBool:
		return appendBool(dst, v.Bool())
	case data.KindInt8, data.KindInt16, data.KindInt32, data.KindInt64:
		n, _ := v.Int()
		return appendInt(dst, n)
	case data.KindUint64:
		n, _ := v.Uint()
		return appendUint(dst, n)
	case data.KindFloat32:
		f, _ := v.Float()
		return appendFloat32(dst, math.Float32bits(float32(f)))
	case data.KindFloat64:
		f, _ := v.Float()
		return appendFloat64(dst, f)
	case data.KindString:
		return appendText(dst, v.Str())
	case data.KindBytes:
		return appendBytes(dst, v.Bytes())
	case data.KindDecimal:
		d := v.Decimal()
		dst = appendHead(dst, majorTag, tagDecimal)
		dst = appendArray(dst, 2)
		dst = appendInt(dst, -int64(d.Scale()))
		return appendBig(dst, d.Unscaled())
	case data.KindDate:
		return appendInt(appendHead(dst, majorTag, tagDate), int64(v.Days()))
	case data.KindTime:
		return appendInt(dst, int64(v.TimeOfDay()))
	case data.KindTimestamp:
		return appendTimestamp(dst, v)
	case data.KindUUID:
		u := v.UUID()
		return appendBytes(appendHead(dst, majorTag, tagUUID), u[:])
	case data.KindArray:
		return appendElems(dst, v.Elems(), elemSchema(s, data.KindArray))
	case data.KindMap:
		return appendEntries(dst, v.Entries(), s)
	case data.KindStruct:
		return appendStruct(dst, v.Struct(), s)
	default:
		return append(dst, itemUndefined)
	}
}

func appendTimestamp(dst []byte, v data.Value) []byte {
	t := v.Instant()
	dst = appendHead(dst, majorTag, tagTimestamp)
	if t.Nanosecond() == 0 {
		return appendInt(appendUint(appendMap(dst, 1), 1), t.Unix())
	}
	dst = appendInt(appendUint(appendMap(dst, 2), 1), t.Unix())
	return appendUint(appendInt(dst, -9), uint64(t.Nanosecond()))
}

// appendBig appends n as an integer, or a bignum where 64 bits are too few.
func appendBig(dst []byte, n *big.Int) []byte {
	tag := uint64(tagBignum)
	if n.Sign() < 0 {
		tag = tagNegBignum
		n = n.Not(n) // -1 - n. The caller owns n.
	}
	if n.IsUint64() {
		return appendHead(dst, byte(tag-tagBignum)<<5, n.Uint64())
	}
	return appendBytes(appendHead(dst, majorTag, tag), n.Bytes())
}

// elemSchema returns the schema of the elements or values of a value of s, if s
// describes values of kind.
func elemSchema(s *data.Schema, kind data.Kind) *data.Schema {
	if s == nil || s.Kind != kind {
		return nil
	}
	return s.Elem
}

func keySchema(s *data.Schema) *data.Schema {
	if s == nil || s.Kind != data.KindMap {
		return nil
	}
	return s.Key
}

func appendElems(dst []byte, elems []data.Value, elem *data.Schema) []byte {
	dst = appendArray(dst, len(elems))
	for _, e := range elems {
		dst = appendValue(dst, e, elem)
	}
	return dst
}

func appendEntries(dst []byte, entries []data.Entry, s *data.Schema) []byte {
	key, elem := keySchema(s), elemSchema(s, data.KindMap)
	dst = appendMap(dst, len(entries))
	for _, e := range entries {
		dst = appendValue(dst, e.Key, key)
		dst = appendValue(dst, e.Value, elem)
	}
	return dst
}

// appendStruct appends a struct as an array if its fields are those of s, as a
// map without its missing fields if not.
func appendStruct(dst []byte, v *data.Struct, s *data.Schema) []byte {
	if v == nil {
		return append(dst, itemNull)
	}
	if sameFields(v, s) {
		dst = appendArray(dst, len(v.Fields))
		for i, f := range v.Fields {
			dst = appendValue(dst, f, s.Fields[i].Schema)
		}
		return dst
	}
	n := 0
	for i, f := range v.Fields {
		if f.Kind() != data.KindMissing && v.Schema != nil && i < len(v.Schema.Fields) {
			n++
		}
	}
	dst = appendMap(dst, n)
	for i, f := range v.Fields {
		if f.Kind() == data.KindMissing || v.Schema == nil || i >= len(v.Schema.Fields) {
			continue
		}
		dst = appendText(dst, v.Schema.Fields[i].Name)
		dst = appendValue(dst, f, nil)
	}
	return dst
}

func sameFields(v *data.Struct, s *data.Schema) bool {
	if s == nil || s.Kind != data.KindStruct || len(v.Fields) > len(s.Fields) {
		return false
	}
	if v.Schema == s {
		return true
	}
	if v.Schema == nil || len(v.Schema.Fields) != len(s.Fields) {
		return false
	}
	for i := range s.Fields {
		if v.Schema.Fields[i].Name != s.Fields[i].Name {
			return false
		}
	}
	return true
}
