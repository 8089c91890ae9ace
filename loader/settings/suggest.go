package settings

// maxSuggest bounds what is compared, in bytes.
const maxSuggest = 64

// Suggest returns the candidate nearest to name, or nothing if none is near: a
// third of its letters may differ, but one always.
func Suggest(name string, candidates []string) string {
	best, least := "", max(len(name)/3, 1)+1
	for _, c := range candidates {
		if len(name) > maxSuggest || len(c) > maxSuggest {
			continue
		}
		if d := distance(name, c); d < least && d < len(c) {
			best, least = c, d
		}
	}
	return best
}

// distance returns how many letters must be put in, left out, replaced, or
// swapped with their neighbour to make b of a.
func distance(a, b string) int {
	older, old := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(b)]
}
