package sharetask

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// Task is one member of a connector's group with its sinks. It is made by New,
// run once, and safe to ask for its Status meanwhile.
type Task struct {
	cfg     Config
	log     *slog.Logger
	metrics Metrics

	mu     sync.Mutex
	status Status // Guarded by mu.

	pausing atomic.Bool   // What is asked for.
	asked   chan struct{} // Capacity 1: pausing has changed.

	// All below is owned by Run's goroutine.
	ledger    *ledger
	queue     *queue
	suspects  suspects
	chances   lastChances
	breaker   breaker
	writers   []*writer
	idle      []*writer
	done      chan *put
	flying    map[*put]struct{}
	isolating int         // Suspects that are being put.
	doubted   bool        // The next probe is of a suspect, if there is one.
	blocked   []*delivery // Their records may be in a put from before they were lost.
	window    int         // Puts at a time: fewer than writers while the target asks for less.
	caution   caution
	cause     error  // Why the task makes no progress, if it does not.
	crashed   uint64 // The last process whose crash was counted.
	ratio     ratio  // Of records given up on.

	dead, parked outbox          // Letters to be written.
	letterBack   chan *letterJob // Has room for one of each.

	paused    bool
	full      bool      // The source said that nothing comes until something is decided.
	slowUntil time.Time // Throttled: no put before.
	stopping  bool
	closing   bool      // The source is being closed.
	stopBy    time.Time // Stopping: when all must be over.
	failed    error
	room      Room // What the source was last told.
	taken     Room // What it has delivered.
}

// minSinkStop is what a sink gets to stop, even where nothing is left of the
// stop's time.
const minSinkStop = 2 * time.Second

