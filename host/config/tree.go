package config

import (
	"encoding/json"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Tree is what was written in a block whose settings someone else describes: a
// plugin or a converter. It keeps where each value stands. Printing it shows
// no secret; a nil Tree is empty.
type Tree struct {
	values  map[string]any // string, bool, int64, float64, []any, map[string]any.
	places  map[string]hcl.Range
	names   map[string]hcl.Range // Where the name of a value stands.
	secret  map[string]bool      // Paths of values that were marked secret.
	blocks  map[string]bool      // Names written as one block: an object, or a list of one.
	def     hcl.Range
	secrets *redactor
}

func newTree(def hcl.Range) *Tree {
	return &Tree{
		values: map[string]any{}, places: map[string]hcl.Range{}, names: map[string]hcl.Range{},
		secret: map[string]bool{}, blocks: map[string]bool{}, def: def,
	}
}

// pathKey makes a path a map key. A name may hold dots.
func pathKey(path []string) string { return strings.Join(path, "\x00") }

// Place returns where the value at path stands, or the nearest thing above it.
func (t *Tree) Place(path ...string) hcl.Range {
	for n := len(path); n > 0; n-- {
		if at, ok := t.places[pathKey(path[:n])]; ok {
			return at
		}
	}
	return t.def
}

// placeOfName returns where the name at path stands, or else its value.
func (t *Tree) placeOfName(path []string) hcl.Range {
	if at, ok := t.names[pathKey(path)]; ok {
		return at
	}
	return t.Place(path...)
}

// Names returns the names that were written, sorted.
func (t *Tree) Names() []string {
	if t == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(t.values))
}

// redacted returns the values with those marked secret blotted out.
func (t *Tree) redacted() map[string]any {
	if t == nil {
		return map[string]any{}
	}
	out, _ := blot(t.values, t.secret, nil, t.secrets).(map[string]any)
	return out
}

func blot(v any, secret map[string]bool, path []string, known *redactor) any {
	if secret[pathKey(path)] && len(path) > 0 {
		return secretText
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			out[name] = blot(e, secret, append(slices.Clone(path), name), known)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = blot(e, secret, append(slices.Clone(path), strconv.Itoa(i)), known)
		}
		return out
	case string:
		return known.redact(v)
	default:
		return v
	}
}

// String shows the tree as JSON, secrets blotted out.
func (t *Tree) String() string {
	text, err := t.MarshalJSON()
	if err != nil {
		return "{}"
	}
	return string(text)
}

// GoString keeps secrets out of %#v.
func (t *Tree) GoString() string { return t.String() }

// LogValue keeps secrets out of logs.
func (t *Tree) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalJSON shows the tree, secrets blotted out.
func (t *Tree) MarshalJSON() ([]byte, error) { return json.Marshal(t.redacted()) }

// plant evaluates one setting into the tree.
func (l *loader) plant(t *Tree, attr *hcl.Attribute, s *scope) bool {
	t.secrets = l.secrets
	path := []string{attr.Name}
	t.names[attr.Name] = attr.NameRange
	t.locate(attr.Expr, path, s)
	v, ok := l.eval(attr.Expr, s)
	if !ok {
		return false
	}
	out, ok := l.plain(t, v, path)
	if ok {
		t.values[attr.Name] = out
	}
	return ok
}

// growTree adds nested blocks to the tree: one block of a name is an object,
// several are a list of objects.
func (l *loader) growTree(t *Tree, blocks []*rawBlock, s *scope) bool {
	ok := true
	for _, b := range blocks {
		path := []string{b.name}
		if len(b.labels) > 0 {
			l.report(errorAt(b.labelsAt[0], "Label too many", "Blocks within this block have no labels: write %s { … }.", b.name))
			ok = false
			continue
		}
		sub := newTree(b.def)
		body := l.split(b.body, &blockSpec{open: true})
		for _, attr := range body.attrs {
			ok = l.plant(sub, attr, s) && ok
		}
		taken := slices.Clone(body.blocks)
		for _, inner := range taken {
			if first, twice := sub.names[inner.name]; twice {
				l.report(errorAt(inner.def, "Written twice", "%q is written as a setting at %s and as a block here. Keep one of them.", inner.name, place(first)))
				ok = false
			}
		}
		ok = l.growTree(sub, taken, s) && ok
		l.graft(t, sub, path, b.def)
	}
	return ok
}

