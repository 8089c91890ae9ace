package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/loader/wasm"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/test/sources"
)

// fixtureFile is the built fixture; TestMain sets it.
var fixtureFile string

func TestMain(m *testing.M) {
	if os.Getenv(workerKey) != "" {
		runWorker() // See kill_test.go.
		return
	}
	if os.Getenv(warmKey) != "" {
		os.Exit(runWarm())
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sluice-loader")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := sources.Note(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fixtureFile = filepath.Join(dir, "fixture")
	build := exec.Command("go", "build", "-o", fixtureFile, "./testdata/fixture")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build fixture: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// buildGuest builds the WASM module. Under the race detector, which makes the
// compiler twenty times slower, it is compiled into the cache by a test binary
// without it: the cache is one per version of wazero, and in test binaries that
// is "dev".
func buildGuest(t *testing.T, path, cache string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", path, "./testdata/guest")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build guest: %v\n%s", err, out)
	}
	if !raceEnabled {
		return
	}
	warm := exec.CommandContext(t.Context(), "go", "test", "-count=1", ".")
	warm.Env = append(os.Environ(), warmKey+"="+path, warmKey+"_CACHE="+cache)
	if out, err := warm.CombinedOutput(); err != nil {
		t.Fatalf("compile guest: %v\n%s", err, out)
	}
}

// warmKey makes the test binary compile a module into a cache.
const warmKey = "SLUICE_LOADER_TEST_WARM"

func runWarm() int {
	ctx := context.Background()
	m, err := wasm.Open(ctx, os.Getenv(warmKey), wasm.Options{CacheDir: os.Getenv(warmKey + "_CACHE")})
	if err == nil {
		err = m.Close(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// drop puts the fixture into dir under the names.
func drop(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Link(fixtureFile, filepath.Join(dir, processPrefix+name)); err != nil {
			t.Fatal(err)
		}
	}
}

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually waits until ok, which is asked again and again, says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it never happened: %s", what)
		}
	}
}

func newCatalog(t *testing.T, opts CatalogOptions) *Catalog {
	t.Helper()
	c := NewCatalog(opts)
	t.Cleanup(c.Close)
	return c
}

// open opens the fixture called name.
func open(t *testing.T, name string, opts Options) *Runner {
	t.Helper()
	dir := t.TempDir()
	drop(t, dir, name)
	c := newCatalog(t, CatalogOptions{Dirs: []string{dir}})
	p, err := c.Resolve(t.Context(), name, Pin{})
	if err != nil {
		t.Fatal(err)
	}
	return openPlugin(t, p, opts)
}

func openPlugin(t *testing.T, p *Plugin, opts Options) *Runner {
	t.Helper()
	setDefault(&opts.PutGrace, time.Second)
	r, err := p.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return r
}

// instance makes and starts an instance with the values.
func instance(t *testing.T, r *Runner, values map[string]any) *Instance {
	t.Helper()
	in := made(t, r, values)
	if err := in.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return in
}

func made(t *testing.T, r *Runner, values map[string]any) *Instance {
	t.Helper()
	in, err := r.NewInstance(t.Context(), pluginapi.Config{Connector: "c", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Stop(context.WithoutCancel(t.Context())) })
	return in
}

// records returns a batch with the values.
func records(values ...string) []pluginapi.Record {
	batch := make([]pluginapi.Record, len(values))
	for i, v := range values {
		batch[i] = pluginapi.Record{Topic: "t", Offset: int64(i), Value: pluginapi.BytesDatum([]byte(v))}
	}
	return batch
}

// put puts the values and returns the results in short: a, y, j, or - for each.
func put(ctx context.Context, in *Instance, values ...string) (string, []pluginapi.Result, error) {
	results := make([]pluginapi.Result, len(values))
	err := in.Put(ctx, records(values...), results)
	var b strings.Builder
	for _, r := range results {
		b.WriteByte("-ayj"[r.Outcome])
	}
	return b.String(), results, err
}

// ask puts a record and returns what the sink says in its result.
func ask(t *testing.T, in *Instance, value string) string {
	t.Helper()
	_, results, err := put(t.Context(), in, value)
	if err != nil {
		t.Fatal(err)
	}
	return results[0].Err.Message
}

// pidOf returns the number of a process: "pid" asks for the sink's own.
func pidOf(t *testing.T, in *Instance, value string) int {
	t.Helper()
	pid, err := strconv.Atoi(ask(t, in, value))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// codeOf returns the class and code of an error.
func codeOf(err error) string {
	var e *pluginapi.Error
	if !errors.As(err, &e) {
		return "none"
	}
	return e.Class.String() + "/" + e.Code
}

// children returns the processes whose command line begins with prefix.
func processes(prefix string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if strings.HasPrefix(string(b), prefix) {
			found = append(found, filepath.Base(filepath.Dir(f)))
		}
	}
	return found
}

// exists reports whether a process is there and no zombie.
func exists(pid string) bool {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func textLogger(l *logBuffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
