package exactlyonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask/emit"
	"github.com/sluicehq/sluice/sharetask/exactlyonce/intent"
)

const (
	// requestTimeout bounds what a broker does not answer: one that hangs would
	// hold a transaction up for as long.
	requestTimeout = 10 * time.Second
	// defaultTransactionTimeout is after which the broker ends a transaction whose
	// writer is gone.
	defaultTransactionTimeout = 30 * time.Second
	// restartPause is between two tries to follow the ledger.
	restartPause = time.Second
	// forgetEvery is how often what is not needed any more is deleted.
	forgetEvery = 5 * time.Minute
	// forgetMargin is how many offsets below a group's position are kept all the
	// same: brokers before KAFKA's fix of a regression can go back a little.
	forgetMargin = 100_000
)

// Options say where the ledger is.
type Options struct {
	Connection kafka.Connection
	// Writers begins the transactional id of every writer of this worker: it must
	// be no other worker's, and the same after a restart.
	Writers    string
	Topic      string // The ledger: see kafka.Admin.PrepareLedgerTopic.
	Partitions int32  // The ledger's.
	Encoder    emit.Encoder
	// TransactionTimeout is after which the broker ends a transaction whose writer
	// is gone, 30 s when 0. It is about how long others wait, not about what is
	// promised.
	TransactionTimeout time.Duration
	// Positions returns where the group goes on in each source partition: below, no
	// record will be delivered again. Nil keeps the whole ledger.
	Positions func(ctx context.Context) (map[intent.Source]int64, error)
	Logger    *slog.Logger // Nil discards.
}

// validation is "off" only in programs that tests link so, to see that it matters:
// -ldflags "-X github.com/sluicehq/sluice/sharetask/exactlyonce.validation=off". Nothing
// writes to it.
var validation = "on"

// unvalidated reports whether claims are written and committed, and nobody looks at
// them.
func unvalidated() bool { return validation == "off" }

// Group is a connector's part of the ledger in one worker. It is safe for
// concurrent use.
type Group struct {
	opts Options
	log  *slog.Logger
	conn []kgo.Opt

	life context.Context //nolint:containedctx // A life: from Open to Close.
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	tail    *tail         // Guarded by mu.
	changed chan struct{} // Closed when there is another tail. Guarded by mu.
	broken  error         // Why there will be none. Guarded by mu.
}

// Open begins to follow the ledger. It connects when it can: committers wait.
func Open(opts Options) (*Group, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.TransactionTimeout == 0 {
		opts.TransactionTimeout = defaultTransactionTimeout
	}
	if opts.Partitions < 1 || opts.Topic == "" || opts.Writers == "" {
		return nil, errors.New("open ledger: it needs a topic, its partitions and the writers' name")
	}
	conn, err := opts.Connection.Franz()
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	g := &Group{
		opts: opts, log: opts.Logger.With("ledger", opts.Topic), conn: append(conn, kgo.RequestTimeoutOverhead(requestTimeout)),
		changed: make(chan struct{}),
	}
	if unvalidated() {
		g.log.Error("this program was built for a test: records are written twice")
	}
	g.life, g.stop = context.WithCancel(context.Background())
	g.done.Go(g.follow)
	if opts.Positions != nil {
		g.done.Go(g.forget)
	}
	return g, nil
}

// Close ends it. Its committers are closed before.
func (g *Group) Close() {
	g.stop()
	g.done.Wait()
}

// follow keeps a tail, and another one where it fails, until Close. What nobody
// but a person can put right ends it.
func (g *Group) follow() {
	for g.life.Err() == nil {
		t, err := newTail(g)
		if err == nil {
			g.set(t, nil)
			err = t.run(g.life)
			t.client.Close()
		}
		if g.life.Err() != nil {
			return
		}
		var broken *brokenError
		if errors.As(err, &broken) {
			g.set(nil, err)
			g.log.Error("the ledger cannot be used", "err", err)
			return
		}
		g.set(nil, nil)
		g.log.Warn("the ledger is read again from its beginning", "err", err)
		timer := time.NewTimer(restartPause)
		select {
		case <-timer.C:
		case <-g.life.Done():
			timer.Stop()
		}
	}
}

func (g *Group) set(t *tail, broken error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tail, g.broken = t, broken
	close(g.changed)
	g.changed = make(chan struct{})
}

// reader returns the tail, waiting for one until ctx ends. It fails for good, with
// a fatal error, when there will be none.
func (g *Group) reader(ctx context.Context) (*tail, error) {
	for {
		g.mu.Lock()
		t, broken, changed := g.tail, g.broken, g.changed
		g.mu.Unlock()
		switch {
		case broken != nil:
			return nil, pluginapi.NewError(pluginapi.Fatal, "ledger", broken.Error())
		case t != nil:
			return t, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("the ledger is not read yet: %w", context.Cause(ctx))
		}
	}
}

// forget deletes what of the ledger is not needed any more, from time to time.
func (g *Group) forget() {
	ticker := time.NewTicker(forgetEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-g.life.Done():
			return
		}
		if err := g.Forget(g.life); err != nil && g.life.Err() == nil {
			g.log.Warn("what the ledger does not need is kept for now", "err", err)
		}
	}
}

// Forget deletes what of the ledger is not needed any more: the claims of offsets
// far below the group's position, if every claim before them is not needed either.
// It is done from time to time by itself.
func (g *Group) Forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	t, err := g.reader(ctx)
	if err != nil {
		return err
	}
	positions, err := g.opts.Positions(ctx)
	if err != nil {
		return err
	}
	return t.forget(ctx, positions)
}
