package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/kafkatest"
)

const (
	valueBytes = 200
	// producerBuffer bounds the records on their way to the brokers; a full buffer makes the producer wait.
	producerBuffer = 50_000
)

// producer writes numbered records at a steady rate and remembers which were confirmed.
type producer struct {
	client *kgo.Client
	route  string

	mu     sync.Mutex
	places []Place // Guarded by mu, by id.
	failed int     // Guarded by mu.
	first  error   // Guarded by mu: the first failure.
}

// routeHeader says in which topic the kafka sink is to put a record. One that is bad on purpose has none, so the sink rejects it.
const routeHeader = "route"

// newProducer makes an idempotent producer that waits for all in-sync replicas. Good records get the route as a header, unless it is
// empty. The client must be closed.
func newProducer(bootstrap []string, topic, route string) (*producer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerLinger(10*time.Millisecond), kgo.MaxBufferedRecords(producerBuffer), kgo.DialTimeout(3*time.Second))
	if err != nil {
		return nil, fmt.Errorf("make producer: %w", err)
	}
	return &producer{client: client, route: route}, nil
}

// run produces rate records a second until ctx ends. What brokers that are down held up is made up for.
func (p *producer) run(ctx context.Context, rate int) {
	const step = 20 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	begin, id := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(time.Since(begin).Seconds() * float64(rate)); id < due && ctx.Err() == nil; id++ {
			p.produce(ctx, id)
		}
	}
}

// produce hands over one record; it waits while the buffer is full. A record outlives ctx once it is in the buffer.
func (p *producer) produce(ctx context.Context, id int) {
	p.mu.Lock()
	p.places = append(p.places, Place{Offset: unconfirmed})
	p.mu.Unlock()
	r := &kgo.Record{Key: fmt.Appendf(nil, "id-%d", id), Value: kafkatest.Value(id, valueBytes)}
	if p.route != "" && !Bad(id) {
		r.Headers = []kgo.RecordHeader{{Key: routeHeader, Value: []byte(p.route)}}
	}
	p.client.Produce(context.WithoutCancel(ctx), r, func(r *kgo.Record, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil {
			p.failed++
			if p.first == nil {
				p.first = err
			}
			return
		}
		p.places[id] = Place{Partition: r.Partition, Offset: r.Offset}
	})
}

// finish waits until the brokers have answered for every record, at most for limit.
func (p *producer) finish(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := p.client.Flush(ctx); err != nil {
		return fmt.Errorf("wait for the brokers to confirm: %w", err)
	}
	return nil
}

// confirmed returns a copy of the places.
func (p *producer) confirmed() []Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Place(nil), p.places...)
}

// failures returns how many records the brokers refused, and the first reason.
func (p *producer) failures() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed, p.first
}
