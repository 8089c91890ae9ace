package abi

import (
	"math"
	"strings"

	"github.com/sluicehq/sluice/pluginapi"
)

// maxSettingDepth bounds settings within settings. pluginapi allows fewer, and
// says so with the setting's name.
const maxSettingDepth = 32

// fields writes the entries of a map with text keys, leaving out zero values.
// Its head has room for 23 entries.
type fields struct {
	dst  []byte
	head int
	n    int
}

func newFields(dst []byte) *fields {
	return &fields{dst: append(dst, majorMap), head: len(dst)}
}

// key starts an entry. The caller appends its value to f.dst.
func (f *fields) key(name string) {
	f.n++
	f.dst = appendText(f.dst, name)
}

func (f *fields) text(name, s string) {
	if s != "" {
		f.key(name)
		f.dst = appendText(f.dst, s)
	}
}

func (f *fields) int(name string, n int64) {
	if n != 0 {
		f.key(name)
		f.dst = appendInt(f.dst, n)
	}
}

func (f *fields) flag(name string, b bool) {
	if b {
		f.key(name)
		f.dst = appendBool(f.dst, b)
	}
}

func (f *fields) float(name string, v *float64) {
	if v != nil {
		f.key(name)
		f.dst = appendFloat64(f.dst, *v)
	}
}

func (f *fields) end() []byte {
	f.dst[f.head] = majorMap | byte(f.n)
	return f.dst
}

// AppendDescription appends d as a map with text keys, without what is empty.
func AppendDescription(dst []byte, d *pluginapi.Description) []byte {
	f := newFields(dst)
	f.int("abi", int64(d.ABIVersion))
	f.text("name", d.Name)
	f.text("version", d.Version)
	f.text("summary", d.Summary)
	f.text("documentation", d.Documentation)
	f.int("form", int64(d.Form))
	f.int("max-batch", int64(d.MaxBatch))
	f.text("min-host", d.MinHost)
	if len(d.Capabilities) > 0 {
		f.key("capabilities")
		f.dst = appendArray(f.dst, len(d.Capabilities))
		for _, c := range d.Capabilities {
			f.dst = appendUint(f.dst, uint64(c))
		}
	}
	f.settings("settings", d.Settings)
	return f.end()
}

func (f *fields) settings(name string, settings []pluginapi.Setting) {
	if len(settings) == 0 {
		return
	}
	f.key(name)
	f.dst = appendArray(f.dst, len(settings))
	for i := range settings {
		f.dst = appendSetting(f.dst, &settings[i])
	}
}

func appendSetting(dst []byte, s *pluginapi.Setting) []byte {
	f := newFields(dst)
	f.text("name", s.Name)
	f.int("type", int64(s.Type))
	f.int("elem", int64(s.Elem))
	f.settings("fields", s.Fields)
	f.flag("required", s.Required)
	if s.Default != nil {
		f.key("default")
		f.dst = appendSettingValue(f.dst, s.Default)
	}
	if len(s.Allowed) > 0 {
		f.key("allowed")
		f.dst = appendArray(f.dst, len(s.Allowed))
		for _, a := range s.Allowed {
			f.dst = appendText(f.dst, a)
		}
	}
	f.float("min", s.Min)
	f.float("max", s.Max)
	f.flag("secret", s.Secret)
	f.flag("template", s.Template)
	f.text("deprecated", s.Deprecated)
	f.text("help", s.Help)
	f.text("group", s.Group)
	f.int("order", int64(s.Order))
	return f.end()
}

// DecodeDescription reads a description. It shares no memory with b. What it
// says is not checked beyond its form: see [pluginapi.Description.Validate].
func DecodeDescription(b []byte) (pluginapi.Description, error) {
	r := reader{buf: b}
	var d pluginapi.Description
	for n := r.mapLen(); n > 0 && r.err == nil; n-- {
		switch r.text() {
		case "abi":
			d.ABIVersion = int(r.uintMax(math.MaxInt32, "abi version"))
		case "name":
			d.Name = r.ownText()
		case "version":
			d.Version = r.ownText()
		case "summary":
			d.Summary = r.ownText()
		case "documentation":
			d.Documentation = r.ownText()
		case "form":
			d.Form = pluginapi.Form(r.uintMax(math.MaxUint8, "form"))
		case "max-batch":
			d.MaxBatch = int(r.uintMax(math.MaxInt32, "max-batch"))
		case "min-host":
			d.MinHost = r.ownText()
		case "capabilities":
			d.Capabilities = r.capabilities()
		case "settings":
			d.Settings = r.settings(0)
		default:
			r.skip()
		}
	}
	if err := r.end("description"); err != nil {
		return pluginapi.Description{}, err
	}
	return d, nil
}

// ownText reads a text into memory of its own.
func (r *reader) ownText() string { return strings.ToValidUTF8(strings.Clone(r.text()), "\ufffd") }

// capabilities reads a list of numbers. One this version does not know, which
// may be beyond 8 bits, is left out.
func (r *reader) capabilities() []pluginapi.Capability {
	var list []pluginapi.Capability
	for n := r.array(); n > 0 && r.err == nil; n-- {
		if c := r.uint(); c <= math.MaxUint8 && r.err == nil {
			list = append(list, pluginapi.Capability(c))
		}
	}
	return list
}

func (r *reader) settings(depth int) []pluginapi.Setting {
	if depth > maxSettingDepth {
		r.fail("settings nest deeper than %d", maxSettingDepth)
	}
	n := r.array()
	list := make([]pluginapi.Setting, 0, min(n, 16))
	for i := 0; i < n && r.err == nil; i++ {
		list = append(list, r.setting(depth))
	}
	return list
}

func (r *reader) setting(depth int) pluginapi.Setting {
	var s pluginapi.Setting
	defaultAt := -1
	for n := r.mapLen(); n > 0 && r.err == nil; n-- {
		switch r.text() {
		case "name":
			s.Name = r.ownText()
		case "type":
			s.Type = pluginapi.Type(r.uintMax(math.MaxUint8, "setting type"))
		case "elem":
			s.Elem = pluginapi.Type(r.uintMax(math.MaxUint8, "setting type"))
		case "fields":
			s.Fields = r.settings(depth + 1)
		case "required":
			s.Required = r.bool()
		case "default": // Read at the end: its type may come later.
			defaultAt = r.pos
			r.skip()
		case "allowed":
			for n := r.array(); n > 0 && r.err == nil; n-- {
				s.Allowed = append(s.Allowed, r.ownText())
			}
		case "min":
			s.Min = r.limit()
		case "max":
			s.Max = r.limit()
		case "secret":
			s.Secret = r.bool()
		case "template":
			s.Template = r.bool()
		case "deprecated":
			s.Deprecated = r.ownText()
		case "help":
			s.Help = r.ownText()
		case "group":
			s.Group = r.ownText()
		case "order":
			s.Order = int(int32(r.int()))
		default:
			r.skip()
		}
	}
	if defaultAt >= 0 && r.err == nil {
		end := r.pos
		r.pos = defaultAt
		if v := r.settingValue(&s, 0); r.err == nil {
			s.Default, r.pos = v, end
		}
	}
	return s
}

// limit reads a bound of a setting: any number.
func (r *reader) limit() *float64 {
	f := r.float()
	return &f
}
