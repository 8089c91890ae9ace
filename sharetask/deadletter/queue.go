package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/sharetask"
)

const (
	defaultMaxBytes = 32 << 20
	// defaultMaxMessageBytes is a broker's default message.max.bytes.
	defaultMaxMessageBytes = 1_048_588
	firstWait              = 100 * time.Millisecond
	longestWait            = 5 * time.Second
)

// Options say where dead letters go and who writes them.
type Options struct {
	Connection kafka.Connection
	Topic      string // It must exist: see kafka.Admin.PrepareDeadLetterTopic.
	Connector  string
	Group      string
	Sink       string // The sink's name; may be empty.

	// MaxMessageBytes is the topic's max.message.bytes; 0 is a broker's
	// default. It only sizes batches: what is too large is for the broker to
	// say.
	MaxMessageBytes int
	// MaxBytes bounds the bytes of letters on their way, 32 MiB when 0. One
	// larger letter goes alone.
	MaxBytes int64
	Logger   *slog.Logger // Nil discards.
}

// Queue is a connector's dead letter queue. It is safe for concurrent use by
// any number of tasks.
type Queue struct {
	opts    Options
	log     *slog.Logger
	batched *producer

	mu     sync.Mutex
	alone  *producer // Made when first needed. Guarded by mu.
	closed bool      // Guarded by mu.
}

// Open connects the queue, trying until ctx ends. Errors are those of package
// internal/kafka.
func Open(ctx context.Context, opts Options) (*Queue, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	if opts.MaxMessageBytes == 0 {
		opts.MaxMessageBytes = defaultMaxMessageBytes
	}
	if opts.Topic == "" {
		return nil, errors.New("open dead letter queue: it has no topic")
	}
	p, err := newProducer(opts.Connection, opts.MaxMessageBytes, opts.MaxBytes, false)
	if err == nil {
		if err = p.client.Ping(ctx); err != nil {
			p.close(ctx)
		}
	}
	if err != nil {
		return nil, &kafka.Error{Action: fmt.Sprintf("open dead letter queue %q", opts.Topic), Kind: kafka.Kind(err), Err: err}
	}
	return &Queue{opts: opts, log: opts.Logger, batched: p}, nil
}

// Close waits for letters on their way until ctx ends, five seconds at most,
// then drops the connections. Writes still open end with an error.
func (q *Queue) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeGrace)
	defer cancel()
	q.mu.Lock()
	q.closed = true
	alone := q.alone
	q.mu.Unlock()
	q.batched.close(ctx)
	if alone != nil {
		alone.close(ctx)
	}
}

// Task returns the queue as task number n of the connector uses it. Closing
// the Queue closes it.
func (q *Queue) Task(n int) *TaskQueue { return &TaskQueue{queue: q, task: n} }

// TaskQueue is a [Queue] that puts one task's number on its letters. It is safe
// for concurrent use.
type TaskQueue struct {
	queue *Queue
	task  int
}

var _ sharetask.DeadLetterQueue = (*TaskQueue)(nil)

// Write implements [sharetask.DeadLetterQueue]. What the broker refuses for
// good, with the topic as it is, is reported at once; anything else is tried
// until ctx ends. An error is about its letter alone, and means that the
// letter is not known to be in the topic: it may still arrive.
func (t *TaskQueue) Write(ctx context.Context, letters []sharetask.DeadLetter) []error {
	return t.queue.write(ctx, t.task, letters)
}

// pending is a letter that is not confirmed yet.
type pending struct {
	index   int
	form    form
	bytes   int
	by      *producer
	attempt *attempt
	last    error // Of an attempt before.
}

func (q *Queue) write(ctx context.Context, task int, letters []sharetask.DeadLetter) []error {
	errs := make([]error, len(letters))
	from := source{connector: q.opts.Connector, group: q.opts.Group, sink: q.opts.Sink, task: task}
	open := make([]*pending, len(letters))
	for i := range open {
		open[i] = &pending{index: i}
	}
	slow := time.NewTicker(longestWait)
	defer slow.Stop()
	for pause := firstWait; ; pause = min(2*pause, longestWait) {
		for _, p := range open {
			q.send(ctx, p, &letters[p.index], from)
		}
		waits := false
		var again []*pending
		for _, p := range open {
			err := q.await(ctx, p, slow.C)
			if err == nil {
				continue
			}
			next, wait, final := p.form.next(err, p.bytes)
			if final || ctx.Err() != nil {
				errs[p.index] = q.failed(ctx, &letters[p.index], p, err)
				continue
			}
			if next.omit > p.form.omit {
				r := letters[p.index].Record
				q.log.Warn("dead letter too large, part of it left out", "topic", r.Topic, "partition", r.Partition,
					"offset", r.Offset, "bytes", next.maxedBytes, "dead_letter_queue", q.opts.Topic)
			}
			p.form, p.last = next, err
			waits = waits || wait
			again = append(again, p)
		}
		open = again
		if len(open) == 0 {
			return errs
		}
		if !waits {
			pause = firstWait
			continue
		}
		q.log.Warn("dead letters not confirmed yet", "dead_letter_queue", q.opts.Topic, "letters", len(open),
			"err", open[0].last, "again_in", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done(): // The next round fails each of them.
			timer.Stop()
		}
	}
}

// send begins an attempt.
func (q *Queue) send(ctx context.Context, p *pending, l *sharetask.DeadLetter, from source) {
	p.by = q.batched
	if p.form.alone {
		var err error
		if p.by, err = q.solo(); err != nil {
			p.by, p.attempt = q.batched, &attempt{err: err, done: make(chan struct{})}
			close(p.attempt.done)
			return
		}
	}
	r := l.Record
	m := message(l, q.opts.Topic, from, p.form)
	p.bytes = size(m)
	p.attempt = p.by.send(ctx, coordinates{topic: r.Topic, id: r.TopicID, partition: r.Partition, offset: r.Offset}, m)
}

// await returns the attempt's outcome, or ctx's error when that ends first. At
// each tick of slow it says that something is being waited for.
func (q *Queue) await(ctx context.Context, p *pending, slow <-chan time.Time) error {
	for {
		select {
		case <-p.attempt.done: // What is known counts, also when ctx has ended.
			return p.attempt.err
		default:
		}
		select {
		case <-p.attempt.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-slow:
			q.log.Warn("dead letters not confirmed yet", "dead_letter_queue", q.opts.Topic, "err", p.by.why())
		}
	}
}

// failed words a letter's error.
func (q *Queue) failed(ctx context.Context, l *sharetask.DeadLetter, p *pending, err error) error {
	if ctx.Err() != nil && (errors.Is(err, errNotSent) || errors.Is(err, context.Cause(ctx))) {
		err = context.Cause(ctx)
		if why := cmp.Or(p.by.why(), p.last); why != nil && !errors.Is(why, errNotSent) {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	r := l.Record
	return &kafka.Error{
		Action: fmt.Sprintf("write dead letter of %s/%d@%d to %s", r.Topic, r.Partition, r.Offset, strconv.Quote(q.opts.Topic)),
		Kind:   kafka.Kind(err), Err: err,
	}
}

// solo returns the producer for letters that must not share a batch.
func (q *Queue) solo() (*producer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, errClosed
	}
	if q.alone == nil {
		// The broker says what is too large, not this client.
		p, err := newProducer(q.opts.Connection, largestMessage, 1, true)
		if err != nil {
			return nil, err
		}
		q.alone = p
	}
	return q.alone, nil
}
