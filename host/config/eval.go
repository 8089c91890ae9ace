package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// scope is what an expression sees.
type scope struct {
	ctx  *hcl.EvalContext
	dir  string // Directory of the file it stands in.
	each bool   // each.key and each.value are there.
}

// scopeFor returns the scope of a file without locals, which come later.
func (l *loader) scopeFor(filename string) *scope {
	dir := filepath.Dir(filename)
	return &scope{dir: dir, ctx: &hcl.EvalContext{
		Functions: l.functions(dir),
		Variables: map[string]cty.Value{
			"path": cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(filepath.ToSlash(dir))}),
		},
	}}
}

// withEach returns the scope within one instance of a for_each.
func (s *scope) withEach(key string, value cty.Value) *scope {
	child := s.ctx.NewChild()
	child.Variables = map[string]cty.Value{"each": cty.ObjectVal(map[string]cty.Value{
		"key": cty.StringVal(key), "value": value,
	})}
	return &scope{ctx: child, dir: s.dir, each: true}
}

// eval evaluates expr. It reports what is wrong, and ok is false when the
// value is of no use: then either an error was reported, or the value depends
// on something an error was reported for.
func (l *loader) eval(expr hcl.Expression, s *scope) (v cty.Value, ok bool) {
	if !l.checkReferences(expr, s) {
		return cty.DynamicVal, false
	}
	defer func() {
		// The evaluator is someone else's and its input comes from outside: a
		// fault of it is this expression's error, not the worker's end.
		if fault := recover(); fault != nil {
			l.report(errorAt(expr.Range(), "Expression cannot be evaluated", "Evaluating this expression failed: %v. Write it in another way.", fault))
			v, ok = cty.DynamicVal, false
		}
	}()
	v, diags := expr.Value(s.ctx)
	for _, d := range diags {
		l.report(explainCall(d, s))
	}
	if diags.HasErrors() {
		return cty.DynamicVal, false
	}
	return v, v.IsWhollyKnown()
}

// explainCall rewrites the message about an unknown function.
func explainCall(d *hcl.Diagnostic, s *scope) *hcl.Diagnostic {
	call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallUnknownDiagExtra](d)
	if !ok {
		return d
	}
	ctx := s.ctx
	for ctx.Parent() != nil {
		ctx = ctx.Parent()
	}
	// The evaluator's own suggestion depends on the order of a map.
	name := call.CalledFunctionNamespace() + call.CalledFunctionName()
	d.Detail = fmt.Sprintf("There is no function named %q.%s", name, didYouMean(name, slices.Collect(maps.Keys(ctx.Functions))))
	return d
}

// checkReferences reports names in expr that mean nothing, with a suggestion.
// It reports nothing about a name whose own definition has an error.
func (l *loader) checkReferences(expr hcl.Expression, s *scope) bool {
	ok := true
	for _, ref := range expr.Variables() {
		if !l.checkReference(ref, s) {
			ok = false
		}
	}
	return ok
}

func (l *loader) checkReference(ref hcl.Traversal, s *scope) bool {
	roots := []string{"kafka", "local", "path"}
	if s.each {
		roots = append(roots, "each")
	}
	root := ref.RootName()
	switch {
	case root == "each" && !s.each:
		l.report(errorAt(ref.SourceRange(), "No for_each here", "each.key and each.value stand for something only in a connector that has for_each."))
		return false
	case slices.Contains([]string{"env", "file", "secret"}, root):
		l.report(errorAt(ref.SourceRange(), "Unknown name", "%s is a function: write %s(\"…\").", root, root))
		return false
	case !slices.Contains(roots, root):
		l.report(errorAt(ref.SourceRange(), "Unknown name",
			"%q means nothing here.%s A text stands in quotes; an environment variable is env(%q).", root, didYouMean(root, roots), root))
		return false
	}
	if len(ref) < 2 || root == "each" {
		return true
	}
	var name string
	switch step := ref[1].(type) {
	case hcl.TraverseAttr:
		name = step.Name
	case hcl.TraverseIndex:
		if step.Key.Type() != cty.String || step.Key.IsNull() || !step.Key.IsKnown() || step.Key.IsMarked() {
			return true
		}
		name = step.Key.AsString()
	default:
		return true
	}
	var known []string
	switch root {
	case "local":
		known = slices.Collect(maps.Keys(l.locals))
	case "kafka":
		known = slices.Collect(maps.Keys(l.kafkaBlocks))
	case "path":
		known = []string{"module"}
	}
	if slices.Contains(known, name) {
		return true
	}
	hint := didYouMean(name, known)
	switch {
	case hint == "" && root == "local":
		hint = " Define it in a locals block."
	case hint == "" && root == "kafka":
		hint = fmt.Sprintf(" Add a block: kafka %q { bootstrap = [\"HOST:9092\"] }", name)
	}
	l.report(errorAt(ref.SourceRange(), "Unknown name", "There is no %s.%s.%s", root, name, hint))
	return false
}

