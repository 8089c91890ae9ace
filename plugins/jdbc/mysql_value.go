package jdbc

import (
	"fmt"

	"github.com/sluicehq/sluice/pluginapi/data"
)

func (m *mysqlDB) value(c *column, v data.Value) (any, error) {
	switch c.kind {
	case kindBinary:
		return binaryValue(c, v)
	case kindJSON:
		return jsonValue(c, v)
	default:
	}
	switch v.Kind() {
	case data.KindBool:
		if c.kind == kindText || c.kind == kindOther {
			break
		}
		if v.Bool() {
			return int64(1), nil
		}
		return int64(0), nil
	case data.KindInt8, data.KindInt16, data.KindInt32, data.KindInt64:
		if c.kind == kindText || c.kind == kindOther {
			break
		}
		n, _ := v.Int()
		return n, nil
	case data.KindUint64:
		if c.kind == kindText || c.kind == kindOther {
			break
		}
		n, _ := v.Uint()
		return n, nil
	case data.KindBytes:
		return bytesText(c, v)
	case data.KindArray, data.KindMap, data.KindStruct:
		if c.kind == kindText {
			return jsonText(v), nil
		}
		return nil, misfit(c, v)
	case data.KindDecimal, data.KindFloat32, data.KindFloat64:
		if c.kind == kindInteger {
			// A fraction would be rounded away without a word.
			text, ok := integerText(v)
			if !ok {
				return nil, fmt.Errorf("column %q of type %s would lose a number's fraction or range", c.name, c.declared)
			}
			return text, nil
		}
	case data.KindString, data.KindTimestamp:
		return mysqlMoment(c, v)
	default:
	}
	text, ok := scalarText(v)
	if !ok {
		return nil, misfit(c, v)
	}
	return text, nil
}

// mysqlMoment returns a text or a timestamp. The server knows no "Z" and would drop a zone.
func mysqlMoment(c *column, v data.Value) (any, error) {
	t, moment := v.Instant(), true
	if v.Kind() == data.KindString {
		t, moment = momentOf(v.Str())
	}
	switch {
	case !moment || c.kind == kindText || c.kind == kindOther:
		return string(v.AppendText(nil)), nil
	case c.kind == kindDate && !midnight(t):
		return nil, fmt.Errorf("column %q of type %s would lose the time of day of a timestamp", c.name, c.declared)
	case c.kind == kindDate:
		return dateText(t.UTC()), nil
	case c.kind == kindTimestamp, c.kind == kindTimestampZone:
		return momentText(t), nil
	default:
		return nil, misfit(c, v)
	}
}
