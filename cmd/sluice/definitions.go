package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sluicehq/sluice/host"
	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/internal/version"
	"github.com/sluicehq/sluice/loader"
)

// definitions is what the files say, bound to the plugins they name.
type definitions struct {
	config  *config.Config
	catalog *loader.Catalog
	bound   []*host.Bound
	diags   config.Diagnostics
}

// readDefinitions reads paths, finds the plugins and binds the connectors. It
// never fails: what is wrong is in diags. dev is the embedded broker's
// bootstrap, if there is one.
func readDefinitions(ctx context.Context, paths, dev []string, log *slog.Logger) *definitions {
	cfg, diags := config.Load(paths, config.Env{Dev: len(dev) > 0})
	d := &definitions{config: cfg, diags: diags}
	d.catalog = newCatalog(cfg.Worker.PluginPath, filepath.Join(cfg.Worker.StateDir, "modules"), pins(cfg), log)
	_, problems := d.catalog.Scan(ctx)
	d.diags = append(d.diags, host.PluginProblems(cfg, problems)...)
	bound, diags := host.Bind(ctx, cfg, d.catalog, dev)
	d.bound = bound
	d.diags = append(d.diags, diags...)
	return d
}

// print writes the diagnostics for people.
func (d *definitions) print(w io.Writer) {
	if len(d.diags) > 0 {
		// There is nowhere to report a failure to print.
		_ = config.Format(w, d.diags, d.config.Sources, isTerminal(os.Stderr))
	}
}

// pins maps the plugin blocks to what the catalog wants of their files.
func pins(cfg *config.Config) map[string]loader.Pin {
	out := make(map[string]loader.Pin, len(cfg.Plugins))
	for name, p := range cfg.Plugins {
		out[name] = loader.Pin{Version: p.Version, SHA256: p.SHA256}
	}
	return out
}

// newCatalog returns the catalog of the compiled-in sinks and the plugin
// directories.
func newCatalog(dirs []string, cacheDir string, pins map[string]loader.Pin, log *slog.Logger) *loader.Catalog {
	return loader.NewCatalog(loader.CatalogOptions{
		Builtins: builtins(), Dirs: dirs, CacheDir: cacheDir, Pins: pins,
		HostVersion: version.Get().Version, Logger: log,
	})
}
