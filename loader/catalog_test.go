package loader

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

func TestScanReportsBrokenFilesAndBlocksNothing(t *testing.T) {
	dir := t.TempDir()
	drop(t, dir, "good", "good-2.0.0", "exits", "silent", "talks", "longtalk", "future", "deaf", "nonsense", "misdescribed", "needy")
	for name, content := range map[string]string{
		"sluice-sink-script":  "#!/nowhere/at/all\n",
		"sluice-sink-empty":   "",
		"sluice-sink-nothing": "not a program",
		"broken.wasm":         "\x00asm but no",
		"README.md":           "not a plugin",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "sluice-sink-asleep"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere/at/all", filepath.Join(dir, "sluice-sink-dangling")); err != nil {
		t.Fatal(err)
	}
	c := newCatalog(t, CatalogOptions{
		Dirs:            []string{dir, filepath.Join(dir, "missing")},
		Builtins:        []pluginapi.Plugin{{Name: "Bad Name", Version: "1.0.0", New: func() pluginapi.Sink { return &fakeSink{} }}},
		DescribeTimeout: 2 * time.Second,
		HostVersion:     "1.4.0",
	})
	found, problems := c.Scan(t.Context())
	var names []string
	for _, f := range found {
		name := f.String()
		if f.Default {
			name += "*"
		}
		names = append(names, name)
	}
	if got, want := strings.Join(names, ", "), "process:good 2.0.0*, process:good 1.0.0"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	want := map[string]string{
		"Bad Name":                 "plugin name",
		"missing":                  "no such file",
		"sluice-sink-exits":        "it ended before it was ready: exit status 9; it wrote: no licence found",
		"sluice-sink-silent":       "not ready in time",
		"sluice-sink-talks":        `it wrote "Welcome to the plugin!" where its handshake was expected`,
		"sluice-sink-longtalk":     "where its handshake was expected",
		"sluice-sink-future":       "the plugin speaks version 9 of the plugin contract, this host speaks 1",
		"sluice-sink-deaf":         "no such file",
		"sluice-sink-nonsense":     "read its description",
		"sluice-sink-misdescribed": "plugin name",
		"sluice-sink-needy":        "needs a host of version 99.0.0, this is 1.4.0",
		"sluice-sink-script":       "no such file",
		"sluice-sink-empty":        "exec format error",
		"sluice-sink-nothing":      "exec format error",
		"sluice-sink-asleep":       "chmod +x",
		"sluice-sink-dangling":     "no such file",
		"broken.wasm":              "",
	}
	for _, p := range problems {
		name := filepath.Base(p.Path)
		text, ok := want[name]
		if !ok {
			t.Errorf("unexpected problem %v", p)
			continue
		}
		delete(want, name)
		if !strings.Contains(p.Err.Error(), text) {
			t.Errorf("%s: %v, want %q in it", name, p.Err, text)
		}
		if len(p.Err.Error()) > 2000 {
			t.Errorf("%s: a message of %d bytes", name, len(p.Err.Error()))
		}
	}
	for name := range want {
		t.Errorf("no problem with %s", name)
	}
}

// Plugins that cannot be started leave no process, descriptor or goroutine
// (PLUG-13).
func TestFailedStartsLeaveNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir := t.TempDir()
	drop(t, dir, "exits", "talks", "future", "deaf", "nonsense", "misdescribed")
	c := newCatalog(t, CatalogOptions{Dirs: []string{dir}, DescribeTimeout: 10 * time.Second})
	c.Scan(t.Context()) // What the first start makes stays: the guard, the launcher.
	count := func() (descriptors, goroutines int) {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(files), runtime.NumGoroutine()
	}
	descriptors, goroutines := count()
	for range 5 {
		if _, problems := c.Scan(t.Context()); len(problems) != 6 {
			t.Fatalf("problems %v", problems)
		}
	}
	eventually(t, "descriptors and goroutines are as before", func() bool {
		d, g := count()
		return d <= descriptors && g <= goroutines
	})
	eventually(t, "no process is left", func() bool { return len(processes(dir)) == 0 })
}

func TestUnchangedFilesAreAskedOnce(t *testing.T) {
	dir := t.TempDir()
	drop(t, dir, "good")
	c := newCatalog(t, CatalogOptions{Dirs: []string{dir}})
	c.Scan(t.Context())
	asked := c.processes.Load()
	if found, problems := c.Scan(t.Context()); len(found) != 1 || len(problems) != 0 {
		t.Fatalf("found %v, problems %v", found, problems)
	}
	if n := c.processes.Load(); n != asked {
		t.Errorf("%d processes were started for an unchanged file", n-asked)
	}
	// Replaced by another file of the name.
	path := filepath.Join(dir, "sluice-sink-good")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if found, problems := c.Scan(t.Context()); len(found) != 0 || len(problems) != 1 {
		t.Errorf("after a change: found %v, problems %v", found, problems)
	}
}

