package jdbc

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice/pluginapi/data"
)

// maxIntegerDigits bounds the zeros that a number such as 1e16000 is written out with.
const maxIntegerDigits = 400

// misfit is the error for a value whose kind the column does not take.
func misfit(c *column, v data.Value) error {
	switch v.Kind() {
	case data.KindStruct, data.KindMap, data.KindArray:
		return fmt.Errorf("column %q of type %s does not take a nested %s; flatten the record or use a JSON or text column", c.name, c.declared, v.Kind())
	default:
		return fmt.Errorf("column %q of type %s does not take a value of type %s", c.name, c.declared, v.Kind())
	}
}

// bytesText returns bytes as text for a column that is not binary.
func bytesText(c *column, v data.Value) (string, error) {
	b := v.Bytes()
	if !utf8.Valid(b) {
		return "", fmt.Errorf("column %q of type %s does not take bytes that are not UTF-8", c.name, c.declared)
	}
	return string(b), nil
}

// scalarText returns a scalar as text that SQL databases read, exactly.
func scalarText(v data.Value) (string, bool) {
	switch v.Kind() {
	case data.KindBool:
		return strconv.FormatBool(v.Bool()), true
	case data.KindInt8, data.KindInt16, data.KindInt32, data.KindInt64:
		n, _ := v.Int()
		return strconv.FormatInt(n, 10), true
	case data.KindUint64:
		n, _ := v.Uint()
		return strconv.FormatUint(n, 10), true
	case data.KindFloat32:
		f, _ := v.Float()
		return strconv.FormatFloat(f, 'g', -1, 32), true
	case data.KindFloat64:
		f, _ := v.Float()
		return strconv.FormatFloat(f, 'g', -1, 64), true
	case data.KindString:
		return v.Str(), true
	case data.KindDecimal, data.KindUUID:
		return string(v.AppendText(nil)), true
	case data.KindDate:
		return dateText(v.Instant()), true
	case data.KindTime:
		return timeText(v.TimeOfDay()), true
	case data.KindTimestamp:
		return momentText(v.Instant()), true
	default:
		return "", false
	}
}

// integerText returns a number without a fraction as an integer's text: 12.00, 12e3 and 12.0 are integers too. ok is false
// for any other value.
func integerText(v data.Value) (text string, ok bool) {
	switch v.Kind() {
	case data.KindDecimal:
		d := v.Decimal()
		n := d.Unscaled()
		scale := d.Scale()
		switch {
		case scale > maxIntegerDigits || scale < -maxIntegerDigits:
			return "", false
		case scale > 0:
			rest := new(big.Int)
			if n.QuoRem(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil), rest); rest.Sign() != 0 {
				return "", false
			}
		case scale < 0:
			n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-scale)), nil))
		}
		return n.String(), true
	case data.KindFloat32, data.KindFloat64:
		f, _ := v.Float()
		if i := int64(f); f > -1<<53 && f < 1<<53 && float64(i) == f {
			return strconv.FormatInt(i, 10), true
		}
		return "", false
	default:
		return "", false
	}
}

// dateText returns the date of t, in UTC already. Dates before the year 1 are written the way PostgreSQL reads them.
func dateText(t time.Time) string {
	if y := t.Year(); y <= 0 {
		return fmt.Sprintf("%04d-%02d-%02d BC", 1-y, t.Month(), t.Day())
	}
	return t.Format("2006-01-02")
}

// timeText returns a time of day, cut to the microseconds that databases hold.
func timeText(d time.Duration) string {
	return time.Unix(0, 0).UTC().Add(d.Truncate(time.Microsecond)).Format("15:04:05.999999")
}

// momentText returns a moment in UTC without a zone, cut to microseconds.
func momentText(t time.Time) string {
	t = t.UTC()
	clock := t.Format(" 15:04:05") + fraction(t)
	if date, ok := strings.CutSuffix(dateText(t), " BC"); ok {
		return date + clock + " BC"
	}
	return dateText(t) + clock
}

func fraction(t time.Time) string {
	micros := t.Nanosecond() / 1000
	if micros == 0 {
		return ""
	}
	return strings.TrimRight(fmt.Sprintf(".%06d", micros), "0")
}

// momentOf reads a text in RFC 3339, which names its zone. Any other text is the database's to read.
func momentOf(s string) (time.Time, bool) {
	if len(s) < len("2006-01-02T15:04:05Z") || (s[10] != 'T' && s[10] != 't' && s[10] != ' ') {
		return time.Time{}, false
	}
	if s[10] != 'T' {
		s = s[:10] + "T" + s[11:]
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil
}

// midnight reports whether t is the first moment of a day in UTC, so that a date holds all of it.
func midnight(t time.Time) bool { return t.Truncate(24 * time.Hour).Equal(t) }

// jsonText returns v as JSON.
func jsonText(v data.Value) string { return string(v.AppendJSON(nil)) }
