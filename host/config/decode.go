package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func asDuration(v any) (time.Duration, bool) {
	d, ok := v.(time.Duration)
	return d, ok
}

// rawBlock is a block as it stands in a file, before its values are looked at.
type rawBlock struct {
	name     string
	labels   []string
	labelsAt []hcl.Range
	def      hcl.Range // Its header.
	body     hcl.Body
}

// rawBody is the content of a body in either syntax.
type rawBody struct {
	attrs  []*hcl.Attribute // In the order of the file.
	blocks []*rawBlock
}

// split takes a body apart. In the JSON form a name is a block only where spec
// says so, since a property looks the same either way.
func (l *loader) split(body hcl.Body, spec *blockSpec) rawBody {
	if native, ok := body.(*hclsyntax.Body); ok {
		return splitNative(native)
	}
	var out rawBody
	attrs, diags := body.JustAttributes()
	l.diags = append(l.diags, diags...)
	for _, attr := range attrs {
		sub := spec.block(attr.Name)
		if sub == nil {
			out.attrs = append(out.attrs, attr)
			continue
		}
		header := hcl.BlockHeaderSchema{Type: attr.Name}
		if sub.label != "" {
			header.LabelNames = []string{sub.label}
		}
		content, _, diags := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{header}})
		l.diags = append(l.diags, diags...)
		for _, b := range content.Blocks {
			out.blocks = append(out.blocks, &rawBlock{name: b.Type, labels: b.Labels, labelsAt: b.LabelRanges, def: b.DefRange, body: b.Body})
		}
	}
	slices.SortFunc(out.attrs, func(a, b *hcl.Attribute) int { return a.Range.Start.Byte - b.Range.Start.Byte })
	slices.SortStableFunc(out.blocks, func(a, b *rawBlock) int { return a.def.Start.Byte - b.def.Start.Byte })
	return out
}

func splitNative(body *hclsyntax.Body) rawBody {
	var out rawBody
	for _, attr := range body.Attributes {
		out.attrs = append(out.attrs, attr.AsHCLAttribute())
	}
	slices.SortFunc(out.attrs, func(a, b *hcl.Attribute) int { return a.Range.Start.Byte - b.Range.Start.Byte })
	for _, b := range body.Blocks {
		out.blocks = append(out.blocks, &rawBlock{name: b.Type, labels: b.Labels, labelsAt: b.LabelRanges, def: b.DefRange(), body: b.Body})
	}
	return out
}

// node is a block read by its spec.
type node struct {
	spec   *blockSpec
	def    hcl.Range
	values map[string]value
	blocks map[string]*node
	tree   *Tree    // The further settings of an open block.
	bad    bool     // Something in it is wrong, and reported.
	failed []string // Settings that were written but have no value.
}

func newNode(spec *blockSpec, def hcl.Range) *node {
	return &node{spec: spec, def: def, values: map[string]value{}, blocks: map[string]*node{}}
}

// decode reads a block and all in it by its spec. It reports everything that
// is wrong and marks the node bad.
func (l *loader) decode(raw *rawBlock, spec *blockSpec, s *scope, path string) *node {
	n := newNode(spec, raw.def)
	before := errorCount(l.diags)
	body := l.split(raw.body, spec)
	if spec.open {
		n.tree = newTree(raw.def)
	}
	written := map[string]hcl.Range{}
	for _, attr := range body.attrs {
		written[attr.Name] = attr.NameRange
		l.decodeSetting(n, attr, s, path)
	}
	var open []*rawBlock
	for _, b := range body.blocks {
		if first, ok := written[b.name]; ok {
			l.report(errorAt(b.def, "Written twice", "%q is written as a setting at %s and as a block here. Keep one of them.", b.name, place(first)))
			continue
		}
		sub := spec.block(b.name)
		if sub == nil && spec.open && spec.setting(b.name) == nil {
			open = append(open, b)
			continue
		}
		l.decodeBlock(n, sub, b, s, path)
	}
	if n.tree != nil {
		if !l.growTree(n.tree, open, s) {
			n.bad = true
		}
	}
	if errorCount(l.diags) > before {
		n.bad = true
	}
	return n
}

