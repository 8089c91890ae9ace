package s3

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice/loader"
	loadersettings "github.com/sluicehq/sluice/loader/settings"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/sinktest"
)

// maker makes sinks in one form, with settings as a user writes them.
type maker func(t testing.TB, values map[string]any) sinktest.Sink

// eachForm runs test with the sink called directly and, with process, as a process, where each instance is one of its own.
func eachForm(t *testing.T, process bool, test func(t *testing.T, newSink maker)) {
	t.Helper()
	plugin := Plugin()
	checked := func(t testing.TB, values map[string]any) pluginapi.Config {
		t.Helper()
		values, problems := loadersettings.CheckValues(plugin.Settings, values)
		for _, p := range problems {
			t.Fatal(p)
		}
		return pluginapi.Config{Connector: "c", Worker: "w", Values: values}
	}
	t.Run("direct", func(t *testing.T) {
		test(t, func(t testing.TB, values map[string]any) sinktest.Sink {
			return sinktest.Adapt(plugin.New(), checked(t, values))
		})
	})
	if !process {
		return
	}
	t.Run("process", func(t *testing.T) {
		dir := t.TempDir()
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "sluice-sink-"+plugin.Name), "./sluice-sink-"+plugin.Name)
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
		test(t, func(t testing.TB, values map[string]any) sinktest.Sink {
			s, err := runner.NewIsolated(t.Context(), checked(t, values))
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
}