// graft hangs sub into t at path, into a list if something hangs there.
func (l *loader) graft(t, sub *Tree, path []string, def hcl.Range) {
	name := path[0]
	t.secrets = l.secrets
	list, isList := t.values[name].([]any)
	switch first, there := t.values[name]; {
	case !there:
		t.values[name] = sub.values
		t.blocks[name] = true
		t.places[name], t.names[name] = def, def
	case !isList:
		t.rename(name, "0")
		t.places[pathKey([]string{name, "0"})] = t.places[name]
		t.values[name] = []any{first, sub.values}
		delete(t.blocks, name)
		path = append(path, "1")
	default:
		path = append(path, strconv.Itoa(len(list)))
		t.values[name] = append(list, sub.values)
	}
	t.places[pathKey(path)] = def
	prefix := pathKey(path) + "\x00"
	for k, at := range sub.places {
		t.places[prefix+k] = at
	}
	for k, at := range sub.names {
		t.names[prefix+k] = at
	}
	for k := range sub.secret {
		t.secret[prefix+k] = true
	}
}

// rename moves what hangs under name one step down, under name and step.
func (t *Tree) rename(name, step string) {
	from, to := name+"\x00", name+"\x00"+step+"\x00"
	for _, places := range []map[string]hcl.Range{t.places, t.names} {
		for k, at := range maps.Clone(places) {
			if rest, ok := strings.CutPrefix(k, from); ok {
				delete(places, k)
				places[to+rest] = at
			}
		}
	}
	for k := range maps.Clone(t.secret) {
		if rest, ok := strings.CutPrefix(k, from); ok {
			delete(t.secret, k)
			t.secret[to+rest] = true
		}
	}
}

// locate notes where the parts of an expression stand, as far as they are
// written out.
func (t *Tree) locate(expr hcl.Expression, path []string, s *scope) {
	t.places[pathKey(path)] = expr.Range()
	if pairs, diags := hcl.ExprMap(expr); !diags.HasErrors() {
		for _, p := range pairs {
			key, diags := p.Key.Value(s.ctx)
			if diags.HasErrors() || key.IsNull() || !key.IsKnown() || key.IsMarked() || key.Type() != cty.String {
				continue
			}
			sub := append(slices.Clone(path), key.AsString())
			t.names[pathKey(sub)] = p.Key.Range()
			t.locate(p.Value, sub, s)
		}
		return
	}
	if list, diags := hcl.ExprList(expr); !diags.HasErrors() {
		for i, e := range list {
			t.locate(e, append(slices.Clone(path), strconv.Itoa(i)), s)
		}
	}
}

// plain turns a known value into plain Go values and notes what is secret.
func (l *loader) plain(t *Tree, v cty.Value, path []string) (any, bool) {
	if v.IsMarked() {
		l.secrets.addValue(v)
		v, _ = v.Unmark()
		t.secret[pathKey(path)] = true
	}
	if v.IsNull() {
		l.report(errorAt(t.Place(path...), "No value", "%s is null here. Leave it out, or give it a value.", strings.Join(path, ".")))
		return nil, false
	}
	ty := v.Type()
	switch {
	case ty == cty.String:
		return v.AsString(), true
	case ty == cty.Bool:
		return v.True(), true
	case ty == cty.Number:
		f := v.AsBigFloat()
		if f.IsInt() {
			if n, exact := f.Int64(); exact == 0 {
				return n, true
			}
		}
		n, _ := f.Float64()
		if math.IsInf(n, 0) {
			l.report(errorAt(t.Place(path...), "Value out of range", "%s is too large a number.", strings.Join(path, ".")))
			return nil, false
		}
		return n, true
	case isSequence(ty):
		return l.plainList(t, v, path)
	case ty.IsObjectType() || ty.IsMapType():
		return l.plainMap(t, v, path)
	default:
		l.report(errorAt(t.Place(path...), "Wrong value", "%s cannot be a value of this type. Write a text, number, true, false, list or map.", strings.Join(path, ".")))
		return nil, false
	}
}

func (l *loader) plainList(t *Tree, v cty.Value, path []string) (any, bool) {
	out := make([]any, 0, v.LengthInt())
	ok := true
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		p, fine := l.plain(t, e, append(slices.Clone(path), strconv.Itoa(len(out))))
		out = append(out, p)
		ok = ok && fine
	}
	return out, ok
}

func (l *loader) plainMap(t *Tree, v cty.Value, path []string) (any, bool) {
	out := make(map[string]any, v.LengthInt())
	ok := true
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		p, fine := l.plain(t, e, append(slices.Clone(path), k.AsString()))
		out[k.AsString()] = p
		ok = ok && fine
	}
	return out, ok
}
