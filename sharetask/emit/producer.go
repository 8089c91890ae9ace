package emit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/pluginapi"
)

const (
	// maxBufferedBytes bounds what one producer has on its way; what is more
	// waits in its put.
	maxBufferedBytes = 32 << 20
	// maxBatchBytes is what a producer batch has at most: a broker's default
	// message.max.bytes less the batch's own head.
	maxBatchBytes = 1_000_000
	// unknownTries is how often a topic that is not there is looked for.
	unknownTries = 1
	// linger lets batches fill while a put is handed over, which is followed by a
	// flush: what has no key goes to few partitions then.
	linger = 50 * time.Millisecond
)

// Options say how emitted records are produced.
type Options struct {
	Connection kafka.Connection
	ClientID   string // Replaces Connection's when not empty.
	Encoder    Encoder
}

// Producer is the at-least-once [Committer]: idempotent, confirmed by every
// in-sync replica. Make it with [NewProducer].
type Producer struct {
	opts   Options
	client *kgo.Client
}

var _ Committer = (*Producer)(nil)

// NewProducer returns a producer. It opens nothing.
func NewProducer(opts Options) *Producer {
	if opts.ClientID != "" {
		opts.Connection.ClientID = opts.ClientID
	}
	return &Producer{opts: opts}
}

// Open makes the client. It connects when first used.
func (p *Producer) Open(context.Context) error {
	opts, err := p.opts.Connection.Franz()
	if err == nil {
		p.client, err = kgo.NewClient(append(opts, append(ClientOptions(), kgo.AllowIdempotentProduceCancellation())...)...)
	}
	if err != nil {
		return fmt.Errorf("open producer of emitted records: %w", err)
	}
	return nil
}

// ClientOptions returns how a client produces emitted records, beside how it
// connects.
func ClientOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(Partitioner()),
		kgo.ProducerBatchMaxBytes(maxBatchBytes),
		kgo.MaxBufferedRecords(1 << 30), // The bytes bound them.
		kgo.MaxBufferedBytes(maxBufferedBytes),
		kgo.UnknownTopicRetries(unknownTries),
		kgo.ProducerLinger(linger),
	}
}

// Commit produces what the accepted of results emit and waits until it is
// confirmed.
func (p *Producer) Commit(ctx context.Context, _ []pluginapi.Record, results []pluginapi.Result) error {
	outs := Records(results, p.opts.Encoder)
	errs := Produce(ctx, p.client, outs)
	for i, err := range errs {
		if err != nil && OfRecord(err) { // Perhaps another's of its batch.
			errs[i] = p.client.ProduceSync(ctx, Again(outs[i].Record)).FirstErr()
		}
	}
	for i, err := range errs {
		if err != nil && results[outs[i].From].Outcome != pluginapi.Reject {
			results[outs[i].From] = Failure(outs[i].Record.Topic, err)
		}
	}
	return nil
}

// Produce produces outs and returns an error for each that is not known to be
// confirmed, nil for none at all. It returns when the client is done with all.
func Produce(ctx context.Context, client *kgo.Client, outs []Out) []error {
	var open sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	open.Add(len(outs))
	for i := range outs {
		client.Produce(ctx, outs[i].Record, func(_ *kgo.Record, err error) {
			if err != nil {
				mu.Lock()
				if errs == nil {
					errs = make([]error, len(outs))
				}
				errs[i] = err
				mu.Unlock()
			}
			open.Done()
		})
	}
	_ = client.Flush(ctx) // The promises tell.
	open.Wait()
	return errs
}

// Again returns a copy of r to produce, one that was not produced yet or was. A
// partition that was chosen for it stays.
func Again(r *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: r.Topic, Partition: r.Partition, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Headers: slices.Clone(r.Headers)}
}

// Close drops the client. Nothing is on its way then.
func (p *Producer) Close(context.Context) error {
	p.client.Close()
	p.client = nil
	return nil
}
