package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicehq/sluice/loader/settings"
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

// nearest returns the name that given most likely stands for, or "". Kafka
// Connect's dotted and other spellings count as the same.
func nearest(given string, names []string) string {
	plain := map[string]string{}
	for _, name := range slices.Backward(slices.Sorted(slices.Values(names))) {
		plain[normalName(name)] = name
	}
	candidates := make([]string, 0, len(plain))
	for name := range plain {
		candidates = append(candidates, name)
	}
	slices.Sort(candidates)
	if near := settings.Suggest(normalName(given), candidates); near != "" {
		return plain[near]
	}
	const telling = 3 // Letters that a name must have to be recognised at the start of another.
	for _, c := range candidates {
		if len(c) >= telling && strings.HasPrefix(normalName(given), c) {
			return plain[c]
		}
	}
	return ""
}

func normalName(s string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(s))
}
