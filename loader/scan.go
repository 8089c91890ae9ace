package loader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/sluicehq/sluice/pluginapi"
)

// processPrefix and wasmSuffix mark plugins in a directory.
const (
	processPrefix = "sluice-sink-"
	wasmSuffix    = ".wasm"
)

// Bounds of a scan.
const (
	maxFiles  = 1000 // Files taken from one directory.
	scanAtOne = 4    // Files asked at the same time.
)

// candidate is a file that looks like a plugin.
type candidate struct {
	path string
	name string // As the file's name says.
	form Form
	info fs.FileInfo
}

// stamp tells whether a file has changed.
type stamp struct {
	size    int64
	changed time.Time
	mode    fs.FileMode
}

// described is what a file said, or why it could not be asked.
type described struct {
	stamp  stamp
	sha256 string
	desc   pluginapi.Description
	err    error
}

// scan returns all plugins, best first within a name, and what is wrong.
func (c *Catalog) scan(ctx context.Context, pins map[string]Pin) ([]*Plugin, []Problem) {
	var plugins []*Plugin
	var problems []Problem
	for i := range c.opts.Builtins {
		b := &c.opts.Builtins[i]
		p := &Plugin{Name: b.Name, Form: FormBuiltin, Description: b.Describe(), builtin: b, catalog: c}
		if err := c.usable(&p.Description); err != nil {
			problems = append(problems, Problem{Path: b.Name, Err: err})
			continue
		}
		plugins = append(plugins, p)
	}
	candidates, unreadable := c.candidates()
	problems = append(problems, unreadable...)
	asked := make([]described, len(candidates))
	var wg sync.WaitGroup
	room := make(chan struct{}, scanAtOne)
	for i := range candidates {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			asked[i] = c.ask(ctx, &candidates[i], pinOf(pins, candidates[i].name).SHA256)
		})
	}
	wg.Wait()
	for i := range candidates {
		f, d := &candidates[i], &asked[i]
		if d.err != nil {
			problems = append(problems, Problem{Path: f.path, Err: d.err})
			continue
		}
		plugins = append(plugins, &Plugin{
			Name: d.desc.Name, Form: f.form, Path: f.path, SHA256: d.sha256, Description: d.desc, catalog: c,
		})
	}
	slices.SortStableFunc(plugins, func(a, b *Plugin) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		return better(a, b)
	})
	return plugins, problems
}

// versionSuffix is what a file's name may have after the plugin's: "-1.2.0".
var versionSuffix = regexp.MustCompile(`-v?[0-9].*$`)

// pinOf returns the pin for a file of that name.
func pinOf(pins map[string]Pin, name string) Pin {
	if pin, ok := pins[name]; ok {
		return pin
	}
	return pins[versionSuffix.ReplaceAllString(name, "")]
}

// better orders plugins of one name: the higher version first, and of equal
// ones builtin, process, wasm.
func better(a, b *Plugin) int {
	va, errA := version.NewSemver(a.Description.Version)
	vb, errB := version.NewSemver(b.Description.Version)
	if errA == nil && errB == nil {
		if order := vb.Compare(va); order != 0 {
			return order
		}
	}
	rank := map[Form]int{FormBuiltin: 0, FormProcess: 1, FormWASM: 2}
	return rank[a.Form] - rank[b.Form]
}

// candidates lists the files that look like plugins.
func (c *Catalog) candidates() ([]candidate, []Problem) {
	var found []candidate
	var problems []Problem
	for _, dir := range c.opts.Dirs {
		dir, err := filepath.Abs(dir)
		if err != nil {
			problems = append(problems, Problem{Path: dir, Err: fmt.Errorf("read plugin directory: %w", err)})
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			problems = append(problems, Problem{Path: dir, Err: fmt.Errorf("read plugin directory: %w", err)})
			continue
		}
		n := 0
		for _, e := range entries {
			f := candidate{path: filepath.Join(dir, e.Name())}
			if name, ok := strings.CutPrefix(e.Name(), processPrefix); ok {
				f.form, f.name = FormProcess, name
			} else if name, ok := strings.CutSuffix(e.Name(), wasmSuffix); ok {
				f.form, f.name = FormWASM, name
			} else {
				continue
			}
			if f.info, err = os.Stat(f.path); err != nil {
				problems = append(problems, Problem{Path: f.path, Err: fmt.Errorf("read plugin file: %w", err)})
				continue
			}
			if !f.info.Mode().IsRegular() {
				continue
			}
			if n++; n > maxFiles {
				problems = append(problems, Problem{Path: dir, Err: fmt.Errorf("read plugin directory: more than %d plugins", maxFiles)})
				break
			}
			found = append(found, f)
		}
	}
	return found, problems
}

