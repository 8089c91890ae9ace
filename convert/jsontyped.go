package convert

import (
	"encoding/base64"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/sluicehq/sluice/pluginapi/data"
)

// typed reads one value of schema s. With p.nullDefault a null becomes the
// schema's default where it has one; otherwise a null stays null, and is an
// error where s is not optional.
func (p *parser) typed(s *data.Schema) (data.Value, bool) {
	c, ok := p.next("a value")
	if !ok {
		return data.Value{}, false
	}
	if c == 'n' {
		at := p.i
		switch {
		case !p.word("null"):
			return data.Value{}, false
		case p.nullDefault && s.Default.Kind() != data.KindMissing:
			return s.Default, true
		case s.Optional:
			return data.Null(), true
		default:
			return data.Value{}, p.fail(at, "null where the schema says %s, not optional", s.Kind)
		}
	}
	if p.values++; p.values > MaxJSONValues {
		return data.Value{}, p.fail(p.i, "the text has more than %d values", MaxJSONValues)
	}
	switch s.Kind {
	case data.KindStruct:
		if c != '{' {
			return p.mismatch(s, c)
		}
		return p.structure(s)
	case data.KindArray:
		if c != '[' {
			return p.mismatch(s, c)
		}
		return p.array(s.Elem)
	case data.KindMap:
		return p.mapping(s, c)
	case data.KindString, data.KindBytes:
		if c != '"' {
			return p.mismatch(s, c)
		}
		return p.stringOrBytes(s)
	case data.KindBool:
		if c != 't' && c != 'f' {
			return p.mismatch(s, c)
		}
		return p.value()
	case data.KindFloat32, data.KindFloat64:
		return p.float(s, c)
	case data.KindDecimal:
		return p.decimal(s, c)
	default:
		return p.integer(s, c)
	}
}

func (p *parser) mismatch(s *data.Schema, c byte) (data.Value, bool) {
	return data.Value{}, p.fail(p.i, "%s where the schema says %s", what(c), s.Kind)
}

// structure reads an object by the fields of s. A field that is missing has
// its default; without one it is missing, and an error where it is required.
// A field the schema does not know is an error: it would be lost in silence.
func (p *parser) structure(s *data.Schema) (data.Value, bool) {
	start := p.i
	fields := make([]data.Value, len(s.Fields))
	next := 0 // Where the field stands if the writer kept the schema's order.
	if !p.enter() {
		return data.Value{}, false
	}
	for first := true; ; first = false {
		name, at, more, ok := p.member(first)
		if !ok {
			return data.Value{}, false
		}
		if !more {
			break
		}
		i := next
		if i >= len(s.Fields) || s.Fields[i].Name != name {
			if i = s.FieldIndex(name); i < 0 {
				return data.Value{}, p.fail(at, "field %s is not in the schema", clip(name))
			}
		}
		next = i + 1
		p.path = append(p.path, s.Fields[i].Name)
		if fields[i], ok = p.typed(s.Fields[i].Schema); !ok {
			return data.Value{}, false
		}
		p.path = p.path[:len(p.path)-1]
	}
	for i := range fields {
		if fields[i].Kind() != data.KindMissing {
			continue
		}
		of := s.Fields[i].Schema
		if of.Default.Kind() == data.KindMissing && !of.Optional {
			return data.Value{}, p.fail(start, "the required field %s is missing", clip(s.Fields[i].Name))
		}
		fields[i] = of.Default
	}
	return data.StructValue(s, fields), true
}

// mapping reads a map: an object if its keys are strings, else an array of
// arrays of a key and a value.
func (p *parser) mapping(s *data.Schema, c byte) (data.Value, bool) {
	if s.Key.Kind == data.KindString {
		if c != '{' {
			return p.mismatch(s, c)
		}
		return p.object(s.Elem)
	}
	if c != '[' {
		return p.mismatch(s, c)
	}
	if !p.enter() {
		return data.Value{}, false
	}
	entries := []data.Entry{}
	for first := true; ; first = false {
		more, ok := p.another(first)
		if !ok {
			return data.Value{}, false
		}
		if !more {
			return data.Map(entries), true
		}
		e, ok := p.pair(s)
		if !ok {
			return data.Value{}, false
		}
		entries = append(entries, e)
	}
}

// pair reads an entry of a map that is written as an array.
func (p *parser) pair(s *data.Schema) (data.Entry, bool) {
	const want = "an array of a key and a value"
	c, ok := p.next(want)
	if !ok {
		return data.Entry{}, false
	}
	if c != '[' {
		return data.Entry{}, p.fail(p.i, "%s where %s belongs", what(c), want)
	}
	at := p.i
	if !p.enter() {
		return data.Entry{}, false
	}
	var kv [2]data.Value
	for i, of := range [...]*data.Schema{s.Key, s.Elem} {
		more, ok := p.another(i == 0)
		if !ok {
			return data.Entry{}, false
		}
		if !more {
			return data.Entry{}, p.fail(at, "an entry of a map is too short, want %s", want)
		}
		if kv[i], ok = p.typed(of); !ok {
			return data.Entry{}, false
		}
	}
	if more, ok := p.another(false); !ok || more {
		return data.Entry{}, p.fail(at, "an entry of a map is too long, want %s", want)
	}
	return data.Entry{Key: kv[0], Value: kv[1]}, true
}

