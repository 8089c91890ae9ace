package config

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// value is the value of one written setting.
type value struct {
	v    any // Of the Go type the setting's kind names.
	at   hcl.Range
	name hcl.Range
}

// read evaluates the setting's expression and gives it its Go type. ok is
// false if it has none; the reason has been reported.
func (l *loader) read(set *setting, name string, attr *hcl.Attribute, s *scope) (any, bool) {
	v, ok := l.eval(attr.Expr, s)
	if !ok {
		return nil, false
	}
	return l.typed(set, name, v, attr.Expr.Range(), s.dir)
}

// typed gives v the Go type of the setting.
func (l *loader) typed(set *setting, name string, v cty.Value, at hcl.Range, dir string) (any, bool) {
	plain, marks := v.UnmarkDeep()
	if len(marks) > 0 {
		l.secrets.addValue(v)
		if set.kind != kindSecret && set.kind != kindStringMap {
			l.report(errorAt(at, "Secret cannot be used here",
				"%s is shown in status, logs or metrics, so it cannot come from a secret value. Use a value without secret(…).", name))
			return nil, false
		}
	}
	if plain.IsNull() {
		l.report(errorAt(at, "No value", "%s is null here. Leave the setting out for its default, or write %s.", name, set.kind.describe()))
		return nil, false
	}
	out, problem := convert(set, plain)
	if problem != "" {
		l.report(errorAt(at, "Wrong value", "%s wants %s. %s", name, set.kind.describe(), problem))
		return nil, false
	}
	if set.kind == kindSecret {
		out = l.secret(out)
	}
	if m, ok := out.(map[string]Secret); ok && len(marks) > 0 {
		for _, s := range m {
			l.secrets.add(s.Reveal())
		}
	}
	if d := set.check(name, out, at); d != nil {
		l.report(d)
		return nil, false
	}
	if set.path {
		out = resolvePaths(dir, out)
	}
	return out, true
}

func (l *loader) secret(v any) Secret {
	text, _ := v.(string)
	l.secrets.add(text)
	return Secret{text: text}
}

func resolvePaths(dir string, v any) any {
	switch v := v.(type) {
	case string:
		return resolve(dir, v)
	case []string:
		out := make([]string, len(v))
		for i := range v {
			out[i] = resolve(dir, v[i])
		}
		return out
	default:
		return v
	}
}

// convert gives a known, unmarked value that is not null the Go type of the
// setting's kind. problem says what is wrong with it, without showing the
// values of texts that may be secret.
func convert(set *setting, v cty.Value) (out any, problem string) {
	ty := v.Type()
	switch set.kind {
	case kindString, kindSecret, kindKafka:
		if ty != cty.String {
			return nil, fmt.Sprintf("This is %s.%s", typeName(v), quoteHint(set, v))
		}
		return v.AsString(), ""
	case kindBool:
		switch {
		case ty == cty.Bool:
			return v.True(), ""
		case ty == cty.String && (v.AsString() == "true" || v.AsString() == "false"):
			return v.AsString() == "true", ""
		}
		return nil, fmt.Sprintf("This is %s.", typeName(v))
	case kindInt:
		return convertInt(v)
	case kindRatio:
		return convertRatio(v)
	case kindDuration:
		if ty == cty.Number {
			return nil, fmt.Sprintf("The number %[1]s has no unit; write \"%[1]ss\" for seconds or \"%[1]sms\" for milliseconds.", v.AsBigFloat().Text('f', -1))
		}
		if ty != cty.String {
			return nil, fmt.Sprintf("This is %s.", typeName(v))
		}
		d, err := parseDuration(v.AsString())
		if err != nil {
			return nil, fmt.Sprintf("%q is not right: %v.", v.AsString(), err)
		}
		return d, ""
	case kindSize:
		if ty == cty.Number {
			return nil, fmt.Sprintf("The number %[1]s has no unit; write \"%[1]sB\" for bytes or \"%[1]sMiB\".", v.AsBigFloat().Text('f', -1))
		}
		if ty != cty.String {
			return nil, fmt.Sprintf("This is %s.", typeName(v))
		}
		n, err := parseSize(v.AsString())
		if err != nil {
			return nil, fmt.Sprintf("%q is not right: %v.", v.AsString(), err)
		}
		return n, ""
	case kindStrings:
		return convertStrings(v)
	case kindStringMap, kindProps:
		return convertStringMap(v)
	default:
		return nil, "It cannot be written here."
	}
}

