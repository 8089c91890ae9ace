package abi

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// AppendStart appends what a sink is started with: a map with text keys, with
// the settings in a map of their own, each as its type is written (docs/abi).
// The plugin's description of them is not needed as long as the values have the
// Go types it asks for. The logger is left out.
func AppendStart(dst []byte, cfg pluginapi.Config, _ []pluginapi.Setting) []byte {
	f := newFields(dst)
	f.key("abi")
	f.dst = appendUint(f.dst, pluginapi.ABIVersion)
	f.text("connector", cfg.Connector)
	f.int("task", int64(cfg.Task))
	f.int("writer", int64(cfg.Writer))
	f.text("worker", cfg.Worker)
	f.key("settings")
	f.dst = appendSettingMap(f.dst, cfg.Values)
	return f.end()
}

func appendSettingMap(dst []byte, m map[string]any) []byte {
	dst = appendMap(dst, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		dst = appendSettingValue(appendText(dst, k), m[k])
	}
	return dst
}

// appendSettingValue appends v, which has one of the Go types pluginapi.Type
// names. Another type, a fault of the caller, is written as text and refused by
// the reader where the setting is not a string.
func appendSettingValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, itemNull)
	case string:
		return appendText(dst, v)
	case bool:
		return appendBool(dst, v)
	case int64:
		return appendInt(dst, v)
	case float64:
		return appendFloat64(dst, v)
	case time.Duration:
		return appendInt(dst, int64(v))
	case []any:
		dst = appendArray(dst, len(v))
		for _, e := range v {
			dst = appendSettingValue(dst, e)
		}
		return dst
	case map[string]any:
		return appendSettingMap(dst, v)
	default:
		return appendText(dst, fmt.Sprint(v))
	}
}

// DecodeStart reads what [AppendStart] wrote. settings, the plugin's own
// description, say which Go type each value gets; a value it does not describe
// gets the type CBOR gives it. It shares no memory with b. The logger is nil.
func DecodeStart(b []byte, settings []pluginapi.Setting) (pluginapi.Config, error) {
	r := reader{buf: b}
	cfg := pluginapi.Config{Values: map[string]any{}}
	for n := r.mapLen(); n > 0 && r.err == nil; n-- {
		switch r.text() {
		case "connector":
			cfg.Connector = r.ownText()
		case "task":
			cfg.Task = int(r.uintMax(math.MaxInt32, "task"))
		case "writer":
			cfg.Writer = int(r.uintMax(math.MaxInt32, "writer"))
		case "worker":
			cfg.Worker = r.ownText()
		case "settings":
			cfg.Values = r.settingMap(settings, nil, 0)
		default:
			r.skip()
		}
	}
	if err := r.end("start"); err != nil {
		return pluginapi.Config{}, err
	}
	return cfg, nil
}

// settingMap reads the values of settings, or, where other is not nil, values
// of any name described by it.
func (r *reader) settingMap(settings []pluginapi.Setting, other *pluginapi.Setting, depth int) map[string]any {
	n := r.mapLen()
	m := make(map[string]any, min(n, firstRoom))
	for ; n > 0 && r.err == nil; n-- {
		name := r.ownText()
		s := other
		for i := range settings {
			if settings[i].Name == name {
				s = &settings[i]
				break
			}
		}
		if s == nil {
			s = new(pluginapi.Setting)
		}
		v := r.settingValue(s, depth+1)
		if r.err != nil {
			r.err = fmt.Errorf("setting %q: %w", name, r.err)
		}
		if v != nil {
			m[name] = v
		}
	}
	return m
}

// settingValue reads a value of s; of any type where s has none.
func (r *reader) settingValue(s *pluginapi.Setting, depth int) any {
	if depth > maxSettingDepth {
		r.fail("setting nests deeper than %d", maxSettingDepth)
	}
	if r.null() || r.err != nil {
		return nil
	}
	switch s.Type {
	case pluginapi.String:
		return r.ownText()
	case pluginapi.Bool:
		return r.bool()
	case pluginapi.Int, pluginapi.Bytes:
		return r.int()
	case pluginapi.Float:
		return r.float()
	case pluginapi.Duration:
		return time.Duration(r.int())
	case pluginapi.List:
		elem := elemOf(s)
		n := r.array()
		list := make([]any, 0, min(n, firstRoom))
		for ; n > 0 && r.err == nil; n-- {
			list = append(list, r.settingValue(elem, depth+1))
		}
		return list
	case pluginapi.Map:
		return r.settingMap(nil, elemOf(s), depth)
	case pluginapi.Object:
		return r.settingMap(s.Fields, nil, depth)
	default:
		return r.anySetting(depth)
	}
}

// elemOf describes the elements of a list or map: those of an Object have its
// fields.
func elemOf(s *pluginapi.Setting) *pluginapi.Setting {
	elem := &pluginapi.Setting{Type: s.Elem, Fields: s.Fields}
	if elem.Type == 0 {
		elem.Type = pluginapi.String
	}
	return elem
}

// anySetting reads a value nothing describes.
func (r *reader) anySetting(depth int) any {
	switch b := r.peek(); b & 0xe0 {
	case majorUint, majorNegint:
		return r.int()
	case majorText:
		return r.ownText()
	case majorArray:
		n := r.array()
		list := make([]any, 0, min(n, firstRoom))
		for ; n > 0 && r.err == nil; n-- {
			list = append(list, r.settingValue(&pluginapi.Setting{}, depth+1))
		}
		return list
	case majorMap:
		return r.settingMap(nil, nil, depth)
	case majorSimple:
		if b == itemTrue || b == itemFalse {
			return r.bool()
		}
		return r.float()
	}
	r.fail("value no setting can have")
	return nil
}

// float reads a float of any width, or an integer as one.
func (r *reader) float() float64 {
	switch b := r.peek(); b {
	case itemFloat16, itemFloat32, itemFloat64:
		_, _, bits := r.head()
		switch b {
		case itemFloat16:
			return float64(halfFloat(uint16(bits)))
		case itemFloat32:
			return float64(math.Float32frombits(uint32(bits)))
		default:
			return math.Float64frombits(bits)
		}
	}
	return float64(r.int())
}
