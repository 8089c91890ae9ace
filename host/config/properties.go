package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// property is a name that Kafka Connect or KIP-1302 has for a setting.
type property struct {
	name string
	// convert turns the property's text into what a user would write for our
	// setting. Nil keeps the text. note, if not empty, becomes a warning.
	convert func(text string) (v cty.Value, note string, err error)
}

// written is one property as it stands in properties = { … }.
type written struct {
	text Secret
	at   hcl.Range // Of its value.
	name hcl.Range
}

// propertyRanges pairs the texts of a properties map with where they stand.
func propertyRanges(v any, attr *hcl.Attribute, s *scope) map[string]written {
	out := map[string]written{}
	texts, _ := v.(map[string]Secret)
	for name, text := range texts {
		out[name] = written{text: text, at: attr.Expr.Range(), name: attr.Expr.Range()}
	}
	pairs, diags := hcl.ExprMap(attr.Expr)
	if diags.HasErrors() {
		return out
	}
	for _, p := range pairs {
		key, diags := p.Key.Value(s.ctx)
		if diags.HasErrors() || key.IsMarked() || key.IsNull() || !key.IsKnown() || key.Type() != cty.String {
			continue
		}
		if w, ok := out[key.AsString()]; ok {
			w.at, w.name = p.Value.Range(), p.Key.Range()
			out[key.AsString()] = w
		}
	}
	return out
}

// target is the setting a property stands for.
type target struct {
	property property
	setting  *setting
	block    *blockSpec // That holds it; nil for the connector itself.
}

// path is the setting's path in a connector.
func (t target) path() string {
	if t.block == nil {
		return t.setting.name
	}
	return t.block.name + "." + t.setting.name
}

// propertyTargets returns the table of properties a connector takes.
func propertyTargets(spec *blockSpec) map[string]target {
	out := map[string]target{}
	for i := range spec.settings {
		for _, p := range spec.settings[i].properties {
			out[p.name] = target{property: p, setting: &spec.settings[i]}
		}
	}
	for b := range spec.blocks {
		block := &spec.blocks[b]
		for i := range block.settings {
			for _, p := range block.settings[i].properties {
				out[p.name] = target{property: p, setting: &block.settings[i], block: block}
			}
		}
	}
	return out
}

// propertyPath returns the path of the setting a property stands for, or "".
func propertyPath(name string) string {
	spec := connectorSpec()
	t, ok := propertyTargets(&spec)[name]
	if !ok || t.path() == name {
		return ""
	}
	return t.path()
}

// foreignProperties are Connect's properties that are not a second name of a
// setting, each with what to do instead. A name that ends in a dot stands for
// all that begin with it.
func foreignProperties() map[string]string {
	return map[string]string{
		"name":               "The connector's name is its label: connector \"NAME\" { … }.",
		"connector.class":    "Name the sink by sink = \"…\".",
		"group.id":           "Write group_id.",
		"group.protocol":     "Write group_protocol, or consumer.override.group.protocol.",
		"transforms":         notYet,
		"transforms.":        notYet,
		"predicates":         notYet,
		"predicates.":        notYet,
		"producer.override.": notYet + " The dead letter queue's producer takes the settings of the kafka block.",
		"admin.override.":    notYet + " Topics and groups are managed with the settings of the kafka block.",
		"config.action.":     "Definitions from files are reloaded by the worker itself.",
		"errors.deadletterqueue.context.headers.enable": "Leave it out: the headers are always written.",
		"errors.log.include.messages":                   "Leave it out: keys and values are never logged.",
		"bootstrap.servers":                             "Write bootstrap in a kafka block.",
		"plugin.path":                                   "Write plugin_path in the worker block.",
	}
}

// applyProperties moves what stands under Kafka Connect's names to the
// settings they are second names of.
func (l *loader) applyProperties(n *node, dir string) {
	props, ok := n.values["properties"]
	if !ok {
		return
	}
	delete(n.values, "properties")
	entries, _ := props.v.(map[string]written)
	targets := propertyTargets(n.spec)
	before := errorCount(l.diags)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if t, ok := targets[name]; ok {
			l.applyProperty(n, t, name, entries[name], dir)
			continue
		}
		if !l.converterOption(n, name, entries[name]) {
			l.unknownProperty(name, entries[name], targets)
		}
	}
	if errorCount(l.diags) > before {
		n.bad = true
	}
}

func (l *loader) unknownProperty(name string, w written, targets map[string]target) {
	for foreign, remedy := range foreignProperties() {
		if foreign == name || strings.HasSuffix(foreign, ".") && strings.HasPrefix(name, foreign) {
			l.report(errorAt(w.name, "Property cannot be used here", "%s: %s", name, remedy))
			return
		}
	}
	spec := connectorSpec()
	if spec.setting(name) != nil || spec.block(name) != nil {
		l.report(errorAt(w.name, "Unknown property", "%q is our own name: write it outside of properties.", name))
		return
	}
	hint := didYouMean(name, slices.Collect(maps.Keys(targets)))
	if hint == "" {
		hint = " A setting of the plugin belongs into the block config { … } under the plugin's own name."
	}
	l.report(errorAt(w.name, "Unknown property", "There is no property %q.%s", name, hint))
}

// converterOption takes "value.converter.schemas.enable" as the option
// schemas_enable of the block value.
func (l *loader) converterOption(n *node, name string, w written) bool {
	for _, role := range []string{"key", "value", "header"} {
		option, ok := strings.CutPrefix(name, role+".converter.")
		if !ok || option == "" {
			continue
		}
		option = strings.ReplaceAll(option, ".", "_")
		child := n.child(n.spec.block(role), w.name)
		if first, twice := child.tree.names[option]; twice {
			l.report(errorAt(w.name, "Written twice", "%s is written as %s.%s at %s too. Keep one of them.", name, role, option, place(first)))
			return true
		}
		child.tree.secrets = l.secrets
		child.tree.values[option] = plainText(w.text.Reveal())
		child.tree.places[option], child.tree.names[option] = w.at, w.name
		return true
	}
	return false
}

