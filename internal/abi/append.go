package abi

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// The major types of CBOR, in place in an item's first byte.
const (
	majorUint   = 0 << 5
	majorNegint = 1 << 5
	majorBytes  = 2 << 5
	majorText   = 3 << 5
	majorArray  = 4 << 5
	majorMap    = 5 << 5
	majorTag    = 6 << 5
	majorSimple = 7 << 5
)

// The simple values and floats, as an item's first byte.
const (
	itemFalse     = 0xf4
	itemTrue      = 0xf5
	itemNull      = 0xf6
	itemUndefined = 0xf7
	itemFloat16   = 0xf9
	itemFloat32   = 0xfa
	itemFloat64   = 0xfb
)

// appendHead appends an item's head in its shortest form.
func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n <= math.MaxUint8:
		return append(dst, major|24, byte(n))
	case n <= math.MaxUint16:
		return append(dst, major|25, byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, major|27), n)
	}
}

func appendArray(dst []byte, n int) []byte { return appendHead(dst, majorArray, uint64(n)) }

func appendMap(dst []byte, n int) []byte { return appendHead(dst, majorMap, uint64(n)) }

func appendUint(dst []byte, n uint64) []byte { return appendHead(dst, majorUint, n) }

func appendInt(dst []byte, n int64) []byte {
	if n < 0 {
		return appendHead(dst, majorNegint, uint64(^n))
	}
	return appendHead(dst, majorUint, uint64(n))
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, itemTrue)
	}
	return append(dst, itemFalse)
}

func appendFloat32(dst []byte, bits uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, itemFloat32), bits)
}

func appendFloat64(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, itemFloat64), math.Float64bits(f))
}

func appendBytes(dst, b []byte) []byte {
	return append(appendHead(dst, majorBytes, uint64(len(b))), b...)
}

// appendText appends s as a text string, which CBOR wants to be UTF-8.
func appendText(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return append(appendHead(dst, majorText, uint64(len(s))), s...)
}

// millisUp returns d in whole milliseconds, rounded up so that a short wait
// does not become none; 0 for anything below zero.
func millisUp(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	n := uint64(d / time.Millisecond)
	if d%time.Millisecond != 0 {
		n++
	}
	return n
}

// fromMillis returns ms as a duration, the longest one where it does not fit.
func fromMillis(ms uint64) time.Duration {
	if ms > uint64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// cut returns s, or its longest prefix of whole characters within limit bytes.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := limit
	for n > 0 && n > limit-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// copyText returns what is kept of a text from outside: valid UTF-8 of at most
// limit bytes in memory of its own.
func copyText(s string, limit int) string {
	s = cut(s, limit)
	if !utf8.ValidString(s) {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.Clone(s)
}
