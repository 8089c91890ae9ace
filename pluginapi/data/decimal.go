package data

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
)

// MaxScale bounds the scale of a [Decimal] in both directions, so that text
// from outside ("1e999999999") can make no number that fills the memory.
const MaxScale = 1 << 14

// maxDigits bounds the digits of a decimal read from text.
const maxDigits = 1 << 16

// Decimal is an exact decimal number: unscaled x 10^-scale. The zero Decimal
// is 0. It keeps its scale, so 1.10 and 1.1 differ in text but not in Cmp.
type Decimal struct {
	small int64    // The unscaled value where big is nil.
	big   *big.Int // Never changed once set.
	scale int32
}

// ErrDecimal is returned by ParseDecimal for text that is not a decimal number
// or is outside the bounds.
var ErrDecimal = errors.New("not a decimal number")

// NewDecimal returns unscaled x 10^-scale. It copies unscaled.
func NewDecimal(unscaled *big.Int, scale int32) Decimal {
	if unscaled.IsInt64() {
		return Decimal{small: unscaled.Int64(), scale: scale}
	}
	return Decimal{big: new(big.Int).Set(unscaled), scale: scale}
}

// ParseDecimal reads "-12.340", "1e-7" and the like, keeping trailing zeros.
func ParseDecimal(s string) (Decimal, error) {
	mantissa, exp := s, int64(0)
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.ParseInt(s[i+1:], 10, 32)
		if err != nil {
			return Decimal{}, ErrDecimal
		}
		mantissa, exp = s[:i], e
	}
	whole, frac, dot := strings.Cut(mantissa, ".")
	sign := ""
	if whole != "" && (whole[0] == '-' || whole[0] == '+') {
		sign, whole = whole[:1], whole[1:]
	}
	if len(whole)+len(frac) == 0 || len(whole)+len(frac) > maxDigits || (dot && frac == "" && whole == "") {
		return Decimal{}, ErrDecimal
	}
	for _, part := range [...]string{whole, frac} {
		for i := range len(part) {
			if part[i] < '0' || part[i] > '9' {
				return Decimal{}, ErrDecimal
			}
		}
	}
	scale := int64(len(frac)) - exp
	if scale > MaxScale || scale < -MaxScale {
		return Decimal{}, ErrDecimal
	}
	digits := sign + whole + frac
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return Decimal{small: n, scale: int32(scale)}, nil
	}
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return Decimal{}, ErrDecimal
	}
	return Decimal{big: n, scale: int32(scale)}, nil
}

// Unscaled returns the digits as an integer. The caller may keep and change it.
func (d Decimal) Unscaled() *big.Int {
	if d.big != nil {
		return new(big.Int).Set(d.big)
	}
	return big.NewInt(d.small)
}

// Scale returns the number of digits behind the point; below zero, zeros
// before it.
func (d Decimal) Scale() int32 { return d.scale }

// Cmp compares by value: -1, 0 or +1.
func (d Decimal) Cmp(e Decimal) int {
	a, b := d.Unscaled(), e.Unscaled()
	switch {
	case d.scale < e.scale:
		a.Mul(a, pow10(e.scale-d.scale))
	case d.scale > e.scale:
		b.Mul(b, pow10(d.scale-e.scale))
	}
	return a.Cmp(b)
}

func pow10(n int32) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// AppendText appends the number as JSON and SQL read it. A scale below zero is
// written with an exponent, "12e3", so that it stays short.
func (d Decimal) AppendText(dst []byte) []byte {
	var digits []byte
	if d.big != nil {
		digits = d.big.Append(nil, 10)
	} else {
		var buf [24]byte
		digits = strconv.AppendInt(buf[:0], d.small, 10)
	}
	if digits[0] == '-' {
		dst = append(dst, '-')
		digits = digits[1:]
	}
	switch {
	case d.scale == 0:
		return append(dst, digits...)
	case d.scale < 0:
		dst = append(dst, digits...)
		dst = append(dst, 'e')
		return strconv.AppendInt(dst, int64(-d.scale), 10)
	}
	point := len(digits) - int(d.scale)
	if point <= 0 {
		dst = append(dst, '0', '.')
		for range -point {
			dst = append(dst, '0')
		}
		return append(dst, digits...)
	}
	dst = append(dst, digits[:point]...)
	dst = append(dst, '.')
	return append(dst, digits[point:]...)
}

// String returns the number as AppendText writes it.
func (d Decimal) String() string { return string(d.AppendText(nil)) }
