package config

import (
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	"golang.org/x/text/unicode/norm"
)

// secretMark marks values that no message may show.
type secretMark struct{}

// functions returns what an expression in a file of directory dir may call.
func (l *loader) functions(dir string) map[string]function.Function {
	fns := pureFunctions()
	fns["env"] = l.envFunction()
	fns["file"] = l.fileFunction(dir)
	fns["secret"] = l.secretFunction()
	return fns
}

func (l *loader) envFunction() function.Function {
	return function.New(&function.Spec{
		Description: "An environment variable; the default where it is not set.",
		Params:      []function.Parameter{{Name: "name", Type: cty.String}},
		VarParam:    &function.Parameter{Name: "default", Type: cty.String},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if len(args) > 2 {
				return cty.DynamicVal, function.NewArgErrorf(2, "env takes a name and at most one default")
			}
			name := args[0].AsString()
			text, ok := l.env.Lookup(name)
			if !ok && len(args) == 2 {
				return args[1], nil
			}
			if !ok {
				return cty.DynamicVal, function.NewArgErrorf(0, "the environment variable %s is not set. Set it, or give a default: env(%q, \"…\")", name, name)
			}
			return exactText(text, "the environment variable "+name)
		},
	})
}

func (l *loader) fileFunction(dir string) function.Function {
	return function.New(&function.Spec{
		Description: "A file's content as text.",
		Params:      []function.Parameter{{Name: "path", Type: cty.String}},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			path := resolve(dir, args[0].AsString())
			text, err := l.env.ReadFile(path)
			if err != nil {
				return cty.DynamicVal, function.NewArgErrorf(0, "%v. Relative paths are taken from the directory of this configuration file", err)
			}
			if len(text) > maxFileBytes {
				return cty.DynamicVal, function.NewArgErrorf(0, "%s is larger than %s", path, sizeText(maxFileBytes))
			}
			return exactText(string(text), "the file "+path)
		},
	})
}

func (l *loader) secretFunction() function.Function {
	return function.New(&function.Spec{
		Description: "The same value, shown as \"(secret)\" everywhere.",
		Params: []function.Parameter{{
			Name: "value", Type: cty.DynamicPseudoType,
			AllowMarked: true, AllowNull: true, AllowDynamicType: true,
		}},
		Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			l.secrets.addValue(args[0])
			return args[0].Mark(secretMark{}), nil
		},
	})
}

// addValue notes every text in v as a secret.
func (r *redactor) addValue(v cty.Value) {
	v, _ = v.UnmarkDeep()
	_ = cty.Walk(v, func(_ cty.Path, part cty.Value) (bool, error) {
		if !part.IsKnown() || part.IsNull() {
			return true, nil
		}
		switch part.Type() {
		case cty.String:
			r.add(part.AsString())
		case cty.Number:
			r.add(part.AsBigFloat().Text('f', -1))
		}
		return true, nil
	}) // The callback returns no error.
}

// exactText returns text as a value, or an error where the expression language
// would change its bytes: it normalises texts to Unicode's composed form, and
// a password in another form would silently be a different one.
func exactText(text, what string) (cty.Value, error) {
	if !utf8.ValidString(text) {
		return cty.DynamicVal, fmt.Errorf("%s is not UTF-8 text", what)
	}
	if !norm.NFC.IsNormalString(text) {
		return cty.DynamicVal, fmt.Errorf("%s holds decomposed Unicode letters, which would be changed to composed ones (NFC). Write them composed", what)
	}
	return cty.StringVal(text), nil
}

func base64Function() function.Function {
	return function.New(&function.Spec{
		Description: "The text that a base64 text stands for.",
		Params:      []function.Parameter{{Name: "text", Type: cty.String}},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			text, err := base64.StdEncoding.DecodeString(args[0].AsString())
			if err != nil {
				return cty.DynamicVal, function.NewArgErrorf(0, "it is not base64 text")
			}
			return exactText(string(text), "the decoded text")
		},
	})
}

