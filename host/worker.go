package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/host/metrics"
	"github.com/sluicehq/sluice/host/rest"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/sharetask"
)

// Options is what a worker is made of.
type Options struct {
	Config  *config.Config
	Bound   []*Bound // The connectors to run, as Bind returned them.
	Logger  *slog.Logger
	Version string
	Commit  string
}

// Worker runs connectors. It is made by New and run once.
type Worker struct {
	opts       Options
	log        *slog.Logger
	metrics    *metrics.Registry
	connectors []*connector
	listener   net.Listener
	stopping   atomic.Bool
	turn       *sharetask.Turn // Held by the task that puts a record at its last chance.
}

// New returns a worker that listens already, so that a port in use is known
// before anything is started. Close it if it is not run.
func New(ctx context.Context, opts Options) (*Worker, error) {
	cfg := opts.Config.Worker
	w := &Worker{
		opts: opts, metrics: metrics.New(opts.Version, opts.Commit),
		log: redacted(opts.Logger, opts.Config.Sources.Redact), turn: sharetask.NewTurn(),
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s (worker.listen): %w", cfg.Listen, err)
	}
	w.listener = l
	tasks := 0
	for _, b := range opts.Bound {
		tasks += b.def.Tasks
	}
	for _, b := range opts.Bound {
		w.connectors = append(w.connectors, w.connector(b, int(cfg.MemoryBytes)/max(1, tasks)))
	}
	return w, nil
}

// connector makes one connector of the worker.
func (w *Worker) connector(b *Bound, maxBytes int) *connector {
	log := w.log.With("connector", b.def.Name)
	c := &connector{
		def: b.def, bound: b, worker: w.opts.Config.Worker.ID, log: log, redact: w.opts.Config.Sources.Redact,
		stopTime: w.opts.Config.Worker.StopTimeout, maxBytes: maxBytes, turn: w.turn, state: sharetask.StateUnassigned,
		stateDir: w.opts.Config.Worker.StateDir,
		lag:      w.metrics.Lag(b.def.Name), scraped: make(chan struct{}, 1),
		lagOf: func() (lagReader, error) { return kafka.NewShareLag(b.kafka, b.def.GroupID) },
	}
	each := 1
	if b.def.GroupProtocol == config.GroupShare {
		each = b.def.Tasks // They share a member; what each adds is its writers.
	}
	for i := 0; i < b.def.Tasks; i += each {
		c.tasks = append(c.tasks, &taskSlot{
			number: i, tasks: each, metrics: w.metrics.Task(b.def.Name, i, each), log: log.With("task", i),
		})
	}
	return c
}

// Addr returns the address the worker listens on.
func (w *Worker) Addr() string { return w.listener.Addr().String() }

// Close closes the listener of a worker that is not run.
func (w *Worker) Close() error { return w.listener.Close() }

// Run runs the connectors until ctx ends, then stops them in order, each
// within worker.stop_timeout, and the listener last. It returns nil after an
// ordered stop.
func (w *Worker) Run(ctx context.Context) error {
	api := rest.New(w, rest.About{Version: w.opts.Version, Commit: w.opts.Commit}, w.metricsHandler(), w.log)
	server := rest.Listener(api)
	served := make(chan error, 1)
	go func() { served <- server.Serve(w.listener) }()
	w.log.Info("worker started", "version", w.opts.Version, "listen", w.Addr(), "connectors", len(w.connectors))

	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for _, c := range w.connectors {
		wg.Go(func() { c.run(runCtx) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
		served <- http.ErrServerClosed // For the wait below.
		err = fmt.Errorf("serve HTTP: %w", err)
	}
	w.stopping.Store(true)
	w.log.Info("worker stopping", "within", w.opts.Config.Worker.StopTimeout.String())
	cancel()
	wg.Wait()
	shutdown, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	if serr := server.Shutdown(shutdown); serr != nil {
		err = errors.Join(err, fmt.Errorf("stop HTTP: %w", serr))
	}
	if serr := <-served; err == nil && !errors.Is(serr, http.ErrServerClosed) {
		err = fmt.Errorf("serve HTTP: %w", serr)
	}
	w.log.Info("worker stopped")
	return err
}

// metricsHandler serves the metrics, with the tasks' states as they are when
// it is asked.
func (w *Worker) metricsHandler() http.Handler {
	next := w.metrics.Handler()
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		for _, c := range w.connectors {
			c.measure()
		}
		next.ServeHTTP(rw, r)
	})
}

// Connectors returns the names of the connectors, sorted.
func (w *Worker) Connectors() []string {
	names := make([]string, 0, len(w.connectors))
	for _, c := range w.connectors {
		names = append(names, c.def.Name)
	}
	slices.Sort(names)
	return names
}

// Connector returns one connector's definition and status.
func (w *Worker) Connector(name string) (rest.Info, rest.Status, bool) {
	c := w.connectorNamed(name)
	if c == nil {
		return rest.Info{}, rest.Status{}, false
	}
	return c.info(), c.status(), true
}

func (w *Worker) connectorNamed(name string) *connector {
	for _, c := range w.connectors {
		if c.def.Name == name {
			return c
		}
	}
	return nil
}

// Pause pauses a connector, or resumes it. It does not wait.
func (w *Worker) Pause(name string, on bool) bool {
	c := w.connectorNamed(name)
	if c != nil {
		c.pause(on)
	}
	return c != nil
}

// Restart starts a connector again, or only what has failed of it. It does not
// wait.
func (w *Worker) Restart(name string, onlyFailed bool) (rest.Status, bool) {
	c := w.connectorNamed(name)
	if c == nil {
		return rest.Status{}, false
	}
	before := c.status()
	all, slots := c.restart(onlyFailed)
	return before.Restarting(all, func(task int) bool {
		return slices.ContainsFunc(slots, func(s *taskSlot) bool { return s.has(task) })
	}), true
}

// RestartTask starts a task again, with those that share its membership. It
// does not wait.
func (w *Worker) RestartTask(name string, task int) (connector, found bool) {
	c := w.connectorNamed(name)
	if c == nil {
		return false, false
	}
	for _, slot := range c.tasks {
		if slot.has(task) {
			slot.restart()
			return true, true
		}
	}
	return true, false
}

// Healthy returns an error once the worker is stopping.
func (w *Worker) Healthy() error {
	if w.stopping.Load() {
		return errors.New("the worker is stopping")
	}
	return nil
}
