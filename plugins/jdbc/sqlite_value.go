package jdbc

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/pluginapi/data"
)

// value returns v as one of SQLite's own types. Its columns convert what looks like a number, and a text of more digits than
// a float holds would lose them without a word: that is refused here.
func (l *sqliteDB) value(c *column, v data.Value) (any, error) {
	switch c.kind {
	case kindBinary:
		return binaryValue(c, v)
	case kindJSON:
		return jsonValue(c, v)
	default:
	}
	switch v.Kind() {
	case data.KindBool:
		switch {
		case c.kind == kindText:
			break
		case v.Bool():
			return int64(1), nil
		default:
			return int64(0), nil
		}
	case data.KindInt8, data.KindInt16, data.KindInt32, data.KindInt64, data.KindUint64,
		data.KindDecimal, data.KindFloat32, data.KindFloat64:
		return sqliteNumber(c, v)
	case data.KindBytes:
		if c.kind == kindAny {
			return v.Bytes(), nil
		}
		return bytesText(c, v)
	case data.KindArray, data.KindMap, data.KindStruct:
		if c.kind == kindText || c.kind == kindAny {
			return jsonText(v), nil
		}
		return nil, misfit(c, v)
	case data.KindTimestamp:
		switch t := v.Instant(); {
		case c.kind == kindDate && midnight(t):
			return dateText(t), nil
		case c.kind == kindDate:
			return nil, fmt.Errorf("column %q of type %s would lose the time of day of a timestamp", c.name, c.declared)
		}
	case data.KindString:
		if t, ok := momentOf(v.Str()); ok && c.kind == kindTimestamp {
			return momentText(t), nil
		}
	default:
	}
	text, ok := scalarText(v)
	if !ok {
		return nil, misfit(c, v)
	}
	return text, nil
}

// sqliteDigits is how many decimal digits a float always keeps.
const sqliteDigits = 15

var errDigits = errors.New("it has more digits than SQLite's numbers keep; declare the column TEXT")

// sqliteNumber returns a number as an integer or a float where that is exact, or where the column is declared to hold floats.
func sqliteNumber(c *column, v data.Value) (any, error) {
	text, _ := scalarText(v)
	if c.kind == kindText {
		return text, nil
	}
	whole := text
	if exact, ok := integerText(v); ok {
		whole = exact
	}
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case math.IsNaN(f):
		return nil, fmt.Errorf("column %q: SQLite has no NaN", c.name)
	case err != nil:
		return nil, fmt.Errorf("column %q: %w", c.name, errDigits)
	case c.kind == kindFloat || v.Kind() == data.KindFloat32 || v.Kind() == data.KindFloat64 || significant(text) <= sqliteDigits:
		return f, nil
	default:
		return nil, fmt.Errorf("column %q: %w", c.name, errDigits)
	}
}

// significant counts the digits of a number without zeros at its ends.
func significant(text string) int {
	mantissa, _, _ := strings.Cut(strings.TrimLeft(text, "+-"), "e")
	digits := strings.Replace(mantissa, ".", "", 1)
	return len(strings.Trim(digits, "0"))
}
