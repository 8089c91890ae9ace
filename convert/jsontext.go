package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluicehq/sluice/pluginapi/data"
)

// Bounds of one JSON text. What is beyond them is an error of the record.
const (
	MaxJSONBytes  = 256 << 20 // Length of the text.
	MaxJSONDepth  = 1000      // Arrays and objects within each other.
	MaxJSONValues = 1 << 20   // Values in it, each of which takes some 100 bytes.
)

// SyntaxError says where a text is not JSON, or is not what its schema says.
type SyntaxError struct {
	Offset int    // In bytes, from 0.
	Field  string // The field it happened in, as "a.b", empty at the top or without a schema.
	Reason string
	Err    error // ErrUTF8, or nil.
}

// Error returns the place, counted from 1, and the reason.
func (e *SyntaxError) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("read JSON: position %d: field %s: %s", e.Offset+1, e.Field, e.Reason)
	}
	return fmt.Sprintf("read JSON: position %d: %s", e.Offset+1, e.Reason)
}

// Unwrap returns ErrUTF8 where that is the trouble.
func (e *SyntaxError) Unwrap() error { return e.Err }

// parser reads one JSON text (RFC 8259, UTF-8 without a byte order mark) into
// values. Strings without escapes share the text's memory. Numbers are exact:
// int64, else uint64, else decimal; with a fraction or an exponent decimal. A
// zero with a minus and a fraction or exponent, which a decimal cannot hold,
// is a float64; "-0" is the integer 0.
type parser struct {
	b      []byte
	i      int
	depth  int
	values int
	fault  *SyntaxError // What failed; set once.

	// Stacks of the elements and entries of the arrays and objects that are
	// open, so that each finished one is one allocation of its size.
	elems   []data.Value
	entries []data.Entry
	path    []string // Field names of the structs that are open.

	nullDefault bool // A null becomes the default where the schema has one.
}

// reset prepares p for b. After a failure, and after an uncommonly large text,
// the stacks are dropped, so that no record is kept alive by them.
func (p *parser) reset(b []byte) {
	const keep = 4096
	if p.fault != nil || cap(p.elems) > keep || cap(p.entries) > keep {
		*p = parser{}
	}
	*p = parser{b: b, elems: p.elems[:0], entries: p.entries[:0], path: p.path[:0]}
}

// fail notes what is wrong at offset and returns false.
func (p *parser) fail(offset int, format string, args ...any) bool {
	if p.fault == nil {
		p.fault = &SyntaxError{Offset: offset, Reason: fmt.Sprintf(format, args...), Field: joinPath(p.path)}
	}
	return false
}

// document reads the whole text as a value of schema of, or without one.
func (p *parser) document(of *data.Schema) (data.Value, error) {
	if len(p.b) > MaxJSONBytes {
		p.fail(MaxJSONBytes, "the text is longer than %d bytes", MaxJSONBytes)
		return data.Value{}, p.fault
	}
	if len(p.b) >= 3 && p.b[0] == 0xef && p.b[1] == 0xbb && p.b[2] == 0xbf {
		p.fail(0, "a byte order mark stands before the text")
		return data.Value{}, p.fault
	}
	v, ok := p.element(of)
	if ok {
		if p.space(); p.i < len(p.b) {
			ok = p.fail(p.i, "%s behind the value", what(p.b[p.i]))
		}
	}
	if !ok {
		return data.Value{}, p.fault
	}
	return v, nil
}

