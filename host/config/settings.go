package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/sluicehq/sluice/loader/settings"
	"github.com/sluicehq/sluice/pluginapi"
)

// CheckSettings checks what stands in the connector's config block against the
// description of its plugin. It returns the values as the plugin gets them,
// defaults filled in, and every problem at its line. With an error among them
// the values must not be used. The values hold secrets in the clear: show them
// by [Connector.ShownSettings] only.
func (c *Connector) CheckSettings(desc *pluginapi.Description) (map[string]any, hcl.Diagnostics) {
	what := fmt.Sprintf("of the plugin %q", desc.Name)
	values, diags := check(c.Config, c.sources, desc.Settings, what)
	if diags.HasErrors() {
		return values, diags
	}
	if c.GroupProtocol == GroupShare && has(desc.Settings, "mode") && has(desc.Settings, "version") {
		mode, _ := values["mode"].(string)
		if slices.Contains([]string{"upsert", "update", "delete"}, mode) && values["version"] == nil {
			diags = append(diags, warnAt(c.Config.Place("mode"), "Older rows may overwrite newer ones",
				"Connector %q uses mode %q in a share group, which keeps no order: the row written last wins, not the newest. Set version to the column that tells which row is newer, or group_protocol = %q.",
				c.Name, mode, GroupConsumer))
		}
	}
	return values, diags
}

// ShownSettings returns what [Connector.CheckSettings] returned with "(secret)"
// in the place of each secret, by the plugin's description or by the
// configuration.
func (c *Connector) ShownSettings(desc *pluginapi.Description, values map[string]any) map[string]any {
	secrets := &redactor{}
	for _, text := range settings.Secrets(desc.Settings, values) {
		secrets.add(text)
	}
	out := make(map[string]any, len(values))
	for name, v := range values {
		out[name] = v
		for i := range desc.Settings {
			if desc.Settings[i].Name == name && desc.Settings[i].Secret {
				out[name] = secretText
			}
		}
	}
	out, _ = blot(out, c.Config.secret, nil, secrets).(map[string]any)
	if c.sources == nil {
		return out
	}
	out, _ = blot(out, nil, nil, c.sources.secrets).(map[string]any)
	return out
}

// CheckOptions checks the options written beside a converter's name against
// its description, as [Connector.CheckSettings] does for a plugin.
func (c Converter) CheckOptions(options []pluginapi.Setting) (map[string]any, hcl.Diagnostics) {
	tree := c.Options
	if tree == nil {
		tree = newTree(hcl.Range{})
	}
	return check(tree, c.sources, options, fmt.Sprintf("of the converter %q", c.Name))
}

func has(list []pluginapi.Setting, name string) bool {
	return slices.ContainsFunc(list, func(s pluginapi.Setting) bool { return s.Name == name })
}

// missing is how package settings calls a value that is not there.
const missing = "is required"

func check(tree *Tree, sources *Sources, list []pluginapi.Setting, what string) (map[string]any, hcl.Diagnostics) {
	written := tree.aligned(list)
	values, problems := settings.CheckValues(list, written)
	if sources != nil {
		for _, text := range settings.Secrets(list, written) {
			sources.secrets.add(text)
		}
	}
	var diags hcl.Diagnostics
	for _, p := range problems {
		if _, written := tree.names[pathKey(p.Path)]; written && p.Message == missing {
			continue // What is wrong with its value has been said.
		}
		diags = append(diags, tree.diagnostic(p, list, what))
	}
	if sources == nil {
		return values, tidy(diags, tree.secrets)
	}
	return values, tidy(diags, sources.secrets)
}

// aligned returns the values with a single block as a list of one where the
// description wants a list.
func (t *Tree) aligned(list []pluginapi.Setting) map[string]any {
	out := make(map[string]any, len(t.values))
	for name, v := range t.values {
		out[name] = v
		for i := range list {
			if list[i].Name == name && list[i].Type == pluginapi.List && t.blocks[name] {
				out[name] = []any{v}
			}
		}
	}
	return out
}

// diagnostic puts a problem at its place in the file.
func (t *Tree) diagnostic(p settings.ValueProblem, list []pluginapi.Setting, what string) *hcl.Diagnostic {
	at, v := t.find(p.Path)
	path := strings.Join(p.Path, ".")
	detail := fmt.Sprintf("%s %s", path, p.Message)
	switch {
	case p.Message == missing:
		d := errorAt(at, "Missing setting", "%s %s is required.%s", path, what, helpOf(list, p.Path))
		return d
	case p.Suggestion != "":
		detail += fmt.Sprintf("; did you mean %q?", p.Suggestion)
	default:
		detail += "." + conversionHint(list, p.Path, v)
	}
	d := errorAt(at, "Wrong value", "%s", detail)
	if p.Warning {
		d.Severity, d.Summary = hcl.DiagWarning, "Deprecated setting"
	}
	if strings.HasPrefix(p.Message, "is not a setting") {
		at = t.placeOfName(p.Path)
		d.Summary, d.Subject = "Unknown setting", &at
		d.Detail = fmt.Sprintf("%q is not a setting %s.", path, what)
		if p.Suggestion != "" {
			d.Detail += fmt.Sprintf(" Did you mean %q?", p.Suggestion)
		} else {
			d.Detail += namesHint(list, p.Path)
		}
	}
	return d
}

// find returns where the value at path stands, and the value.
func (t *Tree) find(path []string) (hcl.Range, any) {
	if len(path) > 1 && path[1] == "0" && t.blocks[path[0]] { // See aligned.
		path = append([]string{path[0]}, path[2:]...)
	}
	var v any = t.values
	for _, step := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(in) {
				return t.Place(path...), nil
			}
			v = in[i]
		default:
			return t.Place(path...), nil
		}
	}
	return t.Place(path...), v
}

// settingAt returns the description of what stands at path, nil for the parts
// of lists and maps.
func settingAt(list []pluginapi.Setting, path []string) *pluginapi.Setting {
	var found *pluginapi.Setting
	for _, step := range path {
		found = nil
		for i := range list {
			if list[i].Name == step {
				found = &list[i]
			}
		}
		if found == nil {
			return nil
		}
		list = found.Fields
	}
	return found
}

func helpOf(list []pluginapi.Setting, path []string) string {
	s := settingAt(list, path)
	if s == nil || s.Help == "" {
		return fmt.Sprintf(" Write %s = … into the block.", path[len(path)-1])
	}
	help := strings.TrimSuffix(s.Help, ".")
	first, size := utf8.DecodeRuneInString(help)
	return fmt.Sprintf(" Write %s = …: %s.", path[len(path)-1], string(unicode.ToLower(first))+help[size:])
}

// namesHint lists what may stand where path's last name does.
func namesHint(list []pluginapi.Setting, path []string) string {
	if len(path) > 1 {
		s := settingAt(list, path[:len(path)-1])
		if s == nil {
			return ""
		}
		list = s.Fields
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	if len(names) == 0 {
		return " It has none."
	}
	return didYouMean("", names)
}

// conversionHint helps where a text, such as from an environment variable,
// stands for the value wanted.
func conversionHint(list []pluginapi.Setting, path []string, v any) string {
	s := settingAt(list, path)
	text, ok := v.(string)
	if s == nil || !ok {
		return ""
	}
	switch s.Type {
	case pluginapi.Int, pluginapi.Float:
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return " Write it without quotes, or put tonumber(…) around the expression."
		}
	case pluginapi.Bool:
		if text == "true" || text == "false" {
			return " Write it without quotes, or put tobool(…) around the expression."
		}
	default:
	}
	return ""
}
