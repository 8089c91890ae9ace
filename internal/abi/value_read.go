package abi

import (
	"math"
	"math/big"
	"time"

	"github.com/sluicehq/sluice/pluginapi/data"
)

// maxBignum bounds a bignum, in bytes: 78,913 decimal digits.
const maxBignum = 1 << 15

// maxPadding is how many fields a frame may leave out of its structs, beside
// eight for each of its bytes.
const maxPadding = 1 << 16

// value reads a value of s, which may be nil. What does not fit s is read as a
// schemaless value, as the writer had it.
func (r *reader) value(s *data.Schema, depth int) data.Value {
	if depth > maxDepth {
		r.fail("value nests deeper than %d", maxDepth)
	}
	major, info, n := r.head()
	if r.err != nil {
		return data.Value{}
	}
	switch major {
	case majorUint:
		if n > math.MaxInt64 {
			return data.Uint64(n)
		}
		return intValue(s, int64(n))
	case majorNegint:
		if n > math.MaxInt64 {
			big := new(big.Int).SetUint64(n)
			return data.DecimalValue(data.NewDecimal(big.Not(big), 0))
		}
		return intValue(s, ^int64(n))
	case majorBytes:
		return data.Bytes(r.take(n))
	case majorText:
		return data.String(alias(r.take(n)))
	case majorArray:
		if s != nil && s.Kind == data.KindStruct {
			return r.structValue(s, r.count(n, 1), depth)
		}
		return r.arrayValue(elemSchema(s, data.KindArray), r.count(n, 1), depth)
	case majorMap:
		return r.mapValue(s, r.count(n, 2), depth)
	case majorTag:
		return r.tagged(s, n, depth)
	default:
		return r.simpleValue(s, info, n)
	}
}

// intValue returns n in the kind s asks for, int64 where it does not fit.
func intValue(s *data.Schema, n int64) data.Value {
	if s != nil {
		switch s.Kind {
		case data.KindInt8:
			if n == int64(int8(n)) {
				return data.Int8(int8(n))
			}
		case data.KindInt16:
			if n == int64(int16(n)) {
				return data.Int16(int16(n))
			}
		case data.KindInt32:
			if n == int64(int32(n)) {
				return data.Int32(int32(n))
			}
		case data.KindUint64:
			if n >= 0 {
				return data.Uint64(uint64(n))
			}
		case data.KindTime:
			if n >= 0 && n < int64(24*time.Hour) {
				return data.Time(time.Duration(n))
			}
		default: // An int64, or not an integer kind.
		}
	}
	return data.Int64(n)
}

func (r *reader) simpleValue(s *data.Schema, info byte, bits uint64) data.Value {
	switch 0xe0 | info {
	case itemFalse, itemTrue:
		return data.Bool(0xe0|info == itemTrue)
	case itemNull:
		return data.Null()
	case itemUndefined:
		return data.Value{}
	case itemFloat16:
		return float32Value(s, halfFloat(uint16(bits)))
	case itemFloat32:
		return float32Value(s, math.Float32frombits(uint32(bits)))
	case itemFloat64:
		f := math.Float64frombits(bits)
		if s != nil && s.Kind == data.KindFloat32 && (float64(float32(f)) == f || math.IsNaN(f)) {
			return data.Float32(float32(f))
		}
		return data.Float64(f)
	}
	r.fail("simple value %d is not known", bits)
	return data.Value{}
}

func float32Value(s *data.Schema, f float32) data.Value {
	if s != nil && s.Kind == data.KindFloat64 {
		return data.Float64(float64(f))
	}
	return data.Float32(f)
}

// halfFloat widens a 16-bit float, which every 32-bit one can hold.
func halfFloat(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0:
		f := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	default:
		return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
	}
}

// firstRoom bounds what is allocated on the word of a length alone.
const firstRoom = 256

func (r *reader) arrayValue(elem *data.Schema, n, depth int) data.Value {
	elems := make([]data.Value, 0, min(n, firstRoom))
	for i := 0; i < n && r.err == nil; i++ {
		elems = append(elems, r.value(elem, depth+1))
	}
	return data.Array(elems)
}