// ask returns what a file says of itself. pinned is the checksum it must have
// to be run, or empty.
func (c *Catalog) ask(ctx context.Context, f *candidate, pinned string) described {
	d := described{stamp: stamp{size: f.info.Size(), changed: f.info.ModTime(), mode: f.info.Mode()}}
	c.mu.Lock()
	known, ok := c.known[f.path]
	c.mu.Unlock()
	if ok && known.stamp == d.stamp {
		if pinned != "" && !strings.EqualFold(known.sha256, pinned) {
			known.err = checksumError(known.sha256, pinned)
		}
		return known
	}
	if f.form == FormProcess && f.info.Mode().Perm()&0o111 == 0 {
		d.err = errors.New("it is not executable; try: chmod +x " + f.path)
		return d
	}
	if d.sha256, d.err = checksum(f.path); d.err != nil {
		return d
	}
	if pinned != "" && !strings.EqualFold(d.sha256, pinned) {
		d.err = checksumError(d.sha256, pinned)
		return d
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.DescribeTimeout)
	defer cancel()
	d.desc, d.err = c.describe(ctx, f, d.sha256, pinned != "")
	if d.err == nil {
		d.err = c.usable(&d.desc)
	}
	if d.err != nil {
		return d // Asked again next time: it may have been the machine's fault.
	}
	c.mu.Lock()
	c.known[f.path] = d
	c.mu.Unlock()
	return d
}

func checksumError(got, want string) error {
	return fmt.Errorf("%w: it is %s, pinned is %s", ErrChecksum, got, want)
}

// describe runs a file for its description; if it is pinned, only with the
// checksum.
func (c *Catalog) describe(ctx context.Context, f *candidate, sha256 string, pinned bool) (pluginapi.Description, error) {
	opts := Options{Logger: c.opts.Logger.With("plugin", f.name), StartTimeout: c.opts.DescribeTimeout}.withDefaults()
	p := &Plugin{Name: f.name, Form: f.form, Path: f.path, SHA256: sha256, pinned: pinned, catalog: c}
	if f.form == FormWASM {
		r, err := openWASM(ctx, p, opts)
		if err != nil {
			return pluginapi.Description{}, err
		}
		defer r.module.Close(context.WithoutCancel(ctx)) //nolint:errcheck // Nothing is left of it.
		return r.module.Describe(ctx)
	}
	s := newSpec(p, opts)
	process, err := startProcess(ctx, c.launcher, c.processes.Add(1), &s)
	if err != nil {
		return pluginapi.Description{}, err
	}
	desc := process.desc
	process.stop(ctx)
	return desc, nil
}

// usable checks that this host can run what describes itself so.
func (c *Catalog) usable(d *pluginapi.Description) error {
	if err := d.Validate(); err != nil {
		return err
	}
	if _, err := version.NewSemver(d.Version); err != nil {
		return fmt.Errorf("plugin %s: version %q is no semantic version", d.Name, d.Version)
	}
	if d.MinHost == "" {
		return nil
	}
	least, err := version.NewSemver(d.MinHost)
	if err != nil {
		return fmt.Errorf("plugin %s: lowest host version %q is no semantic version", d.Name, d.MinHost)
	}
	host, err := version.NewSemver(c.opts.HostVersion)
	if err == nil && host.Core().LessThan(least) {
		return fmt.Errorf("plugin %s %s needs a host of version %s, this is %s", d.Name, d.Version, d.MinHost, c.opts.HostVersion)
	}
	return nil
}
