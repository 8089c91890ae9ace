package loader

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// Form is how a plugin runs.
type Form string

// The forms, by the names that force one ("process:jdbc").
const (
	FormBuiltin Form = "builtin"
	FormProcess Form = "process"
	FormWASM    Form = "wasm"
)

// Plugin is a sink plugin that was found and described. It is read only and
// safe for concurrent use.
type Plugin struct {
	Name        string
	Form        Form
	Path        string // Absolute path of its file; empty for a builtin.
	SHA256      string // Of the file, in lower-case hexadecimal; empty for a builtin.
	Description pluginapi.Description

	builtin *pluginapi.Plugin
	pinned  bool // The file must have SHA256 whenever it is started.
	catalog *Catalog
}

// String returns the plugin's name with its form and version.
func (p *Plugin) String() string {
	return fmt.Sprintf("%s:%s %s", p.Form, p.Name, p.Description.Version)
}

// Options are how one connector wants its plugin run. The zero value is usable.
type Options struct {
	// Logger gets the plugin's output and log records, with the attribute
	// plugin added. Nil discards.
	Logger *slog.Logger

	// Processes is how many processes the instances of a process plugin are
	// spread over; 0 means 1.
	Processes int
	// Env is set in the environment of a process plugin.
	Env map[string]string
	// InheritEnv are globs (path.Match) of variables a process plugin gets
	// from the worker's environment, beyond PATH, HOME, TMPDIR, LANG and TZ.
	InheritEnv []string

	// MemoryBytes limits the memory of a WASM instance (0 means 64 MiB) or, on
	// Linux, the data of a plugin process (0 means no limit).
	MemoryBytes int64
	// AllowHosts are the hosts ("api.example:443") a WASM plugin may call.
	AllowHosts []string

	// StartTimeout is how long a process may take from its start to its
	// description; 0 means 30 s.
	StartTimeout time.Duration
	// PutGrace is how long a method may go on after its context ended, before
	// the instance, and with it its process, is given up; 0 means 2 s.
	PutGrace time.Duration
	// StopGrace is how long a process may take to end by itself; 0 means 5 s.
	StopGrace time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Processes = max(o.Processes, 1)
	setDefault(&o.StartTimeout, 30*time.Second)
	setDefault(&o.PutGrace, 2*time.Second)
	setDefault(&o.StopGrace, 5*time.Second)
	return o
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d <= 0 {
		*d = to
	}
}

// Open prepares the plugin for one connector. A module is compiled now; a
// process starts with the first instance. ctx bounds Open only.
func (p *Plugin) Open(ctx context.Context, opts Options) (*Runner, error) {
	opts = opts.withDefaults()
	opts.Logger = opts.Logger.With("plugin", p.Name)
	r := &Runner{plugin: p, opts: opts}
	switch p.Form {
	case FormBuiltin:
		r.form = &builtinRunner{plugin: p.builtin, opts: opts, host: p.catalog}
	case FormProcess:
		r.form = newProcessRunner(p, opts)
	case FormWASM:
		w, err := openWASM(ctx, p, opts)
		if err != nil {
			return nil, fmt.Errorf("open plugin %s: %w", p, err)
		}
		r.form = w
	default:
		return nil, fmt.Errorf("open plugin %s: form %q is not known", p.Name, p.Form)
	}
	return r, nil
}
