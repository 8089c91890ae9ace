package host

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/host/metrics"
	"github.com/sluicehq/sluice/host/rest"
	"github.com/sluicehq/sluice/loader"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// connector runs one definition: it prepares the group and topics, then keeps
// its tasks running.
type connector struct {
	def      *config.Connector
	bound    *Bound
	worker   string
	stateDir string // Where members' ids are kept; empty keeps none.
	log      *slog.Logger
	redact   func(string) string // Blots secrets out of what is shown.
	stopTime time.Duration
	maxBytes int             // Of records held, per task.
	turn     *sharetask.Turn // The worker's, for records at their last chance.
	lag      *metrics.Lag
	lagOf    func() (lagReader, error) // Of a share group.
	scraped  chan struct{}             // Capacity 1: the metrics were asked for.

	mu     sync.Mutex
	state  sharetask.State // Of the connector itself. Guarded by mu.
	err    error           // Why it is not running. Guarded by mu.
	paused bool            // Guarded by mu.
	again  *restart        // Ends the session under way, for another. Guarded by mu.
	tasks  []*taskSlot     // Set once by Worker.connector.
}

// taskSlot is one member of the group over all its restarts: one task in a
// consumer group, all the connector's tasks of this worker in a share group.
type taskSlot struct {
	number  int // Of the first task.
	tasks   int
	metrics *metrics.Task
	log     *slog.Logger

	mu     sync.Mutex
	task   runnable    // The current one; nil before the first. Guarded by mu.
	lag    lagging     // Its source, in a consumer group. Guarded by mu.
	member *heldMember // Of a share group; owned by what runs the slot.
	err    error       // Why the last one ended. Guarded by mu.
	over   bool        // FAILED for good. Guarded by mu.
	paused bool        // Guarded by mu.
	// again ends the task under way, for another. Guarded by mu.
	again *restart
}

// runnable is a [sharetask.Task] as the supervisor sees it.
type runnable interface {
	Run(ctx context.Context) error
	Status() sharetask.Status
	Pause()
	Resume()
}

// restart is the life of a session or task that can be ended for another one.
type restart struct {
	ctx    context.Context //nolint:containedctx // A life.
	cancel context.CancelFunc
	asked  atomic.Bool
}

func newRestart(ctx context.Context) *restart {
	r := &restart{}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// ask ends it for another one. A nil restart is between two.
func (r *restart) ask() {
	if r != nil {
		r.asked.Store(true)
		r.cancel()
	}
}

// run prepares the connector and runs its tasks until ctx ends.
func (c *connector) run(ctx context.Context) {
	var backoff restartBackoff
	for ctx.Err() == nil {
		start := time.Now()
		life := newRestart(ctx)
		c.live(life)
		err := c.session(life.ctx)
		switch {
		case ctx.Err() != nil, life.asked.Load():
		case permanent(err):
			c.set(sharetask.StateFailed, err)
			c.log.Error("connector failed", "err", err)
			<-life.ctx.Done()
		default:
			c.set(sharetask.StateUnassigned, err)
			c.log.Warn("connector not started, trying again", "err", err)
			backoff.wait(life.ctx, time.Since(start))
		}
		life.cancel()
		if life.asked.Load() {
			backoff = restartBackoff{}
			c.set(sharetask.StateUnassigned, nil)
			c.log.Info("connector restarting")
		}
	}
}

func (c *connector) live(life *restart) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.again = life
}

// pause pauses the connector's tasks, or resumes them, now and after restarts.
func (c *connector) pause(on bool) {
	c.mu.Lock()
	c.paused = on
	c.mu.Unlock()
	for _, slot := range c.tasks {
		slot.pause(on)
	}
}

// restart starts the connector again with all its tasks, or only what has
// failed of it. It reports what it starts again.
func (c *connector) restart(onlyFailed bool) (all bool, tasks []*taskSlot) {
	c.mu.Lock()
	failed, life := c.state == sharetask.StateFailed, c.again
	c.mu.Unlock()
	if !onlyFailed || failed {
		life.ask()
		return true, c.tasks
	}
	for _, slot := range c.tasks {
		if slot.failed() {
			slot.restart()
			tasks = append(tasks, slot)
		}
	}
	return false, tasks
}

// pause pauses the slot's task, and those that follow it.
func (slot *taskSlot) pause(on bool) {
	slot.mu.Lock()
	defer slot.mu.Unlock()
	slot.paused = on
	switch {
	case slot.task == nil:
	case on:
		slot.task.Pause()
	default:
		slot.task.Resume()
	}
}

func (slot *taskSlot) restart() {
	slot.mu.Lock()
	life := slot.again
	slot.mu.Unlock()
	life.ask()
}

// has reports whether task is one of the slot's.
func (slot *taskSlot) has(task int) bool { return task >= slot.number && task < slot.number+slot.tasks }

