package wasm

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

// assembly is a module written by hand: what no compiler would make. Functions
// are bodies in machine code without their final end; those of the contract
// that are not given answer zero.
type assembly struct {
	imports map[string]signature // Of the module sluice; called by number, in order of their names.
	foreign string               // A function to import from the module env.
	funcs   map[string][]byte
	extra   map[string][]byte // Further functions () -> (), by export name.
	without string            // An export to leave out.
	types   map[string]signature
	memory  []byte // Limits of the memory; one page if nil.
	data    []byte // At address 16.
}

func leb(n int) []byte {
	var out []byte
	for {
		b := byte(n & 0x7f)
		if n >>= 7; n == 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// sleb writes a signed number, as constants have it.
func sleb(n int64) []byte {
	var out []byte
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func i32Const(n int32) []byte { return append([]byte{0x41}, sleb(int64(n))...) }

func i64Const(n int64) []byte { return append([]byte{0x42}, sleb(n)...) }

func name(s string) []byte { return append(leb(len(s)), s...) }

func section(id byte, items ...[]byte) []byte {
	body := leb(len(items))
	for _, item := range items {
		body = append(body, item...)
	}
	return append(append([]byte{id}, leb(len(body))...), body...)
}

func funcType(s signature) []byte {
	out := append([]byte{0x60}, leb(len(s.params))...)
	out = append(out, s.params...)
	out = append(out, leb(len(s.results))...)
	return append(out, s.results...)
}

func (a assembly) bytes() []byte {
	var types, importList, functions, exportList, code [][]byte
	addType := func(s signature) []byte {
		types = append(types, funcType(s))
		return leb(len(types) - 1)
	}
	index := 0
	addImport := func(module, field string, s signature) {
		item := append(append(name(module), name(field)...), 0)
		importList = append(importList, append(item, addType(s)...))
		index++
	}
	for _, field := range slices.Sorted(maps.Keys(a.imports)) {
		addImport(importModule, field, a.imports[field])
	}
	if a.foreign != "" {
		addImport("env", a.foreign, signature{})
	}
	add := func(export string, s signature, body []byte) {
		functions = append(functions, addType(s))
		body = append(append([]byte{0}, body...), 0x0b) // No locals; end.
		code = append(code, append(leb(len(body)), body...))
		if export != a.without {
			exportList = append(exportList, append(append(name(export), 0), leb(index)...))
		}
		index++
	}
	for _, field := range slices.Sorted(maps.Keys(a.extra)) {
		add(field, signature{}, a.extra[field])
	}
	for _, field := range slices.Sorted(maps.Keys(exports)) {
		s := exports[field]
		if other, ok := a.types[field]; ok {
			s = other
		}
		body := a.funcs[field]
		switch {
		case body != nil:
		case field == exportVersion:
			body = i32Const(1)
		case field == exportAlloc:
			body = i32Const(1024)
		case len(s.results) == 1 && s.results[0] == api.ValueTypeI32:
			body = i32Const(0)
		case len(s.results) == 1:
			body = i64Const(16<<32 | int64(len(a.data)))
		}
		add(field, s, body)
	}
	limits := a.memory
	if limits == nil {
		limits = []byte{0, 1}
	}
	exportList = append(exportList, append(name("memory"), 2, 0))
	out := slices.Clone(moduleHeader)
	out = append(out, section(1, types...)...)
	if len(importList) > 0 {
		out = append(out, section(2, importList...)...)
	}
	out = append(out, section(3, functions...)...)
	out = append(out, section(5, limits)...)
	out = append(out, section(7, exportList...)...)
	out = append(out, section(10, code...)...)
	segment := append(append([]byte{0}, i32Const(16)...), 0x0b)
	return append(out, section(11, append(append(segment, leb(len(a.data))...), a.data...))...)
}

func (a assembly) write(t *testing.T) string {
	t.Helper()
	return writeModule(t, a.bytes())
}

func writeModule(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.wasm")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
