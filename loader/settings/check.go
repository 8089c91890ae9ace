// Package settings checks the values a user wrote for a plugin's settings
// against the plugin's description, fills in defaults, and turns them into the
// Go types a sink gets them in.
//
// It is pure: it opens nothing and knows no configuration language. Whoever
// reads one maps a problem's path back to a line.
package settings

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/template"
)

// ValueProblem is something wrong with the values of a plugin's settings. It
// never holds the value of a secret setting.
type ValueProblem struct {
	// Path leads to the value: names of settings and keys, and indexes of lists
	// from 0. It is empty for none.
	Path []string
	// Message is a clause about it: "is required", "is 7, the most is 5".
	Message string
	// Suggestion is what may have been meant, to be written in its place; empty
	// if nothing is near.
	Suggestion string
	// Warning means that the value works all the same.
	Warning bool
}

// String returns path and message, with the suggestion.
func (p ValueProblem) String() string {
	s := strings.Join(p.Path, ".") + " " + p.Message
	if p.Suggestion != "" {
		s += fmt.Sprintf("; did you mean %q?", p.Suggestion)
	}
	return s
}

// CheckValues checks values against settings and returns them as a sink gets
// them: each of the Go type its setting's type names, defaults filled in. Nil
// values count as not written. All problems are returned, in the order of the
// settings after the names that are not known; with one that is no warning, the
// values must not be used.
//
// Numbers may be of any Go number type, *big.Float or json.Number. Durations
// ("250ms") and sizes ("8MiB") are strings; one without a unit is refused unless
// it is "0". Both may be negative only if the setting's Min is. An object that is
// not written stays absent, whatever its fields' defaults. The argument is not
// changed; the returned maps and lists are new, except defaults.
func CheckValues(settings []pluginapi.Setting, values map[string]any) (map[string]any, []ValueProblem) {
	c := checker{}
	out := c.object(settings, values)
	return out, c.problems
}

// checker walks values and collects problems.
type checker struct {
	path     []string
	problems []ValueProblem
}

func (c *checker) add(p ValueProblem) {
	p.Path = slices.Clone(c.path)
	c.problems = append(c.problems, p)
}

func (c *checker) addf(format string, args ...any) {
	c.add(ValueProblem{Message: fmt.Sprintf(format, args...)})
}

// in runs check one step further down the path.
func (c *checker) in(step string, check func()) {
	c.path = append(c.path, step)
	check()
	c.path = c.path[:len(c.path)-1]
}

// object checks the values of a plugin or of an object.
func (c *checker) object(settings []pluginapi.Setting, values map[string]any) map[string]any {
	names := make([]string, len(settings))
	for i := range settings {
		names[i] = settings[i].Name
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(names, name) {
			continue
		}
		c.in(name, func() {
			c.add(ValueProblem{Message: "is not a setting here", Suggestion: Suggest(name, names)})
		})
	}
	out := make(map[string]any, len(settings))
	for i := range settings {
		s := &settings[i]
		c.in(s.Name, func() {
			if v := c.setting(s, values[s.Name]); v != nil {
				out[s.Name] = v
			}
		})
	}
	return out
}

func (c *checker) setting(s *pluginapi.Setting, v any) any {
	if v == nil {
		if s.Default != nil {
			return s.Default
		}
		if s.Required {
			c.addf("is required")
		}
		return nil
	}
	if s.Deprecated != "" {
		c.add(ValueProblem{Message: "is deprecated: " + s.Deprecated, Warning: true})
	}
	return c.value(s, s.Type, v)
}

// value checks v, which is of type t of s: its own, or its elements'.
func (c *checker) value(s *pluginapi.Setting, t pluginapi.Type, v any) any {
	switch t {
	case pluginapi.String:
		return c.text(s, v)
	case pluginapi.Bool:
		if b, ok := v.(bool); ok {
			return b
		}
	case pluginapi.Int:
		if n, ok := toInt(v); ok {
			c.limits(s, float64(n), func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) })
			return n
		}
	case pluginapi.Float:
		if f, ok := toFloat(v); ok {
			c.limits(s, f, func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) })
			return f
		}
	case pluginapi.Duration:
		return c.duration(s, v)
	case pluginapi.Bytes:
		return c.bytes(s, v)
	case pluginapi.List:
		return c.list(s, v)
	case pluginapi.Map:
		return c.mapping(s, v)
	case pluginapi.Object:
		if m, ok := v.(map[string]any); ok {
			return c.object(s.Fields, m)
		}
	}
	c.wrongType(t, v)
	return nil
}

func (c *checker) wrongType(t pluginapi.Type, v any) {
	article := "a"
	if t == pluginapi.Int || t == pluginapi.Object {
		article = "an"
	}
	c.addf("is %s, want %s %s", kindOf(v), article, t)
}

func (c *checker) text(s *pluginapi.Setting, v any) any {
	text, ok := v.(string)
	if !ok {
		c.wrongType(pluginapi.String, v)
		return nil
	}
	if len(s.Allowed) > 0 && !slices.Contains(s.Allowed, text) {
		p := ValueProblem{Message: "is not one of " + quoted(s.Allowed)}
		if !s.Secret {
			p.Suggestion = Suggest(text, s.Allowed)
			p.Message = fmt.Sprintf("is %q, want one of %s", text, quoted(s.Allowed))
		}
		c.add(p)
	}
	if s.Template {
		if _, err := template.Parse(text); err != nil {
			c.addf("is not a template: %v", err)
		}
	}
	return text
}

func (c *checker) list(s *pluginapi.Setting, v any) any {
	var in []any
	switch v := v.(type) {
	case []any:
		in = v
	case []string:
		for _, e := range v {
			in = append(in, e)
		}
	default:
		c.wrongType(pluginapi.List, v)
		return nil
	}
	out := make([]any, 0, len(in))
	for i, e := range in {
		c.in(strconv.Itoa(i), func() { out = append(out, c.element(s, e)) })
	}
	return out
}

func (c *checker) mapping(s *pluginapi.Setting, v any) any {
	in, ok := v.(map[string]any)
	if !ok {
		texts, ok := v.(map[string]string)
		if !ok {
			c.wrongType(pluginapi.Map, v)
			return nil
		}
		in = make(map[string]any, len(texts))
		for k, e := range texts {
			in[k] = e
		}
	}
	out := make(map[string]any, len(in))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		c.in(k, func() { out[k] = c.element(s, in[k]) })
	}
	return out
}

// element checks an element of a list or map.
func (c *checker) element(s *pluginapi.Setting, v any) any {
	t := s.Elem
	if t == 0 {
		t = pluginapi.String
	}
	if v == nil {
		c.addf("is null, want a value")
		return nil
	}
	if t == pluginapi.List || t == pluginapi.Map {
		// A list of lists has strings: a description says no more.
		inner := *s
		inner.Elem = pluginapi.String
		return c.value(&inner, t, v)
	}
	return c.value(s, t, v)
}

// limits checks the range of a number.
func (c *checker) limits(s *pluginapi.Setting, n float64, show func(float64) string) {
	value := show(n)
	if s.Secret {
		value = "(secret)"
	}
	if s.Min != nil && n < *s.Min {
		c.addf("is %s, the least is %s", value, show(*s.Min))
	}
	if s.Max != nil && n > *s.Max {
		c.addf("is %s, the most is %s", value, show(*s.Max))
	}
}

func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strconv.Quote(s)
	}
	return strings.Join(out, ", ")
}
