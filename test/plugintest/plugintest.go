// Package plugintest makes the sinks of a plugin in each form a user can run them in, for the plugin's own tests. Their settings
// are written as a user writes them, and checked as the host does.
package plugintest

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice/loader"
	"github.com/sluicehq/sluice/loader/settings"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/sinktest"
	"github.com/sluicehq/sluice/test/sources"
)

// Maker makes a sink with these settings, not started yet. Settings the host would refuse fail the test.
type Maker func(t testing.TB, values map[string]any) sinktest.Sink

// Direct returns a maker of sinks that are called in this process.
func Direct(plugin pluginapi.Plugin) Maker {
	return func(t testing.TB, values map[string]any) sinktest.Sink {
		t.Helper()
		return sinktest.Adapt(plugin.New(), config(t, plugin, values))
	}
}

// Process builds ./sluice-sink-NAME of the test's folder and returns a maker of sinks that are a process each. They end with
// t, which must outlive the tests that use the maker.
func Process(t testing.TB, plugin pluginapi.Plugin) Maker {
	t.Helper()
	if err := sources.Note(); err != nil {
		t.Fatal(err)
	}
	dir, program := t.TempDir(), "sluice-sink-"+plugin.Name
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, program), "./"+program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	catalog := loader.NewCatalog(loader.CatalogOptions{Dirs: []string{dir}})
	t.Cleanup(catalog.Close)
	p, err := catalog.Resolve(t.Context(), "process:"+plugin.Name, loader.Pin{})
	if err != nil {
		t.Fatal(err)
	}
	runner, err := p.Open(t.Context(), loader.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runner.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return func(t testing.TB, values map[string]any) sinktest.Sink {
		t.Helper()
		s, err := runner.NewIsolated(t.Context(), config(t, plugin, values))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// EachForm runs test as "direct" with the maker of [Direct] and, with process, as "process" with that of [Process].
func EachForm(t *testing.T, plugin pluginapi.Plugin, process bool, test func(t *testing.T, newSink Maker)) {
	t.Helper()
	t.Run("direct", func(t *testing.T) { test(t, Direct(plugin)) })
	if process {
		t.Run("process", func(t *testing.T) { test(t, Process(t, plugin)) })
	}
}

// config is values checked as the host does.
func config(t testing.TB, plugin pluginapi.Plugin, values map[string]any) pluginapi.Config {
	t.Helper()
	values, problems := settings.CheckValues(plugin.Settings, values)
	for _, p := range problems {
		t.Fatal(p)
	}
	return pluginapi.Config{Connector: "c", Worker: "w", Values: values}
}

// ClosedAddress returns a host and port where nobody listens.
func ClosedAddress(t testing.TB) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