func base64EncodeFunction() function.Function {
	return function.New(&function.Spec{
		Description: "The base64 text of a text.",
		Params:      []function.Parameter{{Name: "text", Type: cty.String}},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.StringVal(base64.StdEncoding.EncodeToString([]byte(args[0].AsString()))), nil
		},
	})
}

// jsonDecodeFunction is cty's, behind a look at the nesting: its decoder is
// recursive.
func jsonDecodeFunction() function.Function {
	return function.New(&function.Spec{
		Description: "The value a JSON text stands for.",
		Params:      []function.Parameter{{Name: "text", Type: cty.String}},
		Type: func(args []cty.Value) (cty.Type, error) {
			if !args[0].IsKnown() {
				return cty.DynamicPseudoType, nil
			}
			if err := jsonDepth(args[0].AsString()); err != nil {
				return cty.DynamicPseudoType, function.NewArgError(0, err)
			}
			return stdlib.JSONDecodeFunc.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return stdlib.JSONDecodeFunc.Call(args)
		},
	})
}

// pureFunctions returns the functions that depend on their arguments alone.
func pureFunctions() map[string]function.Function {
	return map[string]function.Function{
		"abs":             stdlib.AbsoluteFunc,
		"base64decode":    base64Function(),
		"base64encode":    base64EncodeFunction(),
		"ceil":            stdlib.CeilFunc,
		"chomp":           stdlib.ChompFunc,
		"chunklist":       stdlib.ChunklistFunc,
		"coalesce":        stdlib.CoalesceFunc,
		"coalescelist":    stdlib.CoalesceListFunc,
		"compact":         stdlib.CompactFunc,
		"concat":          stdlib.ConcatFunc,
		"contains":        stdlib.ContainsFunc,
		"distinct":        stdlib.DistinctFunc,
		"element":         stdlib.ElementFunc,
		"flatten":         stdlib.FlattenFunc,
		"floor":           stdlib.FloorFunc,
		"format":          stdlib.FormatFunc,
		"formatlist":      stdlib.FormatListFunc,
		"indent":          stdlib.IndentFunc,
		"index":           stdlib.IndexFunc,
		"join":            stdlib.JoinFunc,
		"jsondecode":      jsonDecodeFunction(),
		"jsonencode":      stdlib.JSONEncodeFunc,
		"keys":            stdlib.KeysFunc,
		"length":          stdlib.LengthFunc,
		"lookup":          stdlib.LookupFunc,
		"lower":           stdlib.LowerFunc,
		"max":             stdlib.MaxFunc,
		"merge":           stdlib.MergeFunc,
		"min":             stdlib.MinFunc,
		"range":           stdlib.RangeFunc,
		"regex":           stdlib.RegexFunc,
		"regexall":        stdlib.RegexAllFunc,
		"replace":         stdlib.ReplaceFunc,
		"regexreplace":    stdlib.RegexReplaceFunc,
		"reverse":         stdlib.ReverseListFunc,
		"setintersection": stdlib.SetIntersectionFunc,
		"setsubtract":     stdlib.SetSubtractFunc,
		"setunion":        stdlib.SetUnionFunc,
		"slice":           stdlib.SliceFunc,
		"sort":            stdlib.SortFunc,
		"split":           stdlib.SplitFunc,
		"strlen":          stdlib.StrlenFunc,
		"strrev":          stdlib.ReverseFunc,
		"substr":          stdlib.SubstrFunc,
		"title":           stdlib.TitleFunc,
		"tobool":          stdlib.MakeToFunc(cty.Bool),
		"tonumber":        stdlib.MakeToFunc(cty.Number),
		"tostring":        stdlib.MakeToFunc(cty.String),
		"trim":            stdlib.TrimFunc,
		"trimprefix":      stdlib.TrimPrefixFunc,
		"trimspace":       stdlib.TrimSpaceFunc,
		"trimsuffix":      stdlib.TrimSuffixFunc,
		"upper":           stdlib.UpperFunc,
		"values":          stdlib.ValuesFunc,
		"zipmap":          stdlib.ZipmapFunc,
	}
}
