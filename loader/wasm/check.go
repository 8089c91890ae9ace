package wasm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// errUnfit is wrapped by errors about what a module is, rather than about
// compiling it.
var errUnfit = errors.New("not a Sluice module")

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUnfit, fmt.Sprintf(format, args...))
}

// The first eight bytes of a core module, and of a component.
var (
	moduleHeader    = []byte("\x00asm\x01\x00\x00\x00")
	componentHeader = []byte("\x00asm\x0d\x00\x01\x00")
)

func checkHeader(binary []byte) error {
	switch {
	case bytes.HasPrefix(binary, componentHeader):
		return unfit("it is a component; build a core module (wasm32-wasip1)")
	case !bytes.HasPrefix(binary, moduleHeader):
		return unfit("it is no WebAssembly file")
	}
	return nil
}

type signature struct{ params, results []api.ValueType }

func (s signature) String() string {
	names := func(types []api.ValueType) string {
		list := make([]string, len(types))
		for i, t := range types {
			list[i] = api.ValueTypeName(t)
		}
		return "(" + strings.Join(list, ", ") + ")"
	}
	return names(s.params) + " -> " + names(s.results)
}

func (s signature) is(f api.FunctionDefinition) bool {
	return slices.Equal(s.params, f.ParamTypes()) && slices.Equal(s.results, f.ResultTypes())
}

const (
	i32 = api.ValueTypeI32
	i64 = api.ValueTypeI64
)

const (
	exportVersion  = "sluice_abi_version"
	exportAlloc    = "sluice_alloc"
	exportDescribe = "sluice_describe"
	exportStart    = "sluice_start"
	exportPut      = "sluice_put"
	exportCheck    = "sluice_check"
	exportStop     = "sluice_stop"

	importModule = "sluice"
	wasiModule   = "wasi_snapshot_preview1"
)

// exports are the functions a module must have.
var exports = map[string]signature{
	exportVersion:  {nil, []api.ValueType{i32}},
	exportAlloc:    {[]api.ValueType{i32}, []api.ValueType{i32}},
	exportDescribe: {nil, []api.ValueType{i64}},
	exportStart:    {[]api.ValueType{i32, i32}, []api.ValueType{i64}},
	exportPut:      {[]api.ValueType{i32, i32}, []api.ValueType{i64}},
	exportCheck:    {nil, []api.ValueType{i64}},
	exportStop:     {nil, []api.ValueType{i64}},
}

// imports are the functions a module may ask for beside WASI's.
var imports = map[string]signature{
	"log":     {[]api.ValueType{i32, i32, i32}, nil},
	"results": {[]api.ValueType{i32, i32}, nil},
	"http":    {[]api.ValueType{i32, i32}, []api.ValueType{i64}},
}

// checkModule reports everything a module lacks, at once and by name. wasi is
// what there is to import from WASI.
func checkModule(c wazero.CompiledModule, wasi map[string]api.FunctionDefinition) error {
	var problems []string
	have := c.ExportedFunctions()
	for _, name := range slices.Sorted(maps.Keys(exports)) {
		want := exports[name]
		switch f, ok := have[name]; {
		case !ok:
			problems = append(problems, fmt.Sprintf("no export %s%s", name, want))
		case !want.is(f):
			got := signature{f.ParamTypes(), f.ResultTypes()}
			problems = append(problems, fmt.Sprintf("export %s is %s, want %s", name, got, want))
		}
	}
	if len(c.ExportedMemories()) == 0 {
		problems = append(problems, "no exported memory")
	}
	for _, f := range c.ImportedFunctions() {
		module, name, _ := f.Import()
		var want signature
		known := false
		switch module {
		case importModule:
			want, known = imports[name]
		case wasiModule:
			if def := wasi[name]; def != nil {
				want, known = signature{def.ParamTypes(), def.ResultTypes()}, true
			}
		}
		switch {
		case !known:
			problems = append(problems, fmt.Sprintf("import %s.%s is not known", module, name))
		case !want.is(f):
			got := signature{f.ParamTypes(), f.ResultTypes()}
			problems = append(problems, fmt.Sprintf("import %s.%s is %s, want %s", module, name, got, want))
		}
	}
	if len(c.ImportedMemories()) > 0 {
		problems = append(problems, "it imports a memory")
	}
	if len(problems) == 0 {
		return nil
	}
	if _, command := have["_start"]; command && have["_initialize"] == nil {
		problems = append(problems, "it is a command (_start); build a reactor (in Go: -buildmode=c-shared)")
	}
	return unfit("%s", strings.Join(problems, "; "))
}
