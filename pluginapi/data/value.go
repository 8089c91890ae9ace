package data

import (
	"math"
	"time"
	"unsafe"
)

// Value is one value. The zero Value is missing. Values are immutable: the
// slices that accessors return must not be changed.
//
// A Value is 48 bytes and holds every scalar without a pointer of its own, so
// that a batch of them costs few allocations.
type Value struct {
	kind Kind
	num  uint64 // Numbers, booleans, days, nanoseconds, unix seconds.
	str  string // Strings and bytes.
	ref  any    // Decimal, [16]byte UUID, []Value, []Entry, *Struct; int64 nanoseconds of a timestamp.
}

// Entry is one entry of a map value.
type Entry struct {
	Key, Value Value
}

// Struct is the content of a struct value: one value per field of its schema,
// in schema order.
type Struct struct {
	Schema *Schema
	Fields []Value
}

// Null returns the null value.
func Null() Value { return Value{kind: KindNull} }

// Bool returns a boolean.
func Bool(b bool) Value {
	v := Value{kind: KindBool}
	if b {
		v.num = 1
	}
	return v
}

// Int8 returns an 8-bit integer.
func Int8(n int8) Value { return Value{kind: KindInt8, num: uint64(n)} }

// Int16 returns a 16-bit integer.
func Int16(n int16) Value { return Value{kind: KindInt16, num: uint64(n)} }

// Int32 returns a 32-bit integer.
func Int32(n int32) Value { return Value{kind: KindInt32, num: uint64(n)} }

// Int64 returns a 64-bit integer.
func Int64(n int64) Value { return Value{kind: KindInt64, num: uint64(n)} }

// Uint64 returns an unsigned 64-bit integer.
func Uint64(n uint64) Value { return Value{kind: KindUint64, num: n} }

// Float32 returns a 32-bit float.
func Float32(f float32) Value { return Value{kind: KindFloat32, num: uint64(math.Float32bits(f))} }

// Float64 returns a 64-bit float.
func Float64(f float64) Value { return Value{kind: KindFloat64, num: math.Float64bits(f)} }

// String returns a string.
func String(s string) Value { return Value{kind: KindString, str: s} }

// Bytes returns bytes. It takes b over: b must not be changed afterwards.
func Bytes(b []byte) Value {
	return Value{kind: KindBytes, str: unsafe.String(unsafe.SliceData(b), len(b))}
}

// DecimalValue returns an exact decimal.
func DecimalValue(d Decimal) Value { return Value{kind: KindDecimal, ref: d} }

// Date returns a date, in days since 1970-01-01.
func Date(days int32) Value { return Value{kind: KindDate, num: uint64(days)} }

// Time returns a time of day. d is 0 to just under 24 h.
func Time(d time.Duration) Value { return Value{kind: KindTime, num: uint64(d)} }

// Timestamp returns an instant. Its location is dropped.
func Timestamp(t time.Time) Value {
	v := Value{kind: KindTimestamp, num: uint64(t.Unix())}
	if ns := t.Nanosecond(); ns != 0 {
		v.ref = int64(ns)
	}
	return v
}

// UUID returns a UUID.
func UUID(u [16]byte) Value { return Value{kind: KindUUID, ref: u} }

// Array returns an array. It takes elems over.
func Array(elems []Value) Value { return Value{kind: KindArray, ref: elems} }

// Map returns a map with its entries in order. It takes entries over. It does
// not look for a key that is there twice; Get finds the last.
func Map(entries []Entry) Value { return Value{kind: KindMap, ref: entries} }

// StructValue returns a struct. fields has one value per field of schema; a
// missing one is the zero Value. It takes fields over.
func StructValue(schema *Schema, fields []Value) Value {
	return Value{kind: KindStruct, ref: &Struct{Schema: schema, Fields: fields}}
}

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports whether v is null or missing.
func (v Value) IsNull() bool { return v.kind <= KindNull }

// Bool returns a boolean's value, false for any other kind.
func (v Value) Bool() bool { return v.kind == KindBool && v.num != 0 }

// Int returns the value of an integer kind that fits int64, and whether it does.
func (v Value) Int() (int64, bool) {
	switch v.kind {
	case KindInt8, KindInt16, KindInt32, KindInt64:
		return int64(v.num), true
	case KindUint64:
		return int64(v.num), v.num <= math.MaxInt64
	default:
		return 0, false
	}
}

