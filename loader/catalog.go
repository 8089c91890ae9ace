package loader

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// CatalogOptions say where plugins are. The zero value finds none.
type CatalogOptions struct {
	// Builtins are the plugins compiled into the worker.
	Builtins []pluginapi.Plugin
	// Dirs are the drop-in directories. Executable files called
	// sluice-sink-NAME and files called NAME.wasm are plugins; other files are
	// none of the catalog's business. Directories in them are not looked into.
	Dirs []string
	// Pins are the pins of plugins, by name. A file whose name says that it is
	// a pinned plugin, with or without a version ("-1.2.0") behind, is not run,
	// not even for its description, if it has another checksum.
	Pins map[string]Pin
	// CacheDir keeps compiled modules; empty keeps none.
	CacheDir string
	// HostVersion is compared with the lowest host version a plugin asks for;
	// empty, or no semantic version, means any is enough.
	HostVersion string
	// DescribeTimeout is how long a file may take to describe itself; 0 means
	// 20 s.
	DescribeTimeout time.Duration
	// Logger gets what plugins write while they are asked. Nil discards.
	Logger *slog.Logger
}

// Pin narrows which file a name stands for.
type Pin struct {
	// Version is a constraint like "~> 1.2" or ">= 1.0, < 2.0"; empty means any.
	Version string
	// SHA256 is the file's checksum in hexadecimal; empty means any. No builtin
	// has one.
	SHA256 string
}

// Catalog finds plugins and owns what their processes share. It is safe for
// concurrent use.
type Catalog struct {
	opts      CatalogOptions
	launcher  *launcher
	processes atomic.Uint64 // Number of the last process, or instance without one.

	mu    sync.Mutex
	known map[string]described // Guarded by mu: what files said, by path.
}

// NewCatalog returns a catalog. It looks at nothing yet.
func NewCatalog(opts CatalogOptions) *Catalog {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&opts.DescribeTimeout, 20*time.Second)
	return &Catalog{opts: opts, launcher: newLauncher(opts.Logger), known: make(map[string]described)}
}

// Close ends what the catalog started. The runners of its plugins must have
// been closed; it waits for their processes.
func (c *Catalog) Close() { c.launcher.close() }

// Found is a plugin that can be used.
type Found struct {
	*Plugin
	// Default means that the plugin's bare name stands for this one.
	Default bool
}

// Problem is a file that looks like a plugin and cannot be used, or a directory
// that cannot be read. It blocks nothing else.
type Problem struct {
	Path string // Of the file; the name of a builtin.
	Err  error
}

// String returns the path and what is wrong.
func (p Problem) String() string { return p.Path + ": " + p.Err.Error() }

// Scan looks for plugins and asks each file for its description, unless it has
// not changed since the last time. The plugins are in order of name, then the
// one its name stands for first. ctx bounds the whole scan; files not asked by
// then are problems.
func (c *Catalog) Scan(ctx context.Context) ([]Found, []Problem) {
	plugins, problems := c.scan(ctx, c.opts.Pins)
	found := make([]Found, 0, len(plugins))
	for i, p := range plugins {
		found = append(found, Found{Plugin: p, Default: i == 0 || plugins[i-1].Name != p.Name})
	}
	return found, problems
}
