package bench

import (
	"math"
	"testing"
)

func TestValues(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name string
		v    values
		want string
	}{
		{"none", nil, "-"},
		{"not a number", values{nan}, "-"},
		{"one", values{2}, "2.0 [2.0-2.0]"},
		{"odd", values{5, 1, 3}, "3.0 [1.0-5.0]"},
		{"even", values{4, 1, 3, 2}, "2.5 [1.0-4.0]"},
		{"with holes", values{nan, 7, nan, 5}, "6.0 [5.0-7.0]"},
		{"ratios of rounds", values{10, 30, 20}.ratios(values{10, 10, nan}), "2.0 [1.0-3.0]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.v.format("%.1f"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
