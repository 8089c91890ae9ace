package jsonlines

import (
	"encoding/binary"
	"unicode/utf8"
)

// maxDepth bounds the nesting of JSON that is kept as it is, as encoding/json
// does: deeper text is written as a string.
const maxDepth = 10_000

// scan reports whether b is one JSON value (RFC 8259) in UTF-8, and whether
// there is a line break between its tokens. It is on the path of every record
// that is stored as it came, and several times faster than json.Valid.
func scan(b []byte) (valid, broken bool) {
	s := scanner{b: b}
	valid = s.run()
	return valid, s.broken
}

// scanner is the state of one scan. The nesting is kept as one bit per level,
// set for an object, so that deep text cannot grow the stack.
type scanner struct {
	b      []byte
	i      int
	broken bool
	depth  int
	object [maxDepth/64 + 1]uint64
}

func (s *scanner) run() bool {
	for {
		// A value stands here.
		s.space()
		if s.i >= len(s.b) {
			return false
		}
		switch c := s.b[s.i]; {
		case c == '{' || c == '[':
			if !s.open(c == '{') {
				return false
			}
			s.space()
			if s.i < len(s.b) && s.b[s.i] == c+2 { // '{'+2 is '}', '['+2 is ']'.
				s.i++
				s.depth--
				break
			}
			if c == '{' && !s.name() {
				return false
			}
			continue
		case c == '"':
			if !s.str() {
				return false
			}
		case c == '-' || (c >= '0' && c <= '9'):
			if !s.number() {
				return false
			}
		case c == 't':
			if !s.word("true") {
				return false
			}
		case c == 'f':
			if !s.word("false") {
				return false
			}
		case c == 'n':
			if !s.word("null") {
				return false
			}
		default:
			return false
		}
		// A value has ended: what follows belongs to what it stands in.
		more, ok := s.after()
		if !ok || !more {
			return ok
		}
	}
}

// after reads what follows a value: a comma (more is true), or closing
// brackets up to the end of the text.
func (s *scanner) after() (more, ok bool) {
	for {
		s.space()
		if s.depth == 0 {
			return false, s.i == len(s.b)
		}
		if s.i >= len(s.b) {
			return false, false
		}
		c, object := s.b[s.i], s.inObject()
		s.i++
		switch {
		case c == ',' && object:
			s.space()
			return true, s.name()
		case c == ',':
			return true, true
		case (c == '}' && object) || (c == ']' && !object):
			s.depth--
		default:
			return false, false
		}
	}
}

func (s *scanner) open(object bool) bool {
	if s.depth >= maxDepth {
		return false
	}
	s.i++
	bit := uint64(1) << (s.depth % 64)
	if object {
		s.object[s.depth/64] |= bit
	} else {
		s.object[s.depth/64] &^= bit
	}
	s.depth++
	return true
}

func (s *scanner) inObject() bool {
	d := s.depth - 1
	return s.object[d/64]&(1<<(d%64)) != 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t':
		case '\n', '\r':
			s.broken = true
		default:
			return
		}
		s.i++
	}
}

// name reads an object's name and its colon.
func (s *scanner) name() bool {
	if s.i >= len(s.b) || s.b[s.i] != '"' || !s.str() {
		return false
	}
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != ':' {
		return false
	}
	s.i++
	return true
}

func (s *scanner) str() bool {
	b := s.b
	for i := s.i + 1; i < len(b); {
		for i+8 <= len(b) && plain(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		if i >= len(b) {
			return false
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return true
		case c == '\\':
			if i+1 >= len(b) {
				return false
			}
			switch b[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				if i+6 > len(b) || !hex(b[i+2]) || !hex(b[i+3]) || !hex(b[i+4]) || !hex(b[i+5]) {
					return false
				}
				i += 6
			default:
				return false
			}
		case c < 0x20:
			return false
		case c < utf8.RuneSelf:
			i++
		default:
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				return false
			}
			i += size
		}
	}
	return false
}

// plain reports whether the eight bytes of w are ASCII that stands in a JSON
// string as it is. For a byte below 0x80, (byte^c)-1 has its high bit set only
// if byte is c; a borrow from a lower byte can only make it report too little.
func plain(w uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return (w|(w-ones*0x20)|(quote-ones)|(slash-ones))&highs == 0
}

func hex(c byte) bool {
	return (c >= '0' && c <= '9') || (c|0x20 >= 'a' && c|0x20 <= 'f')
}

func (s *scanner) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) number() bool {
	if s.b[s.i] == '-' {
		s.i++
	}
	switch {
	case s.i < len(s.b) && s.b[s.i] == '0':
		s.i++
	case !s.digits():
		return false
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		return s.digits()
	}
	return true
}

// digits reads one digit or more.
func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}
