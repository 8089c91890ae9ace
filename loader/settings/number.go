package settings

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// maxDigits bounds a number written as text, so that one with a huge exponent
// costs nothing.
const maxDigits = 64

// toBig returns a number of any type exactly.
func toBig(v any) (*big.Float, bool) {
	switch n := v.(type) {
	case *big.Float:
		return n, n != nil
	case json.Number:
		if len(n) > maxDigits {
			return nil, false
		}
		f, _, err := big.ParseFloat(n.String(), 10, 512, big.ToNearestEven)
		return f, err == nil
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if _, ok := v.(time.Duration); ok {
			return nil, false
		}
		return new(big.Float).SetInt64(r.Int()), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return new(big.Float).SetUint64(r.Uint()), true
	case reflect.Float32, reflect.Float64:
		f := r.Float()
		if f != f { // NewFloat refuses it.
			return nil, false
		}
		return big.NewFloat(f), true
	default:
		return nil, false
	}
}

func toInt(v any) (int64, bool) {
	f, ok := toBig(v)
	if !ok || !f.IsInt() {
		return 0, false
	}
	n, accuracy := f.Int64()
	return n, accuracy == big.Exact
}

func toFloat(v any) (float64, bool) {
	f, ok := toBig(v)
	if !ok || f.IsInf() {
		return 0, false
	}
	n, _ := f.Float64()
	return n, true
}

// kindOf names the type of a value as a user sees it.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a bool"
	case time.Duration:
		return "a duration"
	case []any, []string:
		return "a list"
	case map[string]any, map[string]string:
		return "a map"
	}
	if f, ok := toBig(v); ok {
		if f.IsInt() {
			return "a number"
		}
		return "a fraction"
	}
	return fmt.Sprintf("of Go type %T", v)
}

func (c *checker) duration(s *pluginapi.Setting, v any) any {
	d, ok := v.(time.Duration)
	if text, isText := v.(string); isText {
		var err error
		d, err = time.ParseDuration(text)
		if err != nil {
			c.addf(`is not a duration: write it like "250ms", "30s" or "5m"`)
			return nil
		}
	} else if !ok {
		c.addf(`is %s, want a duration in quotes with its unit, like "30s"`, kindOf(v))
		return nil
	}
	show := func(seconds float64) string {
		return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond).String()
	}
	if d < 0 && s.Min == nil {
		c.addf("is negative")
	}
	c.limits(s, d.Seconds(), show)
	return d
}

func (c *checker) bytes(s *pluginapi.Setting, v any) any {
	text, ok := v.(string)
	if !ok {
		c.addf(`is %s, want a size in quotes with its unit, like "8MiB"`, kindOf(v))
		return nil
	}
	n, err := ParseBytes(text)
	if err != nil {
		c.addf(`is not a size: write it like "512KiB", "8MiB" or "1GB"`)
		return nil
	}
	if n < 0 && s.Min == nil {
		c.addf("is negative")
	}
	c.limits(s, float64(n), func(f float64) string { return FormatBytes(int64(f)) })
	return n
}

// units are the units of a size, each after those whose suffix it is not.
var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// ParseBytes reads a size: a number, which may have a fraction, with a unit of
// B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024) in
// this spelling, or "0".
func ParseBytes(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if text == "0" {
		return 0, nil
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		digits = strings.TrimSpace(digits)
		if len(digits) > maxDigits || strings.Trim(digits, "+-.0123456789") != "" {
			break
		}
		r, ok := new(big.Rat).SetString(digits)
		if !ok {
			break
		}
		r.Mul(r, new(big.Rat).SetInt64(u.bytes))
		n := new(big.Int).Quo(r.Num(), r.Denom())
		if !n.IsInt64() {
			return 0, fmt.Errorf("parse size %q: too large", text)
		}
		return n.Int64(), nil
	}
	return 0, fmt.Errorf("parse size %q: want a number with a unit, like 8MiB", text)
}

// FormatBytes returns n bytes in the largest unit that needs no fraction.
func FormatBytes(n int64) string {
	for i := 3; i >= 0; i-- {
		if u := units[i]; n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	for i := 7; i >= 4; i-- {
		if u := units[i]; n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