// plainText reads the text of a property as the value it most likely is.
func plainText(text string) any {
	if b, err := strconv.ParseBool(text); err == nil && (text == "true" || text == "false") {
		return b
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return text
}

// child returns n's block of that kind, made if it is not there.
func (n *node) child(spec *blockSpec, def hcl.Range) *node {
	c := n.blocks[spec.name]
	if c == nil {
		c = newNode(spec, def)
		if spec.open {
			c.tree = newTree(def)
		}
		n.blocks[spec.name] = c
	}
	return c
}

func (l *loader) applyProperty(n *node, t target, name string, w written, dir string) {
	home := n
	if t.block != nil {
		home = n.child(t.block, w.name)
	}
	if first, twice := home.values[t.setting.name]; twice {
		l.report(errorAt(w.name, "Written twice", "%s is the Kafka Connect name of %s, which is written at %s too. Keep one of them.", name, t.path(), place(first.name)))
		return
	}
	v := cty.StringVal(w.text.Reveal())
	if t.property.convert != nil {
		converted, note, err := t.property.convert(w.text.Reveal())
		if err != nil {
			home.failed = append(home.failed, t.setting.name)
			l.report(errorAt(w.at, "Wrong value", "%s: %v.", name, err))
			return
		}
		if note != "" {
			l.report(warnAt(w.name, "Property means something else here", "%s: %s", name, note))
		}
		v = converted
	}
	out, ok := l.typed(t.setting, name, v, w.at, dir)
	if !ok {
		home.failed = append(home.failed, t.setting.name)
		return
	}
	home.values[t.setting.name] = value{v: out, at: w.at, name: w.name}
}

func fromMillis(text string) (cty.Value, string, error) {
	ms, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || ms < 0 || ms > int64(1<<53) {
		return cty.NilVal, "", fmt.Errorf("%q is not a number of milliseconds", text)
	}
	return cty.StringVal((time.Duration(min(ms, int64(365*24*time.Hour/time.Millisecond))) * time.Millisecond).String()), "", nil
}

// fromRetryTimeout reads errors.retry.timeout, where 0 and -1 have meanings of
// their own.
func fromRetryTimeout(text string) (cty.Value, string, error) {
	switch strings.TrimSpace(text) {
	case "0":
		return cty.NilVal, "", fmt.Errorf("0, no retries, cannot be kept: a record that may be written later is always tried again. Leave it out for retry.max_elapsed = \"5m\"")
	case "-1":
		return cty.StringVal("720h"), "Connect retries without end; this is retry.max_elapsed = \"720h\".", nil
	}
	return fromMillis(text)
}

func fromList(text string) (cty.Value, string, error) {
	var out []cty.Value
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, cty.StringVal(part))
		}
	}
	if len(out) == 0 {
		return cty.NilVal, "", fmt.Errorf("it names nothing")
	}
	return cty.ListVal(out), "", nil
}

func fromTasksMax(text string) (cty.Value, string, error) {
	return cty.StringVal(text), "Connect counts the tasks of the whole cluster, Sluice those of one worker: with N workers there are N times as many.", nil
}

func fromGroupProtocol(text string) (cty.Value, string, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "share":
		return cty.StringVal(GroupShare), "", nil
	case "classic":
		return cty.StringVal(GroupConsumer), "", nil
	case "consumer":
		return cty.StringVal(GroupConsumer), "Kafka means its newer protocol (KIP-848) by \"consumer\"; Sluice joins a classic consumer group.", nil
	default:
		return cty.NilVal, "", fmt.Errorf("%q is not share, classic or consumer", text)
	}
}

// fromOffsetReset reads by_duration:PT24H too.
func fromOffsetReset(text string) (cty.Value, string, error) {
	iso, ok := strings.CutPrefix(text, "by_duration:")
	if !ok {
		return cty.StringVal(text), "", nil
	}
	d, err := parseISODuration(iso)
	if err != nil {
		return cty.NilVal, "", err
	}
	return cty.StringVal(d.String()), "", nil
}

// parseISODuration reads the part of ISO 8601 that Kafka takes: PnDTnHnMnS.
func parseISODuration(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not an ISO 8601 duration such as PT24H", text)
	rest, ok := strings.CutPrefix(strings.ToUpper(text), "P")
	if !ok || rest == "" {
		return 0, bad
	}
	date, clock, _ := strings.Cut(rest, "T")
	var total time.Duration
	if date != "" {
		d, err := parseDuration(strings.ToLower(date))
		if err != nil || !strings.HasSuffix(date, "D") {
			return 0, bad
		}
		total += d
	}
	if clock != "" {
		d, err := parseDuration(strings.ToLower(clock))
		if err != nil {
			return 0, bad
		}
		total += d
	}
	return total, nil
}

// fromConverterClass reads a Java class name.
func fromConverterClass(text string) (cty.Value, string, error) {
	classes := map[string]string{
		"org.apache.kafka.connect.json.JsonConverter":            "json",
		"org.apache.kafka.connect.storage.StringConverter":       "string",
		"org.apache.kafka.connect.converters.ByteArrayConverter": "bytes",
	}
	name, ok := classes[text]
	switch {
	case ok:
		return cty.StringVal(name), "", nil
	case !strings.Contains(text, "."):
		return cty.StringVal(text), "", nil
	}
	return cty.NilVal, "", fmt.Errorf("the class %q has no counterpart here; these have: %s", text, strings.Join(slices.Sorted(maps.Keys(classes)), ", "))
}