func (p *parser) space() {
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// next skips white space and returns the byte that follows, which it leaves.
func (p *parser) next(want string) (byte, bool) {
	p.space()
	if p.i >= len(p.b) {
		if len(p.b) == 0 {
			return 0, p.fail(0, "the bytes are empty; want %s", want)
		}
		return 0, p.fail(p.i, "the text ends; want %s", want)
	}
	return p.b[p.i], true
}

// value reads one value without a schema.
func (p *parser) value() (data.Value, bool) {
	c, ok := p.next("a value")
	if !ok {
		return data.Value{}, false
	}
	if p.values++; p.values > MaxJSONValues {
		return data.Value{}, p.fail(p.i, "the text has more than %d values", MaxJSONValues)
	}
	switch {
	case c == '"':
		s, ok := p.str()
		return data.String(s), ok
	case c == '{':
		return p.object(nil)
	case c == '[':
		return p.array(nil)
	case c == '-' || (c >= '0' && c <= '9'):
		return p.number()
	case c == 't':
		return data.Bool(true), p.word("true")
	case c == 'f':
		return data.Bool(false), p.word("false")
	case c == 'n':
		return data.Null(), p.word("null")
	default:
		return data.Value{}, p.fail(p.i, "%s where a value belongs", what(c))
	}
}

func (p *parser) word(w string) bool {
	for j := range len(w) {
		if p.i+j >= len(p.b) {
			return p.fail(len(p.b), "the text ends; want %s", w)
		}
		if c := p.b[p.i+j]; c != w[j] {
			return p.fail(p.i+j, "%s in %s", what(c), w)
		}
	}
	p.i += len(w)
	return true
}

// enter opens an array or object; leave closes it.
func (p *parser) enter() bool {
	if p.depth >= MaxJSONDepth {
		return p.fail(p.i, "arrays and objects nest deeper than %d", MaxJSONDepth)
	}
	p.depth++
	p.i++
	return true
}

func (p *parser) leave() {
	p.depth--
	p.i++
}

// array reads an array whose elements are of schema of, or without one.
func (p *parser) array(of *data.Schema) (data.Value, bool) {
	if !p.enter() {
		return data.Value{}, false
	}
	base := len(p.elems)
	for first := true; ; first = false {
		more, ok := p.another(first)
		if !ok {
			return data.Value{}, false
		}
		if !more {
			break
		}
		v, ok := p.element(of)
		if !ok {
			return data.Value{}, false
		}
		p.elems = append(p.elems, v)
	}
	elems := make([]data.Value, len(p.elems)-base)
	copy(elems, p.elems[base:])
	clear(p.elems[base:])
	p.elems = p.elems[:base]
	return data.Array(elems), true
}

// another reads up to the next element of the array that is open; more is
// false at the array's end, which it passes over.
func (p *parser) another(first bool) (more, ok bool) {
	c, ok := p.next(`"]"`)
	switch {
	case !ok:
		return false, false
	case c == ']':
		p.leave()
		return false, true
	case first:
		return true, true
	case c != ',':
		return false, p.fail(p.i, `%s where "," or "]" belongs`, what(c))
	}
	p.i++
	return true, true
}

// member reads up to the next name of the object that is open and over its
// colon; more is false at the object's end, which it passes over.
func (p *parser) member(first bool) (name string, at int, more, ok bool) {
	c, ok := p.next(`"}"`)
	if !ok {
		return "", 0, false, false
	}
	if c == '}' {
		p.leave()
		return "", 0, false, true
	}
	if !first {
		if c != ',' {
			return "", 0, false, p.fail(p.i, `%s where "," or "}" belongs`, what(c))
		}
		p.i++
		if c, ok = p.next("a name"); !ok {
			return "", 0, false, false
		}
	}
	if c != '"' {
		return "", 0, false, p.fail(p.i, "%s where a name in quotes belongs", what(c))
	}
	at = p.i
	if name, ok = p.str(); !ok {
		return "", 0, false, false
	}
	if c, ok = p.next(`":"`); !ok {
		return "", 0, false, false
	}
	if c != ':' {
		return "", 0, false, p.fail(p.i, `%s where ":" belongs`, what(c))
	}
	p.i++
	return name, at, true, true
}

// object reads an object as a map whose values are of schema of, or without
// one. Of a name that is there twice the last value wins, at the place of the
// first.
func (p *parser) object(of *data.Schema) (data.Value, bool) {
	if !p.enter() {
		return data.Value{}, false
	}
	base := len(p.entries)
	var index map[string]int // Made for large objects only.
	for first := true; ; first = false {
		name, _, more, ok := p.member(first)
		if !ok {
			return data.Value{}, false
		}
		if !more {
			break
		}
		v, ok := p.element(of)
		if !ok {
			return data.Value{}, false
		}
		own := p.entries[base:]
		if index == nil && len(own) >= linear {
			index = make(map[string]int, 2*len(own))
			for i := range own {
				index[own[i].Key.Str()] = i
			}
		}
		if at := find(own, index, name); at >= 0 {
			own[at].Value = v
			continue
		}
		if index != nil {
			index[name] = len(own)
		}
		p.entries = append(p.entries, data.Entry{Key: data.String(name), Value: v})
	}
	entries := make([]data.Entry, len(p.entries)-base)
	copy(entries, p.entries[base:])
	clear(p.entries[base:])
	p.entries = p.entries[:base]
	return data.Map(entries), true
}

// find returns the place of the entry called name, or -1. index, where there is
// one, knows them all.
func find(entries []data.Entry, index map[string]int, name string) int {
	if index != nil {
		if i, ok := index[name]; ok {
			return i
		}
		return -1
	}
	for i := range entries {
		if entries[i].Key.Str() == name {
			return i
		}
	}
	return -1
}

// element reads a value of schema of, or without one.
func (p *parser) element(of *data.Schema) (data.Value, bool) {
	if of == nil {
		return p.value()
	}
	return p.typed(of)
}

// linear is how many names are compared one by one before a map pays.
const linear = 16

// str reads a string; p.i is at its opening quote.
func (p *parser) str() (string, bool) {
	b, start := p.b, p.i+1
	for i := start; i < len(b); {
		for i+8 <= len(b) && plain(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		if i >= len(b) {
			break
		}
		switch c := b[i]; {
		case c == '"':
			p.i = i + 1
			return text(b[start:i]), true
		case c == '\\':
			return p.escaped(start, i)
		case c < 0x20:
			return "", p.fail(i, "%s in a string; it is written with a backslash", what(c))
		case c < utf8.RuneSelf:
			i++
		default:
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				return "", p.failUTF8(i)
			}
			i += size
		}
	}
	return "", p.fail(len(b), "the text ends within a string")
}

func (p *parser) failUTF8(at int) bool {
	p.fail(at, "%s", ErrUTF8.Error())
	p.fault.Err = ErrUTF8
	return false
}

// plain reports whether the eight bytes of w are ASCII that stands in a JSON
// string as it is. A borrow between the bytes can only make it report too little.
func plain(w uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return (w|(w-ones*0x20)|(quote-ones)|(slash-ones))&highs == 0
}

// escaped goes on reading a string that began at start, from the first
// backslash on, which is at i.
func (p *parser) escaped(start, i int) (string, bool) {
	b := p.b
	buf := make([]byte, 0, i-start+32)
	buf = append(buf, b[start:i]...)
	for i < len(b) {
		c := b[i]
		switch {
		case c == '"':
			p.i = i + 1
			return text(buf), true
		case c == '\\':
			r, size, ok := p.escape(i)
			if !ok {
				return "", false
			}
			buf = utf8.AppendRune(buf, r)
			i += size
		case c < 0x20:
			return "", p.fail(i, "%s in a string; it is written with a backslash", what(c))
		case c < utf8.RuneSelf:
			buf = append(buf, c)
			i++
		default:
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				return "", p.failUTF8(i)
			}
			buf = append(buf, b[i:i+size]...)
			i += size
		}
	}
	return "", p.fail(len(b), "the text ends within a string")
}