// decodeSetting reads one setting into n.
func (l *loader) decodeSetting(n *node, attr *hcl.Attribute, s *scope, path string) {
	spec := n.spec
	name := join(path, attr.Name)
	set := spec.setting(attr.Name)
	switch {
	case set == nil && spec.block(attr.Name) != nil:
		sub := spec.block(attr.Name)
		l.report(errorAt(attr.NameRange, "Block written as a setting",
			"%q is a block. Write %s { … } without the equals sign.", attr.Name, sub.header()))
	case set == nil && spec.open:
		if !l.plant(n.tree, attr, s) {
			n.bad = true
		}
	case set == nil:
		l.report(errorAt(attr.NameRange, "Unknown setting", "There is no setting %q in %s.%s", attr.Name, spec.title(), l.suggest(spec, attr.Name)))
	case set.refuse != "":
		l.report(errorAt(attr.Range, "Not supported by this version", "%s: %s", name, set.refuse))
	case set.kind == kindForEach: // Read before its block.
	default:
		v, ok := l.read(set, name, attr, s)
		if !ok {
			n.bad = true
			n.failed = append(n.failed, attr.Name)
			return
		}
		n.values[attr.Name] = value{v: v, at: attr.Expr.Range(), name: attr.NameRange}
		if set.kind == kindProps {
			n.values[attr.Name] = value{v: propertyRanges(v, attr, s), at: attr.Expr.Range(), name: attr.NameRange}
		}
	}
}

// decodeBlock reads the block b, which spec describes, into n.
func (l *loader) decodeBlock(n *node, sub *blockSpec, b *rawBlock, s *scope, path string) {
	spec := n.spec
	switch {
	case sub == nil && spec.setting(b.name) != nil:
		set := spec.setting(b.name)
		l.report(errorAt(b.def, "Setting written as a block", "%q is a setting: write %s = … with %s.", b.name, b.name, set.kind.describe()))
		return
	case sub == nil:
		l.report(errorAt(b.def, "Unknown block", "There is no block %q in %s.%s", b.name, spec.title(), l.suggest(spec, b.name)))
		return
	case sub.refuse != "":
		l.report(errorAt(b.def, "Not supported by this version", "The block %s: %s", b.name, sub.refuse))
		return
	case !l.checkLabels(b, sub):
		return
	}
	if first := n.blocks[b.name]; first != nil {
		l.report(errorAt(b.def, "Written twice", "The block %q already stands at %s. Put its settings into one block.", b.name, place(first.def)))
		return
	}
	child := l.decode(b, sub, s, join(path, b.name))
	n.blocks[b.name] = child
	if child.bad {
		n.bad = true
	}
}

// checkLabels reports a block with the wrong number of labels.
func (l *loader) checkLabels(b *rawBlock, spec *blockSpec) bool {
	want := 0
	if spec.label != "" {
		want = 1
	}
	switch got := len(b.labels); {
	case got < want:
		l.report(errorAt(b.def, "Missing label", "A block %s needs its %s: write %s { … }.", b.name, spec.label, spec.header()))
		return false
	case got > want && want == 0:
		l.report(errorAt(b.labelsAt[0], "Label too many", "A block %s has no label: write %s { … }.", b.name, spec.header()))
		return false
	case got > want:
		l.report(errorAt(b.labelsAt[want], "Label too many", "A block %s has one label, its %s: write %s %q { … }.", b.name, spec.label, b.name, b.labels[0]))
		return false
	}
	return true
}

// header is how a block of this kind begins.
func (b *blockSpec) header() string {
	if b.label == "" {
		return b.name
	}
	return fmt.Sprintf("%s %q", b.name, "NAME")
}

// suggest returns the hint for a name that is not in spec: a near one, where
// else it belongs, or the setting that a Kafka Connect property stands for.
func (l *loader) suggest(spec *blockSpec, name string) string {
	if path := propertyPath(name); path != "" {
		return fmt.Sprintf(" It is Kafka Connect's name of %s: write that, or put it into properties = { … }.", path)
	}
	if near := nearest(name, spec.names()); near != "" {
		return fmt.Sprintf(" Did you mean %q?", near)
	}
	if where := findSetting(rootSpec(), name, ""); where != "" {
		return fmt.Sprintf(" It belongs to %s.", where)
	}
	for i := range spec.blocks { // Misspelt, and in the wrong place.
		if near := nearest(name, spec.blocks[i].names()); near != "" {
			return fmt.Sprintf(" Did you mean %q in the block %s?", near, spec.blocks[i].name)
		}
	}
	if spec.name == "connector" {
		return " The plugin's own settings belong into the block config { … }."
	}
	return didYouMean(name, spec.names())
}

// findSetting returns the block that has a setting or block of that name.
func findSetting(spec *blockSpec, name, path string) string {
	if path != "" && (spec.setting(name) != nil || spec.block(name) != nil) {
		return "the block " + path
	}
	for i := range spec.blocks {
		if where := findSetting(&spec.blocks[i], name, join(path, spec.blocks[i].name)); where != "" {
			return where
		}
	}
	return ""
}

// join joins names of a path by a dot.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
