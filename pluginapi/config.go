package pluginapi

import (
	"log/slog"
	"time"
)

// Config is what a sink is started with: the values of its settings, already
// checked against the plugin's description with defaults filled in, and where
// it runs. It is a value and safe to copy; its maps and lists must not be
// changed.
type Config struct {
	Connector string // Name of the connector.
	Task      int    // Number of the task in this worker, from 0.
	Writer    int    // Number of this instance in its task, from 0.
	Worker    string // Id of the worker.

	// Logger writes into the host's log with the connector's attributes. It is
	// never nil.
	Logger *slog.Logger

	// Values holds the settings by name. Read them by the methods below, which
	// give the zero value for a setting that is optional and not written.
	Values map[string]any
}

// Has reports whether the setting was written or has a default.
func (c Config) Has(name string) bool { return c.Values[name] != nil }

// String returns a String setting.
func (c Config) String(name string) string { return get[string](c, name) }

// Bool returns a Bool setting.
func (c Config) Bool(name string) bool { return get[bool](c, name) }

// Int returns an Int setting, or a Bytes setting in bytes.
func (c Config) Int(name string) int64 { return get[int64](c, name) }

// Float returns a Float setting.
func (c Config) Float(name string) float64 { return get[float64](c, name) }

// Duration returns a Duration setting.
func (c Config) Duration(name string) time.Duration { return get[time.Duration](c, name) }

// List returns a List setting.
func (c Config) List(name string) []any { return get[[]any](c, name) }

// Strings returns a List setting of strings.
func (c Config) Strings(name string) []string {
	list := c.List(name)
	out := make([]string, 0, len(list))
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// Map returns a Map or Object setting.
func (c Config) Map(name string) map[string]any { return get[map[string]any](c, name) }

// StringMap returns a Map setting of strings.
func (c Config) StringMap(name string) map[string]string {
	m := c.Map(name)
	out := make(map[string]string, len(m))
	for k, v := range m {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

// Object returns an Object setting as a Config of its own, so that its fields
// are read the same way.
func (c Config) Object(name string) Config {
	c.Values = c.Map(name)
	return c
}

func get[T any](c Config, name string) T {
	v, _ := c.Values[name].(T)
	return v
}
