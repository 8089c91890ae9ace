package bench

import (
	"fmt"
	"math"
	"slices"
)

// values are one figure of several runs. NaN stands for a run without the figure.
type values []float64

// known are the values that are numbers, sorted.
func (v values) known() values {
	out := slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	slices.Sort(out)
	return out
}

// median is NaN without any value.
func (v values) median() float64 {
	s := v.known()
	switch n := len(s); {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

// ratios divides run by run: both values of a ratio are of one round.
func (v values) ratios(base values) values {
	out := make(values, 0, len(v))
	for i := range min(len(v), len(base)) {
		out = append(out, v[i]/base[i])
	}
	return out
}

// format is "median [least-greatest]", or "-" without a value. verb formats one value.
func (v values) format(verb string) string {
	s := v.known()
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf(verb+" ["+verb+"-"+verb+"]", s.median(), s[0], s[len(s)-1])
}
