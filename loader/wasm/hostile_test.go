package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/pluginapi"
)

// load opens a module written by hand.
func load(t *testing.T, a assembly, opts Options) *Module {
	t.Helper()
	m, err := Open(t.Context(), a.write(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

// A module that another toolchain made, or for another host, is refused by what it
// lacks (PLUG-25).
func TestOpenNamesWhatIsWrong(t *testing.T) {
	good := assembly{data: []byte{0xf6}}.bytes()
	for _, tc := range []struct {
		name   string
		module []byte
		want   []string
	}{
		{"empty", nil, []string{"no WebAssembly file"}},
		{"text", []byte("#!/bin/sh\n"), []string{"no WebAssembly file"}},
		{"component", append(componentHeader, 0), []string{"component"}},
		{"truncated", good[:len(good)-3], []string{"compile"}},
		{"missing export", assembly{without: exportPut}.bytes(), []string{"no export sluice_put(i32, i32) -> (i64)"}},
		{
			"wrong signature", assembly{types: map[string]signature{exportDescribe: {nil, []byte{i32}}}}.bytes(),
			[]string{"export sluice_describe is () -> (i32), want () -> (i64)"},
		},
		{"unknown import", assembly{foreign: "abort"}.bytes(), []string{"import env.abort is not known"}},
		{
			"import with another signature", assembly{imports: map[string]signature{"log": {}}}.bytes(),
			[]string{"import sluice.log is () -> (), want (i32, i32, i32) -> ()"},
		},
		{
			"command", assembly{without: exportAlloc, extra: map[string][]byte{"_start": nil}}.bytes(),
			[]string{"sluice_alloc", "-buildmode=c-shared"},
		},
		{"more memory than the limit", assembly{memory: []byte{0, 2}}.bytes(), []string{"over limit"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Open(t.Context(), writeModule(t, tc.module), Options{MemoryBytes: pageBytes})
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}

// A module may declare more memory than it is allowed, as long as it takes less
// (PLUG-19).
func TestOpenWithHighMaximum(t *testing.T) {
	m := load(t, assembly{memory: []byte{1, 1, 0x80, 0x80, 2}, data: []byte{0xf6}}, Options{MemoryBytes: 2 * pageBytes})
	inst, err := m.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenChecksChecksum(t *testing.T) {
	module := assembly{data: []byte{0xf6}}.bytes()
	path := writeModule(t, module)
	sum := sha256.Sum256(module)
	m, err := Open(t.Context(), path, Options{SHA256: strings.ToUpper(hex.EncodeToString(sum[:]))})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.Context(), path, Options{SHA256: strings.Repeat("0", 64)}); err == nil || !strings.Contains(err.Error(), "checksum is") {
		t.Errorf("got %v, want a wrong checksum", err)
	}
}

func TestBrokenCacheIsDoneWithout(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log logged
	load(t, assembly{data: []byte{0xf6}}, Options{CacheDir: file, Logger: log.logger()})
	if !strings.Contains(log.String(), "compilation cache not used") {
		t.Errorf("it is not logged: %s", log.String())
	}
	// A cache whose files are broken, as after a full disk.
	dir := t.TempDir()
	for range 2 {
		load(t, assembly{data: []byte{0xf6}}, Options{CacheDir: dir})
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				err = os.WriteFile(path, []byte("WAZEVO\x00"), 0o600)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestOtherVersionIsNamed(t *testing.T) {
	m := load(t, assembly{funcs: map[string][]byte{exportVersion: i32Const(7)}}, Options{})
	_, err := m.Describe(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ABI version 7, this host speaks 1") {
		t.Errorf("got %v, want both versions", err)
	}
}

func TestHostileAnswers(t *testing.T) {
	results := func(ptr, n int32) []byte { // Call import 0, results, then answer.
		return append(append(append(i32Const(ptr), i32Const(n)...), 0x10, 0), i64Const(16<<32|1)...)
	}
	withResults := map[string]signature{"results": imports["results"]}
	part := abi.AppendPutResponse(nil, true, 0, []pluginapi.Result{{Outcome: pluginapi.Accept}})
	rest := abi.AppendPutResponse(nil, false, 0, pluginapi.Accepted(2))
	for _, tc := range []struct {
		name     string
		a        assembly
		code     string
		text     string
		accepted int // Results that stand.
	}{
		{"garbage", assembly{data: []byte("garbage")}, "bad_answer", "malformed frame", 0},
		{"nothing", assembly{}, "bad_answer", "ends early", 0},
		{"part at the end", assembly{data: part}, "", "ended with a part", 1},
		{"outside memory", assembly{funcs: map[string][]byte{exportPut: i64Const(-1)}}, "bad_answer", "outside its memory", 0},
		{"huge", assembly{funcs: map[string][]byte{exportPut: i64Const(0xffffffff)}}, "bad_answer", "outside its memory", 0},
		{"alloc outside memory", assembly{funcs: map[string][]byte{exportAlloc: i32Const(-8)}}, "bad_answer", "outside its memory", 0},
		{"trap", assembly{funcs: map[string][]byte{exportPut: {0}}}, "crash", "unreachable", 0},
		{"trap in alloc", assembly{funcs: map[string][]byte{exportAlloc: {0}}}, "crash", "unreachable", 0},
		{
			"results outside memory",
			assembly{imports: withResults, funcs: map[string][]byte{exportPut: results(-1, 9)}},
			"crash", "outside the module's memory", 0,
		},
		{
			"results that are garbage",
			assembly{imports: withResults, data: []byte("x"), funcs: map[string][]byte{exportPut: results(16, 1)}},
			"bad_answer", "malformed", 0,
		},
		{
			"results that end the put",
			assembly{imports: withResults, data: rest, funcs: map[string][]byte{exportPut: results(16, int32(len(rest)))}},
			"crash", "not a part", 2,
		},
		{
			"log outside memory",
			assembly{
				imports: map[string]signature{"log": imports["log"]},
				funcs:   map[string][]byte{exportPut: append(append(append(append(i32Const(0), i32Const(-9)...), i32Const(100)...), 0x10, 0), i64Const(0)...)},
			},
			"crash", "import log: 100 bytes at 4294967287", 0,
		},
		{
			"http in alloc",
			assembly{
				imports: map[string]signature{"http": imports["http"]},
				funcs:   map[string][]byte{exportAlloc: append(append(append(i32Const(16), i32Const(1)...), 0x10, 0), append([]byte{0x1a}, i32Const(1024)...)...)},
				data:    []byte{0xa0},
			},
			"crash", "called in sluice_alloc", 0,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := load(t, tc.a, Options{})
			inst, err := m.Instance(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := make([]pluginapi.Result, 2)
			err = inst.Put(t.Context(), records("a", "b"), got)
			if err == nil || !strings.Contains(err.Error(), tc.text) || !inst.Gone() {
				t.Errorf("got %v, gone %t, want %q", err, inst.Gone(), tc.text)
			}
			if e := pluginapi.AsError(err, 0); e.Class != pluginapi.Unknown && tc.code != "" || tc.code != "" && e.Code != tc.code {
				t.Errorf("got %+v, want code %q", e, tc.code)
			}
			for i := range got {
				if want := i < tc.accepted; (got[i].Outcome == pluginapi.Accept) != want {
					t.Errorf("result %d: got %+v, want accepted %t", i, got[i], want)
				}
			}
			if err := inst.Stop(t.Context()); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
	}
}

func TestNoMemoryForRequest(t *testing.T) {
	m := load(t, assembly{funcs: map[string][]byte{exportAlloc: i32Const(0)}, data: []byte{0xf6}}, Options{})
	inst, err := m.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Put(t.Context(), records("a"), make([]pluginapi.Result, 1)); !errors.Is(err, errNoMemory) || inst.Gone() {
		t.Errorf("got %v, gone %t", err, inst.Gone())
	}
}

func TestResultsOutsideOfPut(t *testing.T) {
	body := append(append(append(i32Const(16), i32Const(1)...), 0x10, 0), i64Const(16<<32|1)...)
	m := load(t, assembly{imports: map[string]signature{"results": imports["results"]}, funcs: map[string][]byte{exportCheck: body}, data: []byte{0xf6}}, Options{})
	inst, err := m.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "outside of a put") {
		t.Errorf("got %v", err)
	}
}

// TestCallWithoutLoopIsLeftBehind runs a tree of 2^30 calls with no loop in it,
// which the engine cannot stop (PLUG-17): the put returns, the instance is gone,
// and closing the module says that it is still in use. Garbage is not collected
// meanwhile: a collection has to stop every goroutine, and this one cannot be.
func TestCallWithoutLoopIsLeftBehind(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const depth = 30
	extra := map[string][]byte{fmt.Sprintf("f%02d", depth): nil}
	for i := range depth { // Functions are numbered in order of their names.
		extra[fmt.Sprintf("f%02d", i)] = []byte{0x10, byte(i + 1), 0x10, byte(i + 1)}
	}
	m, err := Open(t.Context(), assembly{
		extra: extra, funcs: map[string][]byte{exportPut: append([]byte{0x10, 0}, i64Const(16<<32|1)...)}, data: []byte{0xf6},
	}.write(t), Options{Grace: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	inst, err := m.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = put(t, inst, 50*time.Millisecond, "a")
	if took := time.Since(began); took > leaveAfter+2*time.Second {
		t.Errorf("the put took %s", took)
	}
	if e := pluginapi.AsError(err, 0); err == nil || e.Code != "put_timeout" || !strings.Contains(err.Error(), "does not stop") || !inst.Gone() {
		t.Errorf("got %v, gone %t", err, inst.Gone())
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := m.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 calls still run") {
		t.Errorf("close: got %v", err)
	}
	if _, err := m.Instance(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("instance after close: got %v", err)
	}
	<-m.idle // The runaway ends by itself, in the end; then its memory may go.
}

func TestCloseEndsInstances(t *testing.T) {
	m := load(t, assembly{data: []byte{0xf6}}, Options{})
	inst, err := m.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := inst.Check(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("check: got %v, want %v", err, errClosed)
	}
	if err := inst.Stop(t.Context()); err != nil && !errors.Is(err, errClosed) {
		t.Errorf("stop: %v", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Errorf("second close: %v", err)
	}
}
