package data

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends v as JSON (RFC 8259). Integers and decimals keep every
// digit; NaN and infinities, which JSON has no word for, are written as the
// strings "NaN", "Infinity" and "-Infinity"; bytes as base64; dates, times and
// timestamps in RFC 3339 form; missing fields are left out of structs and are
// null elsewhere; map keys become strings. Invalid UTF-8 becomes U+FFFD.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case KindBool:
		return strconv.AppendBool(dst, v.num != 0)
	case KindInt8, KindInt16, KindInt32, KindInt64:
		return strconv.AppendInt(dst, int64(v.num), 10)
	case KindUint64:
		return strconv.AppendUint(dst, v.num, 10)
	case KindFloat32:
		return appendFloat(dst, float64(math.Float32frombits(uint32(v.num))), 32)
	case KindFloat64:
		return appendFloat(dst, math.Float64frombits(v.num), 64)
	case KindString:
		return AppendJSONString(dst, v.str)
	case KindBytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.Bytes())
		return append(dst, '"')
	case KindDecimal:
		return v.Decimal().AppendText(dst)
	case KindDate, KindTime, KindTimestamp, KindUUID:
		dst = append(dst, '"')
		dst = v.AppendText(dst)
		return append(dst, '"')
	case KindArray:
		dst = append(dst, '[')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.AppendJSON(dst)
		}
		return append(dst, ']')
	case KindMap:
		dst = append(dst, '{')
		for i, e := range v.Entries() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if e.Key.kind == KindString {
				dst = AppendJSONString(dst, e.Key.str)
			} else {
				dst = AppendJSONString(dst, string(e.Key.AppendText(nil)))
			}
			dst = append(dst, ':')
			dst = e.Value.AppendJSON(dst)
		}
		return append(dst, '}')
	case KindStruct:
		dst = append(dst, '{')
		s, first := v.Struct(), true
		for i, f := range s.Fields {
			if f.kind == KindMissing || i >= len(s.Schema.Fields) {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = AppendJSONString(dst, s.Schema.Fields[i].Name)
			dst = append(dst, ':')
			dst = f.AppendJSON(dst)
		}
		return append(dst, '}')
	default: // Null and missing.
		return append(dst, "null"...)
	}
}

// AppendText appends v as text: strings and bytes as they are, null and
// missing as nothing, dates as 2006-01-02, times as 15:04:05.999999999,
// timestamps in RFC 3339, UUIDs with dashes, everything else as JSON.
func (v Value) AppendText(dst []byte) []byte {
	switch v.kind {
	case KindMissing, KindNull:
		return dst
	case KindString, KindBytes:
		return append(dst, v.str...)
	case KindDate:
		return v.Instant().AppendFormat(dst, time.DateOnly)
	case KindTime:
		return time.Unix(0, int64(v.num)).UTC().AppendFormat(dst, "15:04:05.999999999")
	case KindTimestamp:
		return v.Instant().AppendFormat(dst, time.RFC3339Nano)
	case KindUUID:
		u := v.UUID()
		for i, n := 0, 0; i < 5; i++ {
			if i > 0 {
				dst = append(dst, '-')
			}
			size := [...]int{4, 2, 2, 2, 6}[i]
			dst = hex.AppendEncode(dst, u[n:n+size])
			n += size
		}
		return dst
	default:
		return v.AppendJSON(dst)
	}
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, bits)
}

const hexDigits = "0123456789abcdef"

// AppendJSONString appends s as a JSON string. Only what RFC 8259 asks for is
// escaped; invalid UTF-8 becomes U+FFFD.
func AppendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			if b >= 0x20 && b != '"' && b != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch b {
			case '"', '\\':
				dst = append(dst, '\\', b)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
			i++
			start = i
			continue
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
