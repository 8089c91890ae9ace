package pluginapi

import (
	"fmt"
	"regexp"
	"time"
)

// ABIVersion is the version of the contract this package speaks.
const ABIVersion = 1

// Form is the form of data a plugin wants its records in.
type Form uint8

// The numbers are part of the ABI.
const (
	// FormData takes keys, values and headers as the connector's converters
	// make them: data, or bytes with the converter "bytes". The zero Form is
	// FormData too.
	FormData Form = 1
	// FormBytes takes them as the raw bytes they were produced with;
	// a connector that names another converter is refused.
	FormBytes Form = 2
)

// Plugin describes a sink and makes instances of it. It is a value handed to
// serve, guest or the host; there is no global registry.
type Plugin struct {
	Name          string // Lower case, [a-z][a-z0-9_-]{0,62}: what `sink = "…"` names.
	Version       string // Semantic version of the plugin, e.g. "1.2.0".
	Summary       string // One line.
	Documentation string // Markdown, or a URL.
	Settings      []Setting
	Form          Form
	MaxBatch      int    // Largest batch it likes, in records; 0 means no limit.
	MinHost       string // Lowest host version it works with; empty means any.

	// New makes a sink. It has no side effects and is safe for concurrent use.
	New func() Sink
}

// Capability is an optional ability of a sink. Numbers are part of the ABI.
type Capability uint8

// The capabilities a plugin may announce.
const (
	CanCheck  Capability = 1 // Its sinks implement [Checker].
	CanReport Capability = 2 // Its sinks implement [Reporter].
	CanEmit   Capability = 3 // Its sinks implement [Emitter].
)

// Description is what a plugin says of itself: everything in [Plugin] that
// crosses the boundary, and the capabilities of its sinks.
type Description struct {
	ABIVersion    int
	Name          string
	Version       string
	Summary       string
	Documentation string
	Settings      []Setting
	Form          Form
	MaxBatch      int
	MinHost       string
	Capabilities  []Capability
}

// Can reports whether c is among the capabilities.
func (d *Description) Can(c Capability) bool {
	for _, have := range d.Capabilities {
		if have == c {
			return true
		}
	}
	return false
}

// Describe returns the plugin's description. It makes one sink to see what it
// can do.
func (p *Plugin) Describe() Description {
	d := Description{
		ABIVersion: ABIVersion, Name: p.Name, Version: p.Version, Summary: p.Summary,
		Documentation: p.Documentation, Settings: p.Settings, Form: p.Form,
		MaxBatch: p.MaxBatch, MinHost: p.MinHost,
	}
	if d.Form == 0 {
		d.Form = FormData
	}
	sink := p.New()
	if _, ok := sink.(Checker); ok {
		d.Capabilities = append(d.Capabilities, CanCheck)
	}
	if _, ok := sink.(Reporter); ok {
		d.Capabilities = append(d.Capabilities, CanReport)
	}
	if _, ok := sink.(Emitter); ok {
		d.Capabilities = append(d.Capabilities, CanEmit)
	}
	return d
}

// Type is the type of a setting's value. Numbers are part of the ABI.
type Type uint8

// The types a setting may have, with the Go type [Config] gives it in.
const (
	String   Type = 1 // string
	Bool     Type = 2 // bool
	Int      Type = 3 // int64
	Float    Type = 4 // float64
	Duration Type = 5 // time.Duration, written "250ms"
	Bytes    Type = 6 // int64 number of bytes, written "8MiB"
	List     Type = 7 // []any of Elem's type
	Map      Type = 8 // map[string]any of Elem's type
	Object   Type = 9 // map[string]any with Fields
)

