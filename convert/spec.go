package convert

import (
	"fmt"
	"strings"

	"github.com/sluicehq/sluice/pluginapi"
)

// Spec says which converter is wanted, with which options.
type Spec struct {
	Name string // One of [Names]; empty means "bytes".
	// Options holds the values of the converter's settings, each of the Go
	// type its [pluginapi.Type] names. What is left out has its default.
	Options map[string]any
}

// Names returns the names of the converters, in alphabetical order.
func Names() []string { return []string{"bytes", "json", "string"} }

// Settings describes the options of the converter called name, and reports
// whether there is one.
func Settings(name string) ([]pluginapi.Setting, bool) {
	switch name {
	case "", "bytes", "string":
		return nil, true
	case "json":
		return []pluginapi.Setting{
			{
				Name: "schemas_enable", Type: pluginapi.Bool,
				Help: "true: every record is an object with schema and payload, as Kafka Connect's JsonConverter writes by default. " +
					"false: none is. Left out: records that have this form are read so, all others as they are.",
			},
			{
				Name: "replace_null_with_default", Type: pluginapi.Bool, Default: false,
				Help: "With a schema, whether a null becomes the field's default, as in Kafka Connect. Off, a null stays null and only a missing field gets its default.",
			},
			{
				Name: "schemas_cache_size", Type: pluginapi.Int, Default: int64(1000), Min: pluginapi.Limit(0), Max: pluginapi.Limit(100_000),
				Help: "How many schemas are kept; a schema is the same text in front of the payload.",
			},
		}, true
	default:
		return nil, false
	}
}

// New returns the converter spec asks for. Unknown names and options, and
// options of another type than their setting's, are errors.
func New(spec Spec) (Converter, error) {
	settings, ok := Settings(spec.Name)
	if !ok {
		return nil, fmt.Errorf("converter %q is not known; use %s", spec.Name, strings.Join(Names(), ", "))
	}
	options := pluginapi.Config{Values: make(map[string]any, len(settings))}
	for _, s := range settings {
		options.Values[s.Name] = s.Default
	}
	for name, v := range spec.Options {
		if err := checkOption(spec.Name, settings, name, v); err != nil {
			return nil, err
		}
		if v != nil {
			options.Values[name] = v
		}
	}
	switch spec.Name {
	case "json":
		return newJSON(options), nil
	case "string":
		return newString(), nil
	default:
		return bytesConverter{}, nil
	}
}

func checkOption(converter string, settings []pluginapi.Setting, name string, v any) error {
	for _, s := range settings {
		if s.Name != name {
			continue
		}
		ok := v == nil
		switch s.Type {
		case pluginapi.Bool:
			_, is := v.(bool)
			ok = ok || is
		case pluginapi.Int:
			n, is := v.(int64)
			if is && ((s.Min != nil && float64(n) < *s.Min) || (s.Max != nil && float64(n) > *s.Max)) {
				return fmt.Errorf("converter %q: option %s is %d, outside %v to %v", converter, name, n, *s.Min, *s.Max)
			}
			ok = ok || is
		default:
		}
		if !ok {
			return fmt.Errorf("converter %q: option %s is a %T, want %s", converter, name, v, s.Type)
		}
		return nil
	}
	if len(settings) == 0 {
		return fmt.Errorf("converter %q has no option %q; it has none", converter, name)
	}
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = s.Name
	}
	return fmt.Errorf("converter %q has no option %q; it has %s", converter, name, strings.Join(names, ", "))
}
