package main

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSpans(t *testing.T) {
	tests := []struct {
		name        string
		add, remove []span
		want        spans
	}{
		{"in order", []span{{0, 5}, {5, 9}}, nil, spans{{0, 9}}},
		{"backwards", []span{{5, 9}, {0, 5}}, nil, spans{{0, 9}}},
		{"apart", []span{{5, 9}, {0, 4}}, nil, spans{{0, 4}, {5, 9}}},
		{"fills a gap", []span{{0, 2}, {6, 8}, {2, 6}}, nil, spans{{0, 8}}},
		{"out of the middle", []span{{0, 9}}, []span{{3, 5}}, spans{{0, 3}, {5, 9}}},
		{"over several", []span{{0, 2}, {4, 6}, {8, 10}}, []span{{1, 9}}, spans{{0, 1}, {9, 10}}},
		{"beside", []span{{0, 2}, {4, 6}}, []span{{2, 4}}, spans{{0, 2}, {4, 6}}},
		{"all", []span{{0, 2}}, []span{{0, 2}}, spans{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s spans
			for _, x := range tt.add {
				s.add(x)
			}
			for _, x := range tt.remove {
				s.remove(x)
			}
			if !slices.Equal(s, tt.want) {
				t.Errorf("got %v, want %v", s, tt.want)
			}
		})
	}
}

func TestSpansAreASet(t *testing.T) {
	var s spans
	set := map[int64]bool{}
	for step := range 5000 {
		from := rand.Int64N(60)
		x := span{from, from + 1 + rand.Int64N(12)}
		in := rand.IntN(2) == 0
		if in {
			s.add(x)
		} else {
			s.remove(x)
		}
		for o := x.from; o < x.to; o++ {
			set[o] = in
		}
		for i, y := range s {
			if y.from >= y.to || (i > 0 && s[i-1].to >= y.from) {
				t.Fatalf("step %d: %v is out of order", step, s)
			}
		}
		for o := range int64(80) {
			if has := slices.ContainsFunc(s, func(y span) bool { return y.from <= o && o < y.to }); has != set[o] {
				t.Fatalf("step %d: %d is in the set: %v, want %v", step, o, has, set[o])
			}
		}
	}
}
