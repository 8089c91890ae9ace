package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/test/sources"
)

// guests builds and opens modules, each once for all tests, and holds the
// compilation cache that goes with them.
var guests = struct {
	dir    string
	mu     sync.Mutex
	built  map[string]string
	opened map[string]*Module
}{built: map[string]string{}, opened: map[string]*Module{}}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice-wasm-")
	if err != nil {
		panic(err)
	}
	guests.dir = dir
	code := m.Run()
	for _, m := range guests.opened {
		if err := m.Close(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build returns the module built from a folder of testdata.
func build(t testing.TB, name string) string {
	t.Helper()
	guests.mu.Lock()
	defer guests.mu.Unlock()
	if path, ok := guests.built[name]; ok {
		return path
	}
	if err := sources.Note(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(guests.dir, filepath.Base(name)+".wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", path, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	if raceEnabled {
		// The race detector makes the compiler twenty times slower.
		warm := exec.Command("go", "test", "-count=1", "-run=^TestWarmCache$", ".")
		warm.Env = append(os.Environ(), warmDir+"="+cacheDir(), warmPath+"="+path)
		if out, err := warm.CombinedOutput(); err != nil {
			t.Fatalf("compile %s: %v\n%s", name, err, out)
		}
	}
	guests.built[name] = path
	return path
}

// The environment of TestWarmCache.
const (
	warmDir  = "SLUICE_TEST_WARM_DIR"
	warmPath = "SLUICE_TEST_WARM_PATH"
)

// TestWarmCache is no test: it compiles a module into a cache for a run of the
// tests under the race detector.
func TestWarmCache(t *testing.T) {
	dir, path := os.Getenv(warmDir), os.Getenv(warmPath)
	if dir == "" {
		t.Skip("it is run by other tests")
	}
	m, err := Open(t.Context(), path, Options{CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func cacheDir() string { return filepath.Join(guests.dir, "cache") }

// open opens a guest. Tests with the same options share the module.
func open(t testing.TB, name string, opts Options) *Module {
	t.Helper()
	if opts.CacheDir == "" {
		opts.CacheDir = cacheDir()
	}
	path, key := build(t, name), fmt.Sprint(name, opts)
	guests.mu.Lock()
	defer guests.mu.Unlock()
	if m, ok := guests.opened[key]; ok {
		return m
	}
	m, err := Open(context.WithoutCancel(t.Context()), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	guests.opened[key] = m
	return m
}

// start makes and starts a sink of m.
func start(t testing.TB, m *Module, values map[string]any, logger *slog.Logger) *Instance {
	t.Helper()
	inst, err := m.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inst.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	cfg := pluginapi.Config{Connector: "orders", Task: 2, Worker: "w", Logger: logger, Values: values}
	if err := inst.Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return inst
}

// records returns records with the given values.
func records(values ...string) []pluginapi.Record {
	batch := make([]pluginapi.Record, len(values))
	for i, v := range values {
		batch[i] = pluginapi.Record{
			Topic: "t", Partition: 1, Offset: int64(i), Timestamp: time.UnixMilli(1234), TimestampType: pluginapi.CreateTime,
			Value: pluginapi.BytesDatum([]byte(v)),
		}
	}
	return batch
}

// put puts records with values and gives the put a deadline.
func put(t testing.TB, inst *Instance, timeout time.Duration, values ...string) ([]pluginapi.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	results := make([]pluginapi.Result, len(values))
	err := inst.Put(ctx, records(values...), results)
	return results, err
}

// ask puts one record and returns the code and message it was rejected with.
func ask(t testing.TB, inst *Instance, value string) (code, message string) {
	t.Helper()
	results, err := put(t, inst, 20*time.Second, value)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Err == nil {
		t.Fatalf("put %q: got %+v, want a reason", value, results[0])
	}
	return results[0].Err.Code, results[0].Err.Message
}

// wantGone checks an error of a call that ended its instance.
func wantGone(t *testing.T, inst *Instance, err error, code, text string) {
	t.Helper()
	e := pluginapi.AsError(err, pluginapi.NoClass)
	if err == nil || e.Class != pluginapi.Unknown || e.Code != code || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (%+v), want code %q and %q", err, e, code, text)
	}
	if !inst.Gone() {
		t.Error("the instance is not gone")
	}
	results := make([]pluginapi.Result, 1)
	if err := inst.Put(t.Context(), records("x"), results); !errors.Is(err, errGone) {
		t.Errorf("put after the end: got %v, want %v", err, errGone)
	}
}

// logged is a log in memory, safe for concurrent use.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