func (p *parser) stringOrBytes(s *data.Schema) (data.Value, bool) {
	if s.Kind == data.KindString {
		str, ok := p.str()
		return data.String(str), ok
	}
	b, ok := p.base64(s)
	return data.Bytes(b), ok
}

// base64 reads a string of base64, padded or not.
func (p *parser) base64(s *data.Schema) ([]byte, bool) {
	at := p.i
	str, ok := p.str()
	if !ok {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(str)
	if err != nil {
		if b, err = base64.RawStdEncoding.DecodeString(str); err != nil {
			return nil, p.fail(at, "the schema says %s, which is written in base64, and this is not", s.Kind)
		}
	}
	return b, true
}

// float reads a number as the float the schema says: the one nearest to it. A
// number beyond the type is an error. NaN and infinities are strings, as
// Connect and this project write them.
func (p *parser) float(s *data.Schema, c byte) (data.Value, bool) {
	bits := 64
	if s.Kind == data.KindFloat32 {
		bits = 32
	}
	var f float64
	at := p.i
	switch {
	case c == '"':
		str, ok := p.str()
		if !ok {
			return data.Value{}, false
		}
		switch str {
		case "NaN":
			f = math.NaN()
		case "Infinity":
			f = math.Inf(1)
		case "-Infinity":
			f = math.Inf(-1)
		default:
			return data.Value{}, p.fail(at, "a string where the schema says %s", s.Kind)
		}
	case c == '-' || (c >= '0' && c <= '9'):
		if _, ok := p.numberText(); !ok {
			return data.Value{}, false
		}
		var err error
		if f, err = strconv.ParseFloat(text(p.b[at:p.i]), bits); err != nil {
			return data.Value{}, p.fail(at, "the number is outside %s", s.Kind)
		}
	default:
		return p.mismatch(s, c)
	}
	if bits == 32 {
		return data.Float32(float32(f)), true
	}
	return data.Float64(f), true
}

// maxDecimalBytes bounds the unscaled value of a decimal.
const maxDecimalBytes = 16 << 10

// decimal reads a Decimal: a number, which keeps its own scale, or in base64
// the unscaled value as a two's complement integer, high byte first.
func (p *parser) decimal(s *data.Schema, c byte) (data.Value, bool) {
	at := p.i
	if c == '-' || (c >= '0' && c <= '9') {
		if _, ok := p.numberText(); !ok {
			return data.Value{}, false
		}
		d, err := data.ParseDecimal(text(p.b[at:p.i]))
		if err != nil {
			return data.Value{}, p.fail(at, "the number is too large, too small or too long")
		}
		return data.DecimalValue(d), true
	}
	if c != '"' {
		return p.mismatch(s, c)
	}
	b, ok := p.base64(s)
	if !ok {
		return data.Value{}, false
	}
	if len(b) == 0 || len(b) > maxDecimalBytes {
		return data.Value{}, p.fail(at, "a decimal of %d bytes, want 1 to %d", len(b), maxDecimalBytes)
	}
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	scale, _ := strconv.Atoi(s.Params["scale"]) // Checked by applyLogical.
	return data.DecimalValue(data.NewDecimal(n, int32(scale))), true
}

// integer reads an integer, or what Connect writes as one: a date in days, a
// time of day and a timestamp in milliseconds.
func (p *parser) integer(s *data.Schema, c byte) (data.Value, bool) {
	at := p.i
	if c != '-' && (c < '0' || c > '9') {
		return p.mismatch(s, c)
	}
	whole, ok := p.numberText()
	if !ok {
		return data.Value{}, false
	}
	if !whole {
		return data.Value{}, p.fail(at, "a fraction or exponent where the schema says %s", s.Kind)
	}
	bits := 64
	switch s.Kind {
	case data.KindInt8:
		bits = 8
	case data.KindInt16:
		bits = 16
	case data.KindInt32, data.KindDate, data.KindTime:
		bits = 32
	default:
	}
	n, err := strconv.ParseInt(text(p.b[at:p.i]), 10, bits)
	if err != nil {
		return data.Value{}, p.fail(at, "the number is outside %s", s.Kind)
	}
	switch s.Kind {
	case data.KindInt8:
		return data.Int8(int8(n)), true
	case data.KindInt16:
		return data.Int16(int16(n)), true
	case data.KindInt32:
		return data.Int32(int32(n)), true
	case data.KindDate:
		return data.Date(int32(n)), true
	case data.KindTime:
		d := time.Duration(n) * time.Millisecond
		if d < 0 || d >= 24*time.Hour {
			return data.Value{}, p.fail(at, "the number is outside a day, in milliseconds")
		}
		return data.Time(d), true
	case data.KindTimestamp:
		return data.Timestamp(time.UnixMilli(n)), true
	default:
		return data.Int64(n), true
	}
}