// local is one name of a locals block.
type local struct {
	attr  *hcl.Attribute
	scope *scope
	state int // 0 not looked at, 1 being evaluated, 2 done.
	value cty.Value
}

// evalLocals evaluates all locals, each after those it needs. One that cannot
// be evaluated becomes unknown, so that what depends on it is not reported
// again.
func (l *loader) evalLocals() {
	for _, name := range slices.Sorted(maps.Keys(l.locals)) {
		l.evalLocal(name, nil)
	}
}

// evalLocal evaluates one. path holds the names that led here. It goes no
// deeper than maxNesting, so that a long chain cannot exhaust the stack.
func (l *loader) evalLocal(name string, path []string) {
	loc := l.locals[name]
	switch {
	case loc.state == 2:
		return
	case loc.state == 1:
		at := slices.Index(path, name)
		chain := append(slices.Clone(path[max(at, 0):]), name)
		text := ""
		for i, n := range chain {
			if i > 0 {
				text += " -> "
			}
			text += "local." + n
		}
		l.report(errorAt(loc.attr.Range, "Locals need each other", "%s: none of them can be evaluated first. Break the circle.", text))
		return
	case len(path) > maxNesting:
		l.report(errorAt(loc.attr.Range, "Nested too deeply", "Locals may refer to each other %d deep.", maxNesting))
		loc.state, loc.value = 2, cty.DynamicVal
		return
	}
	loc.state, loc.value = 1, cty.DynamicVal
	path = append(path, name)
	vars := map[string]cty.Value{}
	for _, ref := range loc.attr.Expr.Variables() {
		if ref.RootName() != "local" {
			continue
		}
		for need, other := range l.locals {
			if len(ref) < 2 || stepName(ref[1]) == need || stepName(ref[1]) == "" {
				if len(ref) < 2 && need == name {
					continue
				}
				l.evalLocal(need, path)
				vars[need] = other.value
			}
		}
	}
	s := &scope{ctx: loc.scope.ctx.NewChild(), dir: loc.scope.dir}
	s.ctx.Variables = map[string]cty.Value{"local": cty.ObjectVal(vars), "kafka": l.kafkaObject()}
	if v, ok := l.eval(loc.attr.Expr, s); ok {
		loc.value = v
	}
	loc.state = 2
}

func stepName(step hcl.Traverser) string {
	switch s := step.(type) {
	case hcl.TraverseAttr:
		return s.Name
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() && !s.Key.IsMarked() {
			return s.Key.AsString()
		}
	}
	return ""
}

// kafkaObject is what kafka.NAME is looked up in: each name stands for itself.
func (l *loader) kafkaObject() cty.Value {
	names := make(map[string]cty.Value, len(l.kafkaBlocks))
	for name := range l.kafkaBlocks {
		names[name] = cty.StringVal(name)
	}
	return cty.ObjectVal(names)
}

// fullScope returns the scope of a file with locals and connections.
func (l *loader) fullScope(filename string) *scope {
	if s, ok := l.scopes[filename]; ok {
		return s
	}
	s := l.scopeFor(filename)
	values := make(map[string]cty.Value, len(l.locals))
	for name, loc := range l.locals {
		values[name] = loc.value
	}
	s.ctx.Variables["local"] = cty.ObjectVal(values)
	s.ctx.Variables["kafka"] = l.kafkaObject()
	l.scopes[filename] = s
	return s
}