// New returns a task. It opens nothing.
func New(cfg Config) (*Task, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("task %s-%d: %w", cfg.Connector, cfg.Number, err)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = noMetrics{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Written == nil {
		cfg.Written = NewWritten()
	}
	if cfg.Survived == nil {
		cfg.Survived = NewSurvived()
	}
	t := &Task{
		cfg: cfg, metrics: cfg.Metrics, log: cfg.Logger,
		status:     Status{State: StateUnassigned, Since: time.Now()},
		ledger:     newLedger(),
		queue:      newQueue(cfg.Batch, cfg.Ordered, cfg.Parallelism),
		breaker:    breaker{policy: cfg.Breaker, retry: cfg.Retry},
		chances:    lastChances{limit: cfg.MaxDeliveryCount, broker: cfg.DeliveryLimit, turn: cfg.Turn.place()},
		ratio:      ratio{most: cfg.MaxRejectRatio},
		window:     cfg.Parallelism,
		caution:    caution{least: cfg.Batch.MaxRecords, most: cfg.MaxOpenRecords},
		done:       make(chan *put, cfg.Parallelism),
		flying:     map[*put]struct{}{},
		letterBack: make(chan *letterJob, 2),
		asked:      make(chan struct{}, 1),
	}
	t.ledger.survived = func(d *delivery, i int32) {
		if d.Lock > 0 && d.DeliveryCounts != nil {
			cfg.Survived.enter(d, i, time.Now())
		}
	}
	t.dead.write, t.parked.write = deadLetters(cfg.Letters), parkedLetters(cfg.Parking)
	t.ledger.implicit = cfg.Implicit
	for i := range cfg.Parallelism {
		place := func(apart bool) seat {
			return seat{log: cfg.Logger, make: func(ctx context.Context) (Sink, error) { return cfg.MakeSink(ctx, i, apart) }}
		}
		t.writers = append(t.writers, &writer{
			number: i, own: place(false), apart: place(true), convert: cfg.Convert, metrics: cfg.Metrics,
			timeout: cfg.PutTimeout, startTimeout: cfg.StartTimeout, canCheck: cfg.CanCheck, puts: make(chan *put, 1),
		})
	}
	return t, nil
}

// Status returns the task's state. It does not block and is safe for
// concurrent use.
func (t *Task) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// Pause makes the task hold nothing: it acquires and puts nothing more, lets
// puts in flight end, and, in a share group, gives back what it holds, which
// spends a delivery of each record. Its sinks and its membership stay. A task
// that has failed stays FAILED. It does not block, also before Run.
func (t *Task) Pause() { t.ask(true) }

// Resume ends a pause. It does not block.
func (t *Task) Resume() { t.ask(false) }

func (t *Task) ask(pause bool) {
	t.pausing.Store(pause)
	select {
	case t.asked <- struct{}{}:
	default:
	}
}

func (t *Task) setStatus(s State, degraded string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status.State != s {
		t.status.Since = time.Now()
	}
	t.status.State, t.status.Degraded, t.status.Err = s, degraded, err
}

// Run starts the sinks, joins the group, and moves records until ctx ends.
// Then, within Config.StopTimeout, it
//
//  1. stops acquiring and starts no further put,
//  2. lets puts and dead letters in flight end, and cancels them five seconds
//     before the time is over,
//  3. acknowledges what was decided and waits for the broker's confirmation,
//  4. closes the share session, which gives the rest back, and leaves the group,
//  5. stops the sinks.
//
// It returns nil after such a stop, a [*FailedError] where a person must act,
// and any other error where the task may be started again. A task that fails
// while it holds records keeps its membership and their locks until ctx ends,
// so that its siblings do not fail on the same record one after the other.
func (t *Task) Run(ctx context.Context) error {
	if err := t.start(ctx); err != nil {
		return t.startFailed(ctx, err)
	}
	t.paused = t.pausing.Load()
	t.show(time.Now())
	t.log.Info("task started", "writers", len(t.writers))

	var writers sync.WaitGroup
	for _, w := range t.writers {
		t.idle = append(t.idle, w)
		writers.Go(func() { w.run(t.done) })
	}
	err := t.loop(ctx)
	for _, w := range t.writers {
		close(w.puts)
	}
	writers.Wait()
	t.chances.turn.withdraw()
	stopBy := time.Now().Add(minSinkStop)
	if t.stopBy.After(stopBy) {
		stopBy = t.stopBy
	}
	stopCtx, cancel := context.WithDeadline(context.WithoutCancel(ctx), stopBy)
	defer cancel()
	err = errors.Join(err, t.stopSinks(stopCtx))
	if t.failed != nil {
		return &FailedError{t.failed}
	}
	if err == nil {
		t.log.Info("task stopped")
	}
	return err
}

// start starts the sinks and joins the group.
func (t *Task) start(ctx context.Context) error {
	startCtx, cancel := context.WithTimeout(ctx, t.cfg.StartTimeout)
	defer cancel()
	errs := make([]error, len(t.writers))
	var wg sync.WaitGroup
	for i, w := range t.writers {
		wg.Go(func() { errs[i] = w.own.ensure(startCtx) })
	}
	wg.Wait()
	if err := joinDistinct(errs); err != nil {
		return err
	}
	// One sink's answer is enough: they have the same settings.
	if err := t.writers[0].own.sink.Check(startCtx); err != nil {
		return fmt.Errorf("check sink: %w", err)
	}
	if !t.cfg.Ordered {
		t.breaker.begin(time.Now())
	}
	if err := t.cfg.Source.Start(ctx); err != nil {
		return fmt.Errorf("join group: %w", err)
	}
	return nil
}

// joinDistinct joins errors of sinks, which mostly fail for the same reason: of
// those that say the same one is enough, and three of others.
func joinDistinct(errs []error) error {
	const most = 3
	var out []error
	for _, err := range errs {
		if err != nil && len(out) < most && !slices.ContainsFunc(out, func(e error) bool { return e.Error() == err.Error() }) {
			out = append(out, err)
		}
	}
	return errors.Join(out...)
}

// startFailed stops what start started and sorts its error.
func (t *Task) startFailed(ctx context.Context, err error) error {
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.StopTimeout)
	defer cancel()
	if serr := t.stopSinks(stopCtx); serr != nil {
		t.log.Warn("stop after a failed start", "err", serr)
	}
	if ctx.Err() != nil {
		return nil // Stopped before it was started.
	}
	if needsPerson(err) {
		t.setStatus(StateFailed, "", err)
		return &FailedError{err}
	}
	return err
}

// needsPerson reports whether trying again cannot help.
func needsPerson(err error) bool {
	if errors.Is(err, ErrGroupKind) {
		return true
	}
	var e *pluginapi.Error
	return errors.As(err, &e) && (e.Class == pluginapi.Fatal || e.Class == pluginapi.Invalid)
}

func (t *Task) stopSinks(ctx context.Context) error {
	errs := make([]error, len(t.writers))
	var wg sync.WaitGroup
	for i, w := range t.writers {
		wg.Go(func() {
			if err := w.stop(ctx); err != nil {
				errs[i] = fmt.Errorf("stop sink %d: %w", w.number, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fail makes the task FAILED: it acquires and puts nothing more, and keeps
// what it holds until it is stopped.
func (t *Task) fail(err error) {
	if t.failed != nil {
		return
	}
	t.failed = err
	t.setStatus(StateFailed, "", err)
	t.log.Error("task failed", "err", err)
}
