package loader

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice/pluginapi"
)

// Runner runs the instances of one connector's plugin. It is safe for
// concurrent use.
type Runner struct {
	plugin *Plugin
	opts   Options
	form   formRunner
}

// formRunner makes the instances of one form.
type formRunner interface {
	// instance makes an instance, alone in its process or memory if isolated.
	instance(ctx context.Context, cfg pluginapi.Config, isolated bool) (formInstance, error)
	close(ctx context.Context) error
}

// Plugin returns what is run.
func (r *Runner) Plugin() *Plugin { return r.plugin }

// NewInstance makes an instance that will be started with cfg, whose values
// must have been checked against the plugin's description. It starts a process
// if the form has one and none is there or the one there has ended. A nil
// cfg.Logger is the runner's own.
func (r *Runner) NewInstance(ctx context.Context, cfg pluginapi.Config) (*Instance, error) {
	return r.make(ctx, cfg, false)
}

// NewIsolated makes an instance like NewInstance does, in a process of its own
// that ends with it: for records suspected of having crashed a shared one.
func (r *Runner) NewIsolated(ctx context.Context, cfg pluginapi.Config) (*Instance, error) {
	return r.make(ctx, cfg, true)
}

func (r *Runner) make(ctx context.Context, cfg pluginapi.Config, isolated bool) (*Instance, error) {
	if cfg.Logger == nil {
		cfg.Logger = r.opts.Logger.With("task", cfg.Task, "writer", cfg.Writer)
	}
	in, err := r.form.instance(ctx, cfg, isolated)
	if err != nil {
		return nil, fmt.Errorf("start plugin %s: %w", r.plugin, err)
	}
	return &Instance{form: in, plugin: r.plugin}, nil
}

// Close ends what the runner owns; instances still there are gone. It waits for
// processes until ctx ends, or the stop grace does, and then kills them.
func (r *Runner) Close(ctx context.Context) error {
	if err := r.form.close(ctx); err != nil {
		return fmt.Errorf("close plugin %s: %w", r.plugin, err)
	}
	return nil
}