// String returns the type's name as it stands in documentation.
func (t Type) String() string {
	names := [...]string{"", "string", "bool", "int", "float", "duration", "bytes", "list", "map", "object"}
	if int(t) < len(names) && t > 0 {
		return names[t]
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Setting describes one setting in a connector's config block. The host checks
// values against it before a plugin sees them.
type Setting struct {
	Name       string // [a-z][a-z0-9_]*
	Type       Type
	Elem       Type      // Of a List or Map; zero means String.
	Fields     []Setting // Of an Object.
	Required   bool
	Default    any      // Of the Go type Type names; nil means none.
	Allowed    []string // Allowed values of a String, or of a List's or Map's strings; empty means any.
	Min, Max   *float64 // Range of a number, of a Duration in seconds, of a Bytes in bytes; nil means open.
	Secret     bool     // Shown as "(secret)" everywhere.
	Template   bool     // A record template (pluginapi/template): checked when the configuration is read.
	Deprecated string   // Why, and what to use; empty means it is not.
	Help       string   // One sentence.
	Group      string   // Heading in forms.
	Order      int      // Place in forms; equal ones keep the order of the list.
}

// Limit returns v as a bound for [Setting.Min] or [Setting.Max].
func Limit(v float64) *float64 { return &v }

// LimitDuration returns d as a bound of a Duration setting.
func LimitDuration(d time.Duration) *float64 { return Limit(d.Seconds()) }

var (
	pluginName  = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	settingName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
)

// Validate checks a description as the host does before it uses a plugin: names
// well-formed and unique, types known, defaults of their type, an ABI version
// this package speaks.
func (d *Description) Validate() error {
	if !pluginName.MatchString(d.Name) {
		return fmt.Errorf("plugin name %q: want %s", d.Name, pluginName)
	}
	if d.ABIVersion != ABIVersion {
		return fmt.Errorf("plugin %s speaks ABI version %d, this host speaks %d", d.Name, d.ABIVersion, ABIVersion)
	}
	if d.Form != FormData && d.Form != FormBytes {
		return fmt.Errorf("plugin %s: data form %d is not known", d.Name, d.Form)
	}
	if d.MaxBatch < 0 {
		return fmt.Errorf("plugin %s: largest batch %d is negative", d.Name, d.MaxBatch)
	}
	if err := validateSettings(d.Settings, 0); err != nil {
		return fmt.Errorf("plugin %s: %w", d.Name, err)
	}
	return nil
}

// maxSettingDepth bounds objects within objects in a description, which comes
// from outside.
const maxSettingDepth = 8

func validateSettings(settings []Setting, depth int) error {
	if depth > maxSettingDepth {
		return fmt.Errorf("settings nest deeper than %d", maxSettingDepth)
	}
	seen := make(map[string]bool, len(settings))
	for i := range settings {
		s := &settings[i]
		if !settingName.MatchString(s.Name) {
			return fmt.Errorf("setting name %q: want %s", s.Name, settingName)
		}
		if seen[s.Name] {
			return fmt.Errorf("setting %q is described twice", s.Name)
		}
		seen[s.Name] = true
		if s.Type < String || s.Type > Object {
			return fmt.Errorf("setting %q: %s is not known", s.Name, s.Type)
		}
		if s.Elem > Object {
			return fmt.Errorf("setting %q: element %s is not known", s.Name, s.Elem)
		}
		if s.Default != nil && !s.Type.holds(s.Default) {
			return fmt.Errorf("setting %q: default of Go type %T does not fit type %s", s.Name, s.Default, s.Type)
		}
		if err := validateSettings(s.Fields, depth+1); err != nil {
			return fmt.Errorf("setting %q: %w", s.Name, err)
		}
	}
	return nil
}

// holds reports whether v has the Go type that settings of type t are given in.
func (t Type) holds(v any) bool {
	switch t {
	case String:
		_, ok := v.(string)
		return ok
	case Bool:
		_, ok := v.(bool)
		return ok
	case Int, Bytes:
		_, ok := v.(int64)
		return ok
	case Float:
		_, ok := v.(float64)
		return ok
	case Duration:
		_, ok := v.(time.Duration)
		return ok
	case List:
		_, ok := v.([]any)
		return ok
	case Map, Object:
		_, ok := v.(map[string]any)
		return ok
	default:
		return false
	}
}