// failed reports whether the slot's task is FAILED.
func (slot *taskSlot) failed() bool {
	return slot.status("", "").State == string(sharetask.StateFailed)
}

// session opens what the connector's tasks share and runs them. It returns
// when ctx ends, or with the error of what could not be opened.
func (c *connector) session(ctx context.Context) (err error) {
	shared, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.closeTime())
		defer cancel()
		err = errors.Join(err, shared.close(closeCtx))
	}()
	c.set(sharetask.StateRunning, nil)
	c.log.Info("connector started", "group", c.def.GroupID, "protocol", c.def.GroupProtocol, "tasks", c.def.Tasks)
	var wg sync.WaitGroup
	if d := c.def; d.GroupProtocol == config.GroupShare {
		wg.Go(func() { c.watchLag(ctx) })
	}
	for _, slot := range c.tasks {
		wg.Go(func() {
			defer slot.releaseMember()
			slot.supervise(ctx, func() (runnable, error) { return c.task(shared, slot) })
		})
	}
	wg.Wait()
	return nil
}

// closeTime is what of stop_timeout is left for closing what the tasks share.
func (c *connector) closeTime() time.Duration { return min(c.stopTime/5, 5*time.Second) }

// supervise runs one task, and another where that can help (docs/delivery.md),
// until ctx ends.
func (slot *taskSlot) supervise(ctx context.Context, next func() (runnable, error)) {
	var backoff restartBackoff
	for {
		start := time.Now()
		life := newRestart(ctx)
		task, err := next()
		if err == nil {
			slot.set(task, life, nil, false)
			err = task.Run(life.ctx)
		}
		switch {
		case ctx.Err() != nil, life.asked.Load():
			slot.set(nil, nil, err, false)
			if err != nil && !permanent(err) {
				slot.log.Warn("task stopped with an error", "err", err)
			}
		case permanent(err):
			slot.set(task, life, err, true)
			slot.log.Error("task failed", "err", err)
			<-life.ctx.Done()
		default:
			slot.set(task, life, err, false)
			slot.metrics.Restarted()
			slot.log.Warn("task ended, starting it again", "err", err)
			backoff.wait(life.ctx, time.Since(start))
		}
		life.cancel()
		if ctx.Err() != nil {
			return
		}
		if life.asked.Load() {
			backoff = restartBackoff{}
			slot.log.Info("task restarting")
		}
	}
}

// permanent reports whether err needs a person: settings, a group of another
// kind, a target that can never take the records.
func permanent(err error) bool {
	var failed *sharetask.FailedError
	var stop *stopError
	if errors.As(err, &failed) || errors.As(err, &stop) || errors.Is(err, sharetask.ErrGroupKind) ||
		errors.Is(err, loader.ErrChecksum) {
		return true
	}
	var e *pluginapi.Error
	return errors.As(err, &e) && (e.Class == pluginapi.Fatal || e.Class == pluginapi.Invalid)
}

// stopError marks an error that starting again does not mend.
type stopError struct{ err error }

// Error returns the cause's text.
func (e *stopError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *stopError) Unwrap() error { return e.err }

func (c *connector) set(s sharetask.State, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.err = s, err
}

func (slot *taskSlot) set(task runnable, life *restart, err error, over bool) {
	slot.mu.Lock()
	defer slot.mu.Unlock()
	slot.task, slot.again, slot.err, slot.over = task, life, err, over
	if slot.paused && task != nil {
		task.Pause()
	}
}

// status returns the state of its tasks as the API shows it.
func (slot *taskSlot) status(worker, version string) rest.TaskStatus {
	slot.mu.Lock()
	defer slot.mu.Unlock()
	out := rest.TaskStatus{ID: slot.number, State: string(sharetask.StateUnassigned), WorkerID: worker, Version: version}
	if slot.over {
		out.State = string(sharetask.StateFailed)
	} else if slot.task != nil && slot.err == nil {
		st := slot.task.Status()
		out.State, out.Degraded = string(st.State), st.Degraded
		if st.Err != nil {
			out.Trace = st.Err.Error()
		}
	}
	if slot.err != nil {
		out.Trace = slot.err.Error()
	}
	return out
}

// status returns the connector's state as the API shows it.
func (c *connector) status() rest.Status {
	c.mu.Lock()
	state, err := c.state, c.err
	if c.paused && state == sharetask.StateRunning {
		state = sharetask.StatePaused
	}
	c.mu.Unlock()
	version := c.bound.version()
	out := rest.Status{
		Name: c.def.Name, Type: "sink", Tasks: []rest.TaskStatus{},
		Connector: rest.ConnectorStatus{State: string(state), WorkerID: c.worker, Version: version},
	}
	if err != nil {
		out.Connector.Trace = c.redact(err.Error())
	}
	for _, s := range c.tasks {
		t := s.status(c.worker, version)
		t.Trace, t.Degraded = c.redact(t.Trace), c.redact(t.Degraded)
		for range s.tasks {
			out.Tasks = append(out.Tasks, t)
			t.ID++
		}
	}
	return out
}