// Uint returns the value of an integer kind that fits uint64, and whether it does.
func (v Value) Uint() (uint64, bool) {
	switch v.kind {
	case KindUint64:
		return v.num, true
	case KindInt8, KindInt16, KindInt32, KindInt64:
		return v.num, int64(v.num) >= 0
	default:
		return 0, false
	}
}

// Float returns the value of a float kind, and whether v is one.
func (v Value) Float() (float64, bool) {
	switch v.kind {
	case KindFloat32:
		return float64(math.Float32frombits(uint32(v.num))), true
	case KindFloat64:
		return math.Float64frombits(v.num), true
	default:
		return 0, false
	}
}

// Str returns a string's value, "" for any other kind.
func (v Value) Str() string {
	if v.kind != KindString {
		return ""
	}
	return v.str
}

// Bytes returns the bytes of a bytes value, nil for any other kind, never nil
// for empty bytes.
func (v Value) Bytes() []byte {
	if v.kind != KindBytes {
		return nil
	}
	if v.str == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(v.str), len(v.str))
}

// Decimal returns a decimal's value, 0 for any other kind.
func (v Value) Decimal() Decimal {
	d, _ := v.ref.(Decimal)
	return d
}

// Days returns a date in days since 1970-01-01, 0 for any other kind.
func (v Value) Days() int32 {
	if v.kind != KindDate {
		return 0
	}
	return int32(v.num)
}

// TimeOfDay returns a time of day, 0 for any other kind.
func (v Value) TimeOfDay() time.Duration {
	if v.kind != KindTime {
		return 0
	}
	return time.Duration(v.num)
}

// Instant returns a timestamp or a date (its midnight) in UTC, the zero time
// for any other kind.
func (v Value) Instant() time.Time {
	switch v.kind {
	case KindTimestamp:
		ns, _ := v.ref.(int64)
		return time.Unix(int64(v.num), ns).UTC()
	case KindDate:
		return time.Unix(int64(int32(v.num))*86400, 0).UTC()
	default:
		return time.Time{}
	}
}

// UUID returns a UUID's value, zero for any other kind.
func (v Value) UUID() [16]byte {
	u, _ := v.ref.([16]byte)
	return u
}

// Elems returns the elements of an array, nil for any other kind.
func (v Value) Elems() []Value {
	e, _ := v.ref.([]Value)
	return e
}

// Entries returns the entries of a map, nil for any other kind.
func (v Value) Entries() []Entry {
	e, _ := v.ref.([]Entry)
	return e
}

// Struct returns the content of a struct, nil for any other kind.
func (v Value) Struct() *Struct {
	s, _ := v.ref.(*Struct)
	return s
}

// Get returns the field of a struct, or the value of a map's last entry under
// the string key name; missing where there is none or v is another kind.
func (v Value) Get(name string) Value {
	switch v.kind {
	case KindStruct:
		s := v.Struct()
		if i := s.Schema.FieldIndex(name); i >= 0 && i < len(s.Fields) {
			return s.Fields[i]
		}
	case KindMap:
		entries := v.Entries()
		for i := len(entries) - 1; i >= 0; i-- {
			if k := entries[i].Key; k.kind == KindString && k.str == name {
				return entries[i].Value
			}
		}
	default: // Has no parts.
	}
	return Value{}
}

// Equal reports whether v and w have the same kind and content. Decimals are
// equal with equal digits and scale, floats with equal bits (so NaN is equal
// to itself), maps with equal entries in the same order, structs with equal
// fields whatever their schemas.
func (v Value) Equal(w Value) bool {
	if v.kind != w.kind {
		return false
	}
	switch v.kind {
	case KindDecimal:
		a, b := v.Decimal(), w.Decimal()
		return a.scale == b.scale && a.Cmp(b) == 0
	case KindUUID:
		return v.UUID() == w.UUID()
	case KindTimestamp:
		return v.Instant().Equal(w.Instant())
	case KindArray:
		return equalValues(v.Elems(), w.Elems())
	case KindStruct:
		return equalValues(v.Struct().Fields, w.Struct().Fields)
	case KindMap:
		a, b := v.Entries(), w.Entries()
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if !a[i].Key.Equal(b[i].Key) || !a[i].Value.Equal(b[i].Value) {
				return false
			}
		}
		return true
	default:
		return v.num == w.num && v.str == w.str
	}
}

func equalValues(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Equal(b[i]) {
			return false
		}
	}
	return true
}