// escape reads the escape at i. Half of a surrogate pair is an error: it has
// no form in UTF-8.
func (p *parser) escape(i int) (r rune, size int, ok bool) {
	b := p.b
	if i+1 >= len(b) {
		return 0, 0, p.fail(len(b), "the text ends within a string")
	}
	switch c := b[i+1]; c {
	case '"', '\\', '/':
		return rune(c), 2, true
	case 'b':
		return '\b', 2, true
	case 'f':
		return '\f', 2, true
	case 'n':
		return '\n', 2, true
	case 'r':
		return '\r', 2, true
	case 't':
		return '\t', 2, true
	case 'u':
		u, ok := hex4(b, i+2)
		if !ok {
			return 0, 0, p.fail(i, `four hexadecimal digits belong behind \u`)
		}
		if !utf16.IsSurrogate(u) {
			return u, 6, true
		}
		if i+7 < len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
			if low, ok := hex4(b, i+8); ok {
				if r := utf16.DecodeRune(u, low); r != utf8.RuneError {
					return r, 12, true
				}
			}
		}
		return 0, 0, p.fail(i, `\u%04x is half of a surrogate pair`, u)
	default:
		return 0, 0, p.fail(i+1, "%s behind a backslash", what(c))
	}
}

func hex4(b []byte, i int) (rune, bool) {
	if i+4 > len(b) {
		return 0, false
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number reads a number.
func (p *parser) number() (data.Value, bool) {
	start := p.i
	integer, ok := p.numberText()
	if !ok {
		return data.Value{}, false
	}
	s := text(p.b[start:p.i])
	if integer {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return data.Int64(n), true
		}
		if n, err := strconv.ParseUint(s, 10, 64); err == nil {
			return data.Uint64(n), true
		}
	}
	d, err := data.ParseDecimal(s)
	if err != nil {
		return data.Value{}, p.fail(start, "the number is too large, too small or too long")
	}
	if s[0] == '-' && zero(s) {
		return data.Float64(math.Copysign(0, -1)), true
	}
	return data.DecimalValue(d), true
}

// zero reports whether a number's digits, those of its exponent aside, are all 0.
func zero(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '1' && c <= '9':
			return false
		case c == 'e' || c == 'E':
			return true
		}
	}
	return true
}

