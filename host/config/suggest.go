package config

import (
	"fmt"
	"slices"
	"strings"
)

// didYouMean returns ` Did you mean "x"?` for the name nearest to given, or
// the names there are when none is near and they are few, or "".
func didYouMean(given string, names []string) string {
	if s := nearest(given, names); s != "" {
		return fmt.Sprintf(" Did you mean %q?", s)
	}
	const few = 12
	if n := len(names); n > 0 && n <= few {
		sorted := slices.Sorted(slices.Values(names))
		return " Possible: " + strings.Join(sorted, ", ") + "."
	}
	return ""
}

// nearest returns the name that given most likely stands for, or "".
func nearest(given string, names []string) string {
	const longestName = 100 // Beyond it nobody misspelt a setting.
	if len(given) > longestName {
		return ""
	}
	plain := normalName(given)
	best, bestDistance := "", len(plain)/3+2
	for _, name := range slices.Sorted(slices.Values(names)) {
		d := distance(plain, normalName(name))
		if d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// normalName makes Connect's dotted and JSON's camel-case spellings alike.
func normalName(s string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(s))
}

// distance is the number of letters to insert, delete, change or swap with
// their neighbour to make a into b.
func distance(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	var before []int
	row := make([]int, len(rb)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(ra); i++ {
		next := make([]int, len(rb)+1)
		next[0] = i
		for j := 1; j <= len(rb); j++ {
			cost := 1
			if ra[i-1] == rb[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && ra[i-1] == rb[j-2] && ra[i-2] == rb[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(rb)]
}
