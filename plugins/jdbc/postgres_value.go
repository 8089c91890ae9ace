package jdbc

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice/pluginapi/data"
)

// value returns v as text that the type of c reads, or as bytes for a binary column.
func (p *postgres) value(c *column, v data.Value) (any, error) {
	switch c.kind {
	case kindBinary:
		return binaryValue(c, v)
	case kindJSON:
		return jsonValue(c, v)
	case kindArray:
		return postgresArray(c, v)
	default:
	}
	text, err := postgresText(c, c.kind, v)
	if err != nil {
		return nil, err
	}
	return text, nil
}

// binaryValue returns what a binary column holds: bytes, the UTF-8 of a text, or a UUID's 16 bytes.
func binaryValue(c *column, v data.Value) (any, error) {
	switch v.Kind() {
	case data.KindBytes:
		return v.Bytes(), nil
	case data.KindString:
		return []byte(v.Str()), nil
	case data.KindUUID:
		u := v.UUID()
		return u[:], nil
	default:
		return nil, misfit(c, v)
	}
}

// jsonValue returns the JSON of v. A text, or bytes, is taken to be JSON already.
func jsonValue(c *column, v data.Value) (any, error) {
	switch v.Kind() {
	case data.KindString:
		return v.Str(), nil
	case data.KindBytes:
		return bytesText(c, v)
	default:
		return jsonText(v), nil
	}
}

func postgresText(c *column, kind columnKind, v data.Value) (string, error) {
	switch v.Kind() {
	case data.KindBytes:
		return bytesText(c, v)
	case data.KindArray, data.KindMap, data.KindStruct:
		if kind == kindText {
			return jsonText(v), nil
		}
		return "", misfit(c, v)
	case data.KindString:
		if t, ok := momentOf(v.Str()); ok && (kind == kindTimestamp || kind == kindTimestampZone) {
			// A column without a zone would drop the text's.
			return momentText(t), nil
		}
		return v.Str(), nil
	case data.KindTimestamp:
		switch t := v.Instant(); {
		case kind == kindText || kind == kindOther:
			return string(v.AppendText(nil)), nil
		case kind == kindDate && !midnight(t):
			return "", fmt.Errorf("column %q of type %s would lose the time of day of a timestamp", c.name, c.declared)
		case kind == kindTime:
			return "", misfit(c, v)
		default:
			return momentText(t), nil
		}
	default:
	}
	if kind == kindInteger {
		if text, ok := integerText(v); ok {
			return text, nil
		}
	}
	text, ok := scalarText(v)
	if !ok {
		return "", misfit(c, v)
	}
	return text, nil
}

// postgresArray returns a list as PostgreSQL writes arrays, lists within lists as further dimensions. A text is taken to be
// written so already.
func postgresArray(c *column, v data.Value) (any, error) {
	if v.Kind() == data.KindString {
		return v.Str(), nil
	}
	if v.Kind() != data.KindArray {
		return nil, misfit(c, v)
	}
	var b strings.Builder
	if err := appendArray(&b, c, v, 0); err != nil {
		return nil, err
	}
	return b.String(), nil
}

// maxDimensions is what PostgreSQL allows.
const maxDimensions = 6

func appendArray(b *strings.Builder, c *column, v data.Value, depth int) error {
	if depth == maxDimensions {
		return fmt.Errorf("column %q of type %s has at most %d dimensions", c.name, c.declared, maxDimensions)
	}
	b.WriteByte('{')
	for i, e := range v.Elems() {
		if i > 0 {
			b.WriteByte(',')
		}
		switch {
		case e.IsNull():
			b.WriteString("NULL")
		case e.Kind() == data.KindArray && c.elem != kindJSON:
			if err := appendArray(b, c, e, depth+1); err != nil {
				return err
			}
		default:
			text, err := arrayElement(c, e)
			if err != nil {
				return err
			}
			b.WriteByte('"')
			for _, r := range []byte(text) {
				if r == '"' || r == '\\' {
					b.WriteByte('\\')
				}
				b.WriteByte(r)
			}
			b.WriteByte('"')
		}
	}
	b.WriteByte('}')
	return nil
}

func arrayElement(c *column, e data.Value) (string, error) {
	switch c.elem {
	case kindBinary:
		raw, err := binaryValue(c, e)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf(`\x%x`, raw), nil
	case kindJSON:
		text, err := jsonValue(c, e)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(text), nil
	default:
		return postgresText(c, c.elem, e)
	}
}
