package deadletter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/semaphore"

	"github.com/sluicehq/sluice/internal/kafka"
)

var (
	errClosed  = errors.New("the dead letter queue is closed")
	errNotSent = errors.New("not sent") // Whoever was to send it left first.
)

const (
	producerRetries = 60 // With producerBackoff about a minute and a half inside sarama.
	closeGrace      = 5 * time.Second
)

func producerBackoff(retries, _ int) time.Duration {
	return min(50*time.Millisecond<<min(retries, 5), 1500*time.Millisecond)
}

// coordinates name a letter: one that is still on its way is not sent twice.
type coordinates struct {
	topic     string
	id        [16]byte
	partition int32
	offset    int64
}

// attempt is one letter handed to sarama. done is closed when err is set.
type attempt struct {
	key  coordinates
	cost int64
	done chan struct{}
	err  error
}

// producer is an idempotent sarama producer and what is on its way in it.
type producer struct {
	client sarama.Client
	async  sarama.AsyncProducer
	budget *semaphore.Weighted // Bytes on their way.
	most   int64

	mu     sync.Mutex
	open   map[coordinates]*attempt // Guarded by mu.
	closed bool                     // No send begins any more. Guarded by mu.

	senders  sync.WaitGroup // Sends at async's door.
	readers  sync.WaitGroup // The two that read async's answers.
	stopping chan struct{}  // Closed by close.
}

// newProducer connects a producer. alone sends every message in a batch of its
// own.
func newProducer(conn kafka.Connection, maxMessageBytes int, budget int64, alone bool) (*producer, error) {
	conf, err := conn.Sarama()
	if err != nil {
		return nil, err
	}
	conf.Producer.RequiredAcks = sarama.WaitForAll
	conf.Producer.Idempotent = true
	conf.Net.MaxOpenRequests = 1
	conf.Producer.Return.Successes = true
	conf.Producer.Return.Errors = true
	conf.Producer.Partitioner = func(string) sarama.Partitioner { return samePartition{} }
	conf.Producer.MaxMessageBytes = maxMessageBytes
	conf.Producer.Retry.Max = producerRetries
	conf.Producer.Retry.BackoffFunc = producerBackoff
	conf.Metadata.Retry.Max = 8
	if alone {
		conf.Producer.Flush.MaxMessages = 1
	}
	client, err := sarama.NewClient(conn.Bootstrap, conf)
	if err != nil {
		return nil, err
	}
	async, err := sarama.NewAsyncProducerFromClient(client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	p := &producer{
		client: client, async: async, budget: semaphore.NewWeighted(budget), most: budget,
		open: make(map[coordinates]*attempt), stopping: make(chan struct{}),
	}
	p.readers.Go(func() {
		for m := range async.Successes() {
			p.settle(m, nil)
		}
	})
	p.readers.Go(func() {
		for e := range async.Errors() {
			p.settle(e.Msg, e.Err)
		}
	})
	return p, nil
}

// samePartition keeps a letter on its source's partition, modulo the topic's.
type samePartition struct{}

// Partition returns the message's partition modulo partitions.
func (samePartition) Partition(m *sarama.ProducerMessage, partitions int32) (int32, error) {
	return m.Partition % partitions, nil
}

// RequiresConsistency is true: a partition without a leader is waited for.
func (samePartition) RequiresConsistency() bool { return true }

// send hands a message to sarama, waiting for room until ctx ends, and returns
// the attempt, which settles by itself even when nobody waits for it. If the
// same letter is on its way already, it returns that attempt.
func (p *producer) send(ctx context.Context, key coordinates, m *sarama.ProducerMessage) *attempt {
	p.mu.Lock()
	if a := p.open[key]; a != nil {
		p.mu.Unlock()
		return a
	}
	a := &attempt{key: key, cost: min(int64(size(m)), p.most), done: make(chan struct{})}
	if p.closed {
		p.mu.Unlock()
		a.err = errClosed
		close(a.done)
		return a
	}
	p.open[key] = a
	p.senders.Add(1)
	p.mu.Unlock()
	defer p.senders.Done()

	m.Metadata = a
	if ctx.Err() != nil {
		p.finish(a, errNotSent)
		return a
	}
	if err := p.budget.Acquire(ctx, a.cost); err != nil {
		p.finish(a, errNotSent)
		return a
	}
	select {
	case p.async.Input() <- m:
	case <-ctx.Done():
		p.budget.Release(a.cost)
		p.finish(a, errNotSent)
	case <-p.stopping:
		p.budget.Release(a.cost)
		p.finish(a, errClosed)
	}
	return a
}

// settle takes sarama's answer.
func (p *producer) settle(m *sarama.ProducerMessage, err error) {
	a, ok := m.Metadata.(*attempt)
	if !ok {
		return
	}
	p.budget.Release(a.cost)
	p.finish(a, err)
}

func (p *producer) finish(a *attempt, err error) {
	p.mu.Lock()
	delete(p.open, a.key)
	p.mu.Unlock()
	a.err = err
	close(a.done)
}

// close refuses further sends, gives what is on its way closeGrace to land,
// then drops the connections, which fails the rest.
func (p *producer) close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	close(p.stopping)
	p.senders.Wait()
	p.async.AsyncClose()
	done := make(chan struct{})
	go func() {
		p.readers.Wait()
		close(done)
	}()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-done:
		return p.client.Close()
	case <-timer.C:
	}
	// Without a client nothing finds a leader any more, and every message
	// fails as soon as its backoff is over.
	err := p.client.Close()
	timer.Reset(closeGrace)
	select {
	case <-done:
	case <-timer.C:
		err = errors.Join(err, errors.New("dead letters on their way did not settle"))
	}
	return err
}