// numberText passes over a number and reports whether it has neither fraction
// nor exponent.
func (p *parser) numberText() (integer, ok bool) {
	if p.b[p.i] == '-' {
		p.i++
	}
	if p.i < len(p.b) && p.b[p.i] == '0' {
		p.i++
		if p.i < len(p.b) && p.b[p.i] >= '0' && p.b[p.i] <= '9' {
			return false, p.fail(p.i-1, "a number begins with 0")
		}
	} else if !p.digits() {
		return false, false
	}
	integer = true
	if p.i < len(p.b) && p.b[p.i] == '.' {
		integer = false
		if p.i++; !p.digits() {
			return false, false
		}
	}
	if p.i < len(p.b) && p.b[p.i]|0x20 == 'e' {
		integer = false
		p.i++
		if p.i < len(p.b) && (p.b[p.i] == '+' || p.b[p.i] == '-') {
			p.i++
		}
		if !p.digits() {
			return false, false
		}
	}
	return integer, true
}

// digits passes over one digit or more.
func (p *parser) digits() bool {
	from := p.i
	for p.i < len(p.b) && p.b[p.i] >= '0' && p.b[p.i] <= '9' {
		p.i++
	}
	switch {
	case p.i > from:
		return true
	case p.i >= len(p.b):
		return p.fail(p.i, "the text ends within a number")
	default:
		return p.fail(p.i, "%s where a digit belongs", what(p.b[p.i]))
	}
}

// what names one byte in an error.
func what(c byte) string {
	if c > 0x20 && c < 0x7f {
		return strconv.QuoteRuneToASCII(rune(c))
	}
	return fmt.Sprintf("byte 0x%02x", c)
}

func joinPath(path []string) string {
	const most = 8
	var b []byte
	for i, name := range path {
		if i > 0 {
			b = append(b, '.')
		}
		if i == most {
			b = append(b, "…"...)
			break
		}
		if len(name) > 64 {
			name = name[:64] + "…"
		}
		b = append(b, name...)
	}
	return string(b)
}
