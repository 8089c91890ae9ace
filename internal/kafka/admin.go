package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// settleTimeout bounds how long a change of the cluster may take to be seen by
// every broker.
const settleTimeout = 20 * time.Second

// Admin asks and changes a cluster's topics, groups and group configs. Its
// methods may be called from several goroutines and return when ctx ends.
type Admin struct {
	conn   Connection
	log    *slog.Logger
	sarama sarama.Client
	topics sarama.ClusterAdmin // Owned; closes sarama.
	franz  *kgo.Client
	groups *kadm.Client

	// calls are sarama calls whose caller may have left: sarama knows no
	// context. Closing the connections ends them.
	calls sync.WaitGroup
}

// Open connects to the cluster and returns when it has answered both clients.
// ctx bounds only that. A nil log discards. The error's kind is
// [ErrUnreachable], [ErrAuth] or [ErrTLS] where it is one of them.
func Open(ctx context.Context, conn Connection, log *slog.Logger) (*Admin, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	opts, err := conn.Franz()
	if err != nil {
		return nil, err
	}
	conf, err := conn.Sarama()
	if err != nil {
		return nil, err
	}
	// sarama's admin finds brokers only with metadata of all topics.
	conf.Metadata.Full = true
	conf.Metadata.RefreshFrequency = 0

	franz, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", conn, err)
	}
	if err := franz.Ping(ctx); err != nil {
		franz.Close()
		return nil, wrap(err, "connect to %s", conn)
	}
	a := &Admin{conn: conn, log: log, franz: franz, groups: kadm.NewClient(franz)}
	client, err := await(ctx, &a.calls, func() (sarama.Client, error) {
		c, err := sarama.NewClient(conn.bootstrap(), conf)
		if err == nil && ctx.Err() != nil {
			return nil, c.Close() // Nobody waits for it any more.
		}
		return c, err
	})
	if err != nil {
		franz.Close()
		return nil, wrap(err, "connect to %s", conn)
	}
	a.sarama = client
	a.topics, err = sarama.NewClusterAdminFromClient(client)
	if err != nil {
		franz.Close()
		_ = client.Close() // The first error says more.
		return nil, wrap(err, "connect to %s", conn)
	}
	return a, nil
}

// Close drops the connections and waits for calls still open.
func (a *Admin) Close() error {
	a.franz.Close()
	err := a.topics.Close()
	a.calls.Wait()
	return wrap(err, "disconnect from %s", a.conn)
}

// await runs f in a goroutine that calls joins, and returns its result, or
// ctx's error when that ends first. f must end by itself.
func await[T any](ctx context.Context, calls *sync.WaitGroup, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	if ctx.Err() != nil {
		var none T
		return none, context.Cause(ctx)
	}
	done := make(chan result, 1)
	calls.Go(func() {
		v, err := f()
		done <- result{v, err}
	})
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// poll calls f until it reports that it is done or failed, with growing
// pauses. It gives up when ctx ends.
func poll(ctx context.Context, f func() (done bool, err error)) error {
	pause := 10 * time.Millisecond
	for {
		done, err := f()
		if err != nil || done {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		pause = min(2*pause, 500*time.Millisecond)
	}
}
