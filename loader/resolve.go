package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/sluicehq/sluice/loader/settings"
)

// Resolve returns the plugin that name stands for: "jdbc", or with a form
// "process:jdbc". Of several the highest version that pin allows is taken; of
// equal ones a builtin before a process before a module, then the directory
// listed first. A pin that is not zero replaces the catalog's own for this name.
//
// It scans as Scan does. The error wraps [ErrNotFound] if there is no such
// plugin, with what is wrong with files of that name and what may have been
// meant.
func (c *Catalog) Resolve(ctx context.Context, name string, pin Pin) (*Plugin, error) {
	form, bare := splitName(name)
	switch form {
	case "", FormBuiltin, FormProcess, FormWASM:
	default:
		return nil, fmt.Errorf("resolve plugin %q: %w: a form is builtin, process or wasm", name, ErrNotFound)
	}
	pins := maps.Clone(c.opts.Pins)
	if pins == nil {
		pins = make(map[string]Pin)
	}
	if pin != (Pin{}) {
		pins[bare] = pin
	}
	pin = pins[bare]
	var allowed version.Constraints
	if pin.Version != "" {
		var err error
		if allowed, err = version.NewConstraint(pin.Version); err != nil {
			return nil, fmt.Errorf("resolve plugin %q: version constraint %q: %w", name, pin.Version, err)
		}
	}
	plugins, problems := c.scan(ctx, pins)
	var refused []string
	for _, p := range plugins {
		if p.Name != bare || form != "" && p.Form != form {
			continue
		}
		if why := refuse(p, pin, allowed); why != "" {
			refused = append(refused, why)
			continue
		}
		p.pinned = pin.SHA256 != ""
		return p, nil
	}
	return nil, c.notFound(name, bare, plugins, problems, refused)
}

// splitName splits "process:jdbc"; a bare name has no form.
func splitName(name string) (Form, string) {
	if form, bare, ok := strings.Cut(name, ":"); ok {
		return Form(form), bare
	}
	return "", name
}

// refuse returns why the pin does not allow p, or nothing.
func refuse(p *Plugin, pin Pin, allowed version.Constraints) string {
	if pin.SHA256 != "" && !strings.EqualFold(p.SHA256, pin.SHA256) {
		if p.Form == FormBuiltin {
			return "the builtin has no checksum"
		}
		return fmt.Sprintf("%s has checksum %s, not the pinned %s", p.Path, p.SHA256, pin.SHA256)
	}
	if allowed == nil {
		return ""
	}
	v, err := version.NewSemver(p.Description.Version)
	if err != nil || !allowed.Check(v) {
		return fmt.Sprintf("%s is not %q", p, pin.Version)
	}
	return ""
}

// notFound says why a name stands for no plugin.
func (c *Catalog) notFound(name, bare string, plugins []*Plugin, problems []Problem, refused []string) error {
	var causes []error
	for _, why := range refused {
		causes = append(causes, errors.New(why))
	}
	for _, p := range problems {
		if fileNames(p.Path, bare) {
			causes = append(causes, fmt.Errorf("%s: %w", p.Path, p.Err))
		}
	}
	if len(causes) > 0 {
		return fmt.Errorf("resolve plugin %q: %w that can be used: %w", name, ErrNotFound, errors.Join(causes...))
	}
	names := make([]string, 0, len(plugins))
	for _, p := range plugins {
		if p.Name == bare {
			return fmt.Errorf("resolve plugin %q: %w, but there is %s", name, ErrNotFound, p)
		}
		names = append(names, p.Name)
	}
	names = slices.Compact(names)
	if near := settings.Suggest(bare, names); near != "" {
		return fmt.Errorf("resolve plugin %q: %w; did you mean %q?", name, ErrNotFound, near)
	}
	if len(names) == 0 {
		return fmt.Errorf("resolve plugin %q: %w; there are none in %s", name, ErrNotFound, strings.Join(c.opts.Dirs, ", "))
	}
	return fmt.Errorf("resolve plugin %q: %w; there are %s", name, ErrNotFound, strings.Join(names, ", "))
}

// fileNames reports whether a path is that of a plugin called name, as far as
// the file's name tells.
func fileNames(path, name string) bool {
	file := path[strings.LastIndexByte(path, '/')+1:]
	file = strings.TrimSuffix(strings.TrimPrefix(file, processPrefix), wasmSuffix)
	return file == name || versionSuffix.ReplaceAllString(file, "") == name
}
