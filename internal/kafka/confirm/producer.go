package confirm

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"

	"github.com/sluicehq/sluice/internal/kafka"
)

// ErrClosed is the error of what is written after Close.
var ErrClosed = errors.New("the writer is closed")

var errNotSent = errors.New("not sent") // Whoever was to send it left first.

const (
	// CloseGrace is how long Close waits at most.
	CloseGrace = 5 * time.Second
	// largestMessage is what fits in the largest request brokers take by
	// default (socket.request.max.bytes), its head left out.
	largestMessage = 100<<20 - 64<<10
)

// attempt is one message handed to the client. done is closed when err is set.
type attempt struct {
	key  Coordinates
	done chan struct{}
	err  error
}

// producer is an idempotent client and what is on its way in it. The client
// writes a message again, under the sequence number it had, until a broker
// answers: an error means that the message is not in the topic, unless the
// client was closed first. A broker that crashed forgets producers whose newest
// record is older than its producer.id.expiration.ms (a day), by the record's own
// timestamp: of such records what was on its way then may be in the topic twice.
type producer struct {
	client *kgo.Client
	budget *semaphore.Weighted // Bytes on their way; of a producer that sends one by one, messages.
	most   int64
	alone  bool

	mu     sync.Mutex
	open   map[Coordinates]*attempt // Guarded by mu.
	closed error                    // Why no send begins any more; nil while they do. Guarded by mu.

	senders  sync.WaitGroup // Waiting for room.
	stopping context.Context
	stop     context.CancelCauseFunc
	trouble  atomic.Pointer[error] // Why the last connection failed; nil if it did not.
}

var (
	_ kgo.HookBrokerConnect = (*producer)(nil)
	_ kgo.HookBrokerE2E     = (*producer)(nil)
)

// newProducer makes a producer; it connects when first used. alone sends every
// message in a batch of its own, by sending the next one after the answer.
func newProducer(conn kafka.Connection, maxMessageBytes int, budget int64, alone bool) (*producer, error) {
	p := &producer{most: budget, alone: alone, open: make(map[Coordinates]*attempt)}
	if alone {
		p.most = 1
	}
	p.budget = semaphore.NewWeighted(p.most)
	opts, err := conn.Franz()
	if err != nil {
		return nil, err
	}
	p.stopping, p.stop = context.WithCancelCause(context.Background())
	p.client, err = kgo.NewClient(append(opts,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(samePartition)),
		kgo.ProducerBatchMaxBytes(int32(min(maxMessageBytes, largestMessage))), //nolint:gosec // Bounded.
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(1<<30), // The budget bounds them.
		kgo.ProducerLinger(0),         // Each message holds its record's partition up until it is confirmed.
		kgo.WithHooks(p),
	)...)
	if err != nil {
		p.stop(nil)
		return nil, err
	}
	return p, nil
}

// samePartition keeps a message on its partition, modulo the topic's.
func samePartition(string) func(*kgo.Record, int) int {
	return func(r *kgo.Record, partitions int) int { return int(r.Partition) % partitions }
}

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (p *producer) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		p.trouble.Store(&err)
	}
}

// OnBrokerE2E implements [kgo.HookBrokerE2E].
func (p *producer) OnBrokerE2E(_ kgo.BrokerMetadata, _ int16, e2e kgo.BrokerE2E) {
	if err := e2e.Err(); err != nil {
		p.trouble.Store(&err)
	} else {
		p.trouble.Store(nil)
	}
}

// why returns what keeps messages from landing, nil if nothing is known to.
func (p *producer) why() error {
	if err := p.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// send hands a record to the client, waiting for room until ctx ends, and
// returns the attempt, which settles by itself even when nobody waits for it.
// If the same record is on its way already, it returns that attempt.
func (p *producer) send(ctx context.Context, key Coordinates, r *kgo.Record) *attempt {
	a := &attempt{key: key, done: make(chan struct{})}
	p.mu.Lock()
	if p.closed != nil {
		a.err = p.closed
		p.mu.Unlock()
		close(a.done)
		return a
	}
	if open := p.open[key]; open != nil {
		p.mu.Unlock()
		return open
	}
	p.open[key] = a
	p.senders.Add(1)
	p.mu.Unlock()
	defer p.senders.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.stopping, cancel)()
	cost := min(int64(size(r)), p.most)
	if ctx.Err() != nil || p.budget.Acquire(ctx, cost) != nil {
		if p.stopping.Err() != nil {
			p.finish(a, context.Cause(p.stopping))
		} else {
			p.finish(a, errNotSent)
		}
		return a
	}
	// Not the caller's context: a message that may have been sent is followed
	// to its end, or a second try could double it.
	p.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
		p.budget.Release(cost)
		p.finish(a, err)
	})
	return a
}

func (p *producer) finish(a *attempt, err error) {
	p.mu.Lock()
	delete(p.open, a.key)
	p.mu.Unlock()
	a.err = err
	close(a.done)
}

// close refuses further sends for the reason why, gives what is on its way until
// ctx ends to land, then drops the connections, which fails the rest.
func (p *producer) close(ctx context.Context, why error) {
	p.mu.Lock()
	p.closed = why
	p.mu.Unlock()
	p.stop(why)
	p.senders.Wait()
	_ = p.client.Flush(ctx) // Close settles what did not land.
	p.client.Close()
}
