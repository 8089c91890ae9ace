package loader

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluicehq/sluice/loader/settings"
	"github.com/sluicehq/sluice/pluginapi"
)

// processRunner spreads instances over processes and replaces those that ended.
type processRunner struct {
	plugin *Plugin
	spec   spec

	mu     sync.Mutex
	slots  []slot            // Guarded by mu.
	alone  map[*process]bool // Guarded by mu: processes of isolated instances.
	closed bool              // Guarded by mu.
}

// slot is a place for a process that instances share.
type slot struct {
	process  *process      // The last one started; may have ended.
	starting chan struct{} // Closed when the start under way is over; nil without one.
	live     int           // Instances placed here and not stopped.
}

func newProcessRunner(p *Plugin, opts Options) *processRunner {
	return &processRunner{
		plugin: p, spec: newSpec(p, opts), slots: make([]slot, opts.Processes), alone: make(map[*process]bool),
	}
}

func (r *processRunner) instance(ctx context.Context, cfg pluginapi.Config, isolated bool) (formInstance, error) {
	var p *process
	var err error
	release := func() {}
	if isolated {
		p, err = r.startAlone(ctx)
	} else {
		var at int
		at, p, err = r.place(ctx)
		release = func() { r.leave(at) }
	}
	if err != nil {
		return nil, err
	}
	p.output.hide(settings.Secrets(r.plugin.Description.Settings, cfg.Values))
	return newProcessInstance(p, cfg, isolated, release), nil
}

// start starts a process and checks that it is still the plugin that was found.
func (r *processRunner) start(ctx context.Context) (*process, error) {
	c := r.plugin.catalog
	p, err := startProcess(ctx, c.launcher, c.processes.Add(1), &r.spec)
	if err != nil {
		return nil, err
	}
	want := &r.plugin.Description
	if p.desc.Name != want.Name || p.desc.Version != want.Version {
		p.kill("it is another plugin")
		<-p.exited
		return nil, fmt.Errorf("%s is now %s %s: the worker must look for plugins again", r.plugin.Path, p.desc.Name, p.desc.Version)
	}
	return p, nil
}

func (r *processRunner) startAlone(ctx context.Context) (*process, error) {
	p, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		p.kill("its connector was closed")
		return nil, errClosed
	}
	r.alone[p] = true
	go func() {
		<-p.exited
		r.mu.Lock()
		delete(r.alone, p)
		r.mu.Unlock()
	}()
	return p, nil
}

// place finds the emptiest slot and returns its process, which it starts if
// none is alive. Others that come meanwhile wait for that start.
func (r *processRunner) place(ctx context.Context) (int, *process, error) {
	r.mu.Lock()
	at := 0
	for i := range r.slots {
		if r.slots[i].live < r.slots[at].live {
			at = i
		}
	}
	s := &r.slots[at]
	s.live++
	for {
		if r.closed {
			s.live--
			r.mu.Unlock()
			return 0, nil, errClosed
		}
		if s.process != nil && s.process.alive() {
			defer r.mu.Unlock()
			return at, s.process, nil
		}
		if s.starting == nil {
			break
		}
		wait := s.starting
		r.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			r.leave(at)
			return 0, nil, ctx.Err()
		}
		r.mu.Lock()
	}
	s.starting = make(chan struct{})
	r.mu.Unlock()
	p, err := r.start(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	close(s.starting)
	s.starting = nil
	if err == nil && r.closed {
		p.kill("its connector was closed")
		err = errClosed
	}
	if err != nil {
		s.live--
		return 0, nil, err
	}
	s.process = p
	return at, p, nil
}

// leave frees the place of an instance.
func (r *processRunner) leave(at int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots[at].live--
}

// close stops every process.
func (r *processRunner) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	var all []*process
	for i := range r.slots {
		if p := r.slots[i].process; p != nil {
			all = append(all, p)
		}
	}
	for p := range r.alone {
		all = append(all, p)
	}
	r.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() { p.stop(ctx) })
	}
	wg.Wait()
	return nil
}