func (r *reader) mapValue(s *data.Schema, n, depth int) data.Value {
	key, elem := keySchema(s), elemSchema(s, data.KindMap)
	entries := make([]data.Entry, 0, min(n, firstRoom))
	for i := 0; i < n && r.err == nil; i++ {
		k := r.value(key, depth+1)
		entries = append(entries, data.Entry{Key: k, Value: r.value(elem, depth+1)})
	}
	return data.Map(entries)
}

// structValue reads n fields of s; those behind them are missing. What fields
// not written may take in all is bounded, or a frame of empty structs with a
// long schema would fill the memory.
func (r *reader) structValue(s *data.Schema, n, depth int) data.Value {
	if n < len(s.Fields) {
		r.padding += len(s.Fields) - n
		if r.padding > maxPadding+8*len(r.buf) {
			r.fail("too many fields left out")
			return data.Value{}
		}
	}
	fields := make([]data.Value, len(s.Fields))
	for i := 0; i < n && i < len(fields) && r.err == nil; i++ {
		fields[i] = r.value(s.Fields[i].Schema, depth+1)
	}
	r.skipFrom(len(fields), n)
	return data.StructValue(s, fields)
}

func (r *reader) tagged(s *data.Schema, tag uint64, depth int) data.Value {
	switch tag {
	case tagBignum, tagNegBignum:
		n := r.bignum(tag)
		switch {
		case n.IsInt64():
			return intValue(s, n.Int64())
		case n.IsUint64():
			return data.Uint64(n.Uint64())
		}
		return data.DecimalValue(data.NewDecimal(n, 0))
	case tagDecimal:
		return r.decimal()
	case tagUUID:
		b := r.bytes()
		if r.err == nil && len(b) != 16 {
			r.fail("uuid of %d bytes", len(b))
		}
		var u [16]byte
		copy(u[:], b)
		return data.UUID(u)
	case tagDate:
		days := r.int()
		if days != int64(int32(days)) {
			r.fail("date %d is outside 32 bits", days)
		}
		return data.Date(int32(days))
	case tagTimestamp:
		return r.timestamp()
	default: // A tag says how to take a value; without it the value stands.
		return r.value(s, depth+1)
	}
}

// bignum reads the byte string of tag 2 or 3.
func (r *reader) bignum(tag uint64) *big.Int {
	b := r.bytes()
	if len(b) > maxBignum {
		r.fail("bignum of %d bytes", len(b))
		return new(big.Int)
	}
	n := new(big.Int).SetBytes(b)
	if tag == tagNegBignum {
		n.Not(n)
	}
	return n
}

// integer reads an integer of any size.
func (r *reader) integer() *big.Int {
	major, _, n := r.head()
	switch {
	case r.err != nil:
	case major == majorUint:
		return new(big.Int).SetUint64(n)
	case major == majorNegint:
		big := new(big.Int).SetUint64(n)
		return big.Not(big)
	case major == majorTag && (n == tagBignum || n == tagNegBignum):
		return r.bignum(n)
	default:
		r.fail("want an integer, got %s", majorName(major))
	}
	return new(big.Int)
}

func (r *reader) decimal() data.Value {
	n := r.array()
	if r.err == nil && n != 2 {
		r.fail("decimal of %d elements", n)
	}
	exp := r.int()
	if exp > data.MaxScale || exp < -data.MaxScale {
		r.fail("decimal exponent %d is out of bounds", exp)
	}
	mantissa := r.integer()
	if r.err != nil {
		return data.Value{}
	}
	return data.DecimalValue(data.NewDecimal(mantissa, int32(-exp)))
}

// timestamp reads the map of tag 1001 (RFC 9581): seconds and a fraction. Keys
// below zero that it does not know say nothing about the instant.
func (r *reader) timestamp() data.Value {
	var sec, nanos int64
	for n := r.mapLen(); n > 0 && r.err == nil; n-- {
		switch key := r.int(); key {
		case 1:
			sec = r.int()
		case -3:
			nanos = int64(r.uintMax(999, "milliseconds")) * int64(time.Millisecond)
		case -6:
			nanos = int64(r.uintMax(999_999, "microseconds")) * int64(time.Microsecond)
		case -9:
			nanos = int64(r.uintMax(999_999_999, "nanoseconds"))
		default:
			if key >= 0 {
				r.fail("timestamp key %d is not known", key)
			}
			r.skip()
		}
	}
	return data.Timestamp(time.Unix(sec, nanos))
}
