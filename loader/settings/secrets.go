package settings

import (
	"slices"

	"github.com/sluicehq/sluice/pluginapi"
)

// Secrets returns the texts of the secret settings in values, longest first, so
// that they can be kept out of what a plugin writes.
func Secrets(settings []pluginapi.Setting, values map[string]any) []string {
	var out []string
	for i := range settings {
		s := &settings[i]
		out = appendSecrets(out, s, s.Type, s.Secret, values[s.Name])
	}
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(out)
}

// appendSecrets appends the texts in v, which is of type t of s: all of them if
// secret, else those of secret fields.
func appendSecrets(out []string, s *pluginapi.Setting, t pluginapi.Type, secret bool, v any) []string {
	switch v := v.(type) {
	case string:
		if secret && v != "" {
			out = append(out, v)
		}
	case []any:
		for _, e := range v {
			out = appendSecrets(out, s, s.Elem, secret, e)
		}
	case map[string]any:
		if t != pluginapi.Object {
			for _, e := range v {
				out = appendSecrets(out, s, s.Elem, secret, e)
			}
			break
		}
		for i := range s.Fields {
			f := &s.Fields[i]
			out = appendSecrets(out, f, f.Type, secret || f.Secret, v[f.Name])
		}
	}
	return out
}
