package drop_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice/loader"
	"github.com/sluicehq/sluice/loader/settings"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/sinktest"
	"github.com/sluicehq/sluice/plugins/drop"
)

// maker makes sinks in one form, with settings as a user writes them.
type maker func(t testing.TB, values map[string]any) sinktest.Sink

// config is values checked as the host does.
func config(t testing.TB, values map[string]any) pluginapi.Config {
	t.Helper()
	values, problems := settings.CheckValues(drop.Plugin().Settings, values)
	for _, p := range problems {
		t.Fatal(p)
	}
	return pluginapi.Config{Connector: "c", Worker: "w", Values: values}
}

// direct makes sinks that are called in this process.
func direct(t testing.TB, values map[string]any) sinktest.Sink {
	t.Helper()
	plugin := drop.Plugin()
	return sinktest.Adapt(plugin.New(), config(t, values))
}

// process builds the plugin and returns a maker of sinks that are a process each.
func process(t *testing.T) maker {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "sluice-sink-drop"), "./sluice-sink-drop")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	catalog := loader.NewCatalog(loader.CatalogOptions{Dirs: []string{dir}})
	t.Cleanup(catalog.Close)
	p, err := catalog.Resolve(t.Context(), "process:drop", loader.Pin{})
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
		s, err := runner.NewIsolated(t.Context(), config(t, values))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}