// measure brings the metrics of the tasks' states up to date.
func (c *connector) measure() {
	for _, s := range c.tasks {
		t := s.status("", "")
		s.metrics.State(t.State == string(sharetask.StateRunning), t.Degraded != "")
	}
	c.measureLag()
}

// info returns the connector's definition as the API shows it.
func (c *connector) info() rest.Info {
	out := rest.Info{Name: c.def.Name, Type: "sink", Config: c.bound.properties(), Tasks: []rest.TaskID{}}
	for _, s := range c.tasks {
		for i := range s.tasks {
			out.Tasks = append(out.Tasks, rest.TaskID{Connector: c.def.Name, Task: s.number + i})
		}
	}
	return out
}

// task is where a definition becomes a task.
func (c *connector) task(shared *shared, slot *taskSlot) (runnable, error) {
	d := c.def
	source, err := shared.source(slot)
	if err != nil {
		return nil, err
	}
	slot.mu.Lock()
	slot.lag, _ = source.(lagging)
	slot.mu.Unlock()
	batch, writers := c.batch(), d.Parallelism*slot.tasks
	minOpen := minOpenRecords
	if d.GroupProtocol == config.GroupShare {
		minOpen = minOpenShared
	}
	cfg := sharetask.Config{
		Connector: d.Name, Number: slot.number,
		Source:   source,
		MakeSink: shared.sinks(slot.number, slot.log),
		Metrics:  slot.metrics, Logger: slot.log,
		Ordered:     d.GroupProtocol == config.GroupConsumer,
		Parallelism: writers,
		Batch:       sharetask.BatchPolicy{MaxRecords: batch, MaxBytes: int(d.Batch.MaxBytes), MaxWait: d.Batch.MaxWait, OnePartition: d.DeliverySemantics == config.ExactlyOnce},
		Retry:       sharetask.RetryPolicy{Initial: d.Retry.Initial, Max: d.Retry.Max, MaxElapsed: d.Retry.MaxElapsed},
		Breaker:     sharetask.BreakerPolicy{Failures: d.Breaker.Failures, Max: d.Breaker.Max},
		Isolate:     sharetask.IsolatePolicy{Attempts: d.Isolate.Attempts},
		CanCheck:    c.bound.plugin.Description.Can(pluginapi.CanCheck),
		Written:     shared.written, Survived: shared.survived, Turn: c.turn,
		Tolerance: sharetask.Tolerance(d.Errors.Tolerance), LogErrors: d.Errors.Log,
		PutTimeout: shared.putTimeout, StartTimeout: startTimeout, StopTimeout: c.stopTime - c.closeTime(),
		MaxOpenRecords: max(2*batch*writers, minOpen),
		MaxOpenBytes:   max(c.maxBytes*slot.tasks, int(d.Batch.MaxBytes)),
	}
	if c.bound.chain != nil {
		cfg.Convert = converter{c.bound.chain}
	}
	if shared.queue != nil {
		cfg.Letters = shared.queue.Task(slot.number)
	}
	if d.DeadLetterQueue != nil {
		cfg.BrokerLetters, cfg.MaxRejectRatio = d.DeadLetterQueue.Broker, d.DeadLetterQueue.MaxRatio
	}
	if shared.parking != nil {
		cfg.Parking, cfg.ParkAfter = shared.parking, d.Retry.ParkAfter
	}
	if !cfg.Ordered {
		cfg.MaxDeliveryCount, cfg.DeliveryLimit, cfg.HoldTimeout = shared.maxDeliveries, shared.deliveryLimit, d.Share.HoldTimeout
		cfg.Implicit = d.Share.AcknowledgementMode == config.AcknowledgeImplicit
	}
	task, err := sharetask.New(cfg)
	if err != nil {
		return nil, err
	}
	return task, nil
}

// batch returns the most records of a put.
func (c *connector) batch() int {
	if most := c.bound.plugin.Description.MaxBatch; most > 0 {
		return min(c.def.Batch.MaxRecords, most)
	}
	return c.def.Batch.MaxRecords
}

const (
	startTimeout = time.Minute
	// minOpenRecords is how many records a task may hold at least.
	minOpenRecords = 4000
	// minOpenShared is the same in a share group: the fewer fetches it takes,
	// the less the broker has to write. On six partitions 4,000, 6,000 and
	// 8,000 measured 344, 388 and 373 thousand records a second, and 62, 71
	// and 79 MB here. It is what six producer batches of 1,000 are.
	minOpenShared = 6000
)