func TestResolve(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	drop(t, first, "good", "good-1.2.0", "good-2.0.0-rc.1")
	drop(t, second, "good-1.2.5", "other")
	builtin := fixturePlugin()
	builtin.Version = "1.2.0"
	c := newCatalog(t, CatalogOptions{Dirs: []string{first, second}, Builtins: []pluginapi.Plugin{builtin}})
	sum, err := checksum(fixtureFile)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		pin  Pin
		want string // The plugin, or a part of the error.
	}{
		{"good", Pin{}, "process:good 2.0.0-rc.1"},
		{"good", Pin{Version: "< 2.0"}, "process:good 1.2.5"},
		{"good", Pin{Version: "~> 1.2.0, < 1.2.5"}, "builtin:good 1.2.0"},
		{"process:good", Pin{Version: "1.2.0"}, "process:good 1.2.0"},
		{"builtin:good", Pin{}, "builtin:good 1.2.0"},
		{"other", Pin{SHA256: strings.ToUpper(sum)}, "process:other 1.0.0"},
		{"wasm:good", Pin{}, "but there is process:good"},
		{"good", Pin{Version: "> 3"}, `process:good 1.2.5 is not "> 3"`},
		{"good", Pin{Version: "about two"}, "version constraint"},
		{"builtin:good", Pin{SHA256: sum}, "the builtin has no checksum"},
		{"god", Pin{}, `did you mean "good"?`},
		{"kinesis", Pin{}, "there are good, other"},
		{"python:good", Pin{}, "a form is builtin, process or wasm"},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.pin.Version, func(t *testing.T) {
			p, err := c.Resolve(t.Context(), tt.name, tt.pin)
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q in it", err, tt.want)
				}
				return
			}
			if p.String() != tt.want {
				t.Errorf("plugin %s, want %s", p, tt.want)
			}
		})
	}
}

// A file with another checksum than the pinned one must not run, not even to be
// asked what it is.
func TestChecksumIsVerifiedBeforeAByteRuns(t *testing.T) {
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	for _, name := range []string{"acme", "acme-1.2.0"} {
		script := "#!/bin/sh\necho yes > " + ran + "\n"
		if err := os.WriteFile(filepath.Join(dir, processPrefix+name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pin := Pin{SHA256: strings.Repeat("ab", 32)}
	c := newCatalog(t, CatalogOptions{Dirs: []string{dir}, Pins: map[string]Pin{"acme": pin}})
	if found, problems := c.Scan(t.Context()); len(found) != 0 || len(problems) != 2 || !errors.Is(problems[0].Err, ErrChecksum) {
		t.Errorf("found %v, problems %v", found, problems)
	}
	if _, err := c.Resolve(t.Context(), "acme", Pin{}); !errors.Is(err, ErrNotFound) || !errors.Is(err, ErrChecksum) {
		t.Errorf("error %v", err)
	}
	if _, err := newCatalog(t, CatalogOptions{Dirs: []string{dir}}).Resolve(t.Context(), "acme", pin); !errors.Is(err, ErrChecksum) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file ran")
	}
}

func TestPinnedFileIsVerifiedAtEveryStart(t *testing.T) {
	dir := t.TempDir()
	drop(t, dir, "good")
	sum, err := checksum(fixtureFile)
	if err != nil {
		t.Fatal(err)
	}
	c := newCatalog(t, CatalogOptions{Dirs: []string{dir}})
	p, err := c.Resolve(t.Context(), "good", Pin{SHA256: sum})
	if err != nil {
		t.Fatal(err)
	}
	r := openPlugin(t, p, Options{})
	if got, _, err := put(t.Context(), instance(t, r, nil), "x"); got != "a" || err != nil {
		t.Errorf("results %q, error %v", got, err)
	}
	path := filepath.Join(dir, "sluice-sink-good")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.NewIsolated(t.Context(), pluginapi.Config{}); !errors.Is(err, ErrChecksum) {
		t.Errorf("error %v, want the checksum's", err)
	}
}

func TestReplacedFileIsNotStartedAsTheOldOne(t *testing.T) {
	dir := t.TempDir()
	drop(t, dir, "good")
	c := newCatalog(t, CatalogOptions{Dirs: []string{dir}})
	p, err := c.Resolve(t.Context(), "good", Pin{})
	if err != nil {
		t.Fatal(err)
	}
	r := openPlugin(t, p, Options{})
	path := filepath.Join(dir, "sluice-sink-good")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	// Its name says which plugin the fixture is.
	script := "#!/bin/sh\nexec " + filepath.Join(dir, "sluice-sink-other") + "\n"
	drop(t, dir, "other")
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.NewInstance(t.Context(), pluginapi.Config{}); err == nil || !strings.Contains(err.Error(), "is now other 1.0.0") {
		t.Errorf("error %v", err)
	}
}

func TestNothingStartsAfterClose(t *testing.T) {
	dir := t.TempDir()
	drop(t, dir, "good")
	c := NewCatalog(CatalogOptions{Dirs: []string{dir}})
	p, err := c.Resolve(t.Context(), "good", Pin{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := r.NewInstance(t.Context(), pluginapi.Config{}); !errors.Is(err, errClosed) {
		t.Errorf("after the runner's close: %v", err)
	}
	c.Close()
	c.Close()
	next, err := p.Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next.NewInstance(t.Context(), pluginapi.Config{}); !errors.Is(err, errClosed) {
		t.Errorf("after the catalog's close: %v", err)
	}
}