func quoteHint(set *setting, v cty.Value) string {
	switch {
	case set.kind == kindSecret: // Its value stays out of messages.
		return " Put it in quotes."
	case v.Type() == cty.Number:
		return fmt.Sprintf(" Write \"%s\".", v.AsBigFloat().Text('f', -1))
	case v.Type() == cty.Bool:
		return fmt.Sprintf(" Write %q.", strconv.FormatBool(v.True()))
	case isSequence(v.Type()):
		return " Write one text, without brackets."
	default:
		return ""
	}
}

func convertInt(v cty.Value) (any, string) {
	var f *big.Float
	switch v.Type() {
	case cty.Number:
		f = v.AsBigFloat()
	case cty.String:
		n, err := strconv.ParseInt(strings.TrimSpace(v.AsString()), 10, 64)
		if err != nil {
			return nil, fmt.Sprintf("%q is not a whole number.", v.AsString())
		}
		return n, ""
	default:
		return nil, fmt.Sprintf("This is %s.", typeName(v))
	}
	n, exact := f.Int64()
	if exact != big.Exact {
		return nil, fmt.Sprintf("%s is not a whole number, or too large.", f.Text('g', 20))
	}
	return n, ""
}

func convertRatio(v cty.Value) (any, string) {
	if v.Type() != cty.Number {
		return nil, fmt.Sprintf("This is %s.", typeName(v))
	}
	f, _ := v.AsBigFloat().Float64()
	if f < 0 || f > 1 {
		return nil, fmt.Sprintf("%s is outside of it.", v.AsBigFloat().Text('g', 20))
	}
	return f, ""
}

func convertStrings(v cty.Value) (any, string) {
	if v.Type() == cty.String {
		return nil, fmt.Sprintf("This is one text; write [%q].", v.AsString())
	}
	if !isSequence(v.Type()) {
		return nil, fmt.Sprintf("This is %s.", typeName(v))
	}
	out := make([]string, 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if e.IsNull() || e.Type() != cty.String {
			return nil, fmt.Sprintf("Element %d is %s.", len(out)+1, typeName(e))
		}
		out = append(out, e.AsString())
	}
	return out, ""
}

func convertStringMap(v cty.Value) (any, string) {
	if !v.Type().IsObjectType() && !v.Type().IsMapType() {
		return nil, fmt.Sprintf("This is %s.", typeName(v))
	}
	out := make(map[string]Secret, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if e.IsNull() || e.Type() != cty.String {
			return nil, fmt.Sprintf("The value of %q is %s; put it in quotes.", k.AsString(), typeName(e))
		}
		out[k.AsString()] = Secret{text: e.AsString()}
	}
	return out, ""
}

func isSequence(t cty.Type) bool { return t.IsTupleType() || t.IsListType() || t.IsSetType() }

// typeName says what v is, for a message.
func typeName(v cty.Value) string {
	switch ty := v.Type(); {
	case v.IsNull():
		return "null"
	case ty == cty.String:
		return "a text"
	case ty == cty.Number:
		return "a number"
	case ty == cty.Bool:
		return "true or false without quotes"
	case isSequence(ty):
		return "a list"
	case ty.IsObjectType() || ty.IsMapType():
		return "a map"
	default:
		return "something else"
	}
}

// check reports a value outside what the setting allows, or one this version
// cannot honour.
func (s *setting) check(name string, v any, at hcl.Range) *hcl.Diagnostic {
	var n int64
	switch v := v.(type) {
	case string:
		if why, refused := s.refuseValue[v]; refused {
			return errorAt(at, "Not supported by this version", "%s = %q: %s", name, v, why)
		}
		if len(s.allowed) > 0 && !slices.Contains(s.allowed, v) {
			return errorAt(at, "Wrong value", "%s cannot be %q.%s", name, v, didYouMean(v, s.allowed))
		}
		return nil
	case int64:
		n = v
	default:
		d, ok := asDuration(v)
		if !ok {
			return nil
		}
		n = int64(d)
	}
	low := s.min != nil && n < *s.min
	high := s.max != nil && n > *s.max
	if !low && !high {
		return nil
	}
	switch {
	case s.min != nil && s.max != nil:
		return errorAt(at, "Value out of range", "%s is %s; it may be %s to %s.", name, s.show(n), s.show(*s.min), s.show(*s.max))
	case low:
		return errorAt(at, "Value out of range", "%s is %s; it must be at least %s.", name, s.show(n), s.show(*s.min))
	default:
		return errorAt(at, "Value out of range", "%s is %s; it may be at most %s.", name, s.show(n), s.show(*s.max))
	}
}
