package confirm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka"
)

const (
	defaultMaxBytes = 32 << 20
	// defaultMaxMessageBytes is a broker's default message.max.bytes.
	defaultMaxMessageBytes = 1_048_588
	firstWait              = 100 * time.Millisecond
	longestWait            = 5 * time.Second
)

// Options say where messages go.
type Options struct {
	Connection kafka.Connection
	Topic      string // It must exist.
	What       string // A message in words, such as "dead letter".

	// MaxMessageBytes is the topic's max.message.bytes; 0 is a broker's
	// default. It only sizes batches: what is too large is for the broker to
	// say.
	MaxMessageBytes int
	// MaxBytes bounds the bytes of messages on their way, 32 MiB when 0. One
	// larger message goes alone.
	MaxBytes int64
	Whole    bool         // Nothing may be left out of a message: one that is too large is an error.
	Logger   *slog.Logger // Nil discards.
}

// Coordinates say which record a message is made of: while one is on its way
// another of the same record is not sent.
type Coordinates struct {
	Topic     string
	TopicID   [16]byte
	Partition int32
	Offset    int64
}

// Message is what is to be written. Its Partition in the topic is that of the
// record it makes, modulo the topic's.
type Message struct {
	Of Coordinates
	// Record makes it, of memory of its own: the caller's may be used again
	// when Write has returned.
	Record func(Form) *kgo.Record
}

// Writer writes messages to a topic. It is safe for concurrent use.
type Writer struct {
	opts Options
	log  *slog.Logger

	mu      sync.Mutex
	batched *producer      // Guarded by mu.
	alone   *producer      // Made when first needed. Guarded by mu.
	closed  bool           // Guarded by mu.
	retired sync.WaitGroup // Producers that were replaced and are being closed.
}

// Open connects the writer, trying until ctx ends. Errors are those of package
// internal/kafka.
func Open(ctx context.Context, opts Options) (*Writer, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = defaultMaxBytes
	}
	if opts.MaxMessageBytes == 0 {
		opts.MaxMessageBytes = defaultMaxMessageBytes
	}
	p, err := newProducer(opts.Connection, opts.MaxMessageBytes, opts.MaxBytes, false)
	if err == nil {
		if err = p.client.Ping(ctx); err != nil {
			p.close(ctx, ErrClosed)
		}
	}
	if err != nil {
		return nil, &kafka.Error{Action: fmt.Sprintf("open %s topic %q", opts.What, opts.Topic), Kind: kafka.Kind(err), Err: err}
	}
	return &Writer{opts: opts, log: opts.Logger, batched: p}, nil
}

// Close waits for messages on their way until ctx ends, five seconds at most,
// then drops the connections. Writes still open end with an error.
func (w *Writer) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, CloseGrace)
	defer cancel()
	w.mu.Lock()
	w.closed = true
	batched, alone := w.batched, w.alone
	w.mu.Unlock()
	batched.close(ctx, ErrClosed)
	if alone != nil {
		alone.close(ctx, ErrClosed)
	}
	w.retired.Wait()
}

// pending is a message that is not confirmed yet.
type pending struct {
	index   int
	form    form
	bytes   int
	by      *producer
	attempt *attempt
	last    error // Of an attempt before.
}

// Write writes the messages and returns one error per message, nil once the
// broker confirmed it. What the broker refuses for good, with the topic as it
// is, is reported at once; anything else is tried until ctx ends. An error is
// about its message alone, and means that it is not known to be in the topic:
// if the error is ctx's, it may still arrive.
func (w *Writer) Write(ctx context.Context, messages []Message) []error {
	errs := make([]error, len(messages))
	open := make([]*pending, len(messages))
	for i := range open {
		open[i] = &pending{index: i}
	}
	slow := time.NewTicker(longestWait)
	defer slow.Stop()
	for pause := firstWait; ; pause = min(2*pause, longestWait) {
		for _, p := range open {
			w.send(ctx, p, &messages[p.index])
		}
		waits := false
		var again []*pending
		for _, p := range open {
			err := w.await(ctx, p, slow.C)
			if err == nil {
				continue
			}
			next, wait, final := p.form.next(err, p.bytes, w.opts.Whole)
			if final || ctx.Err() != nil {
				errs[p.index] = w.failed(ctx, messages[p.index].Of, p, err)
				continue
			}
			if next.Omit > p.form.Omit {
				of := messages[p.index].Of
				w.log.Warn("message too large, part of it left out", "what", w.opts.What, "topic", of.Topic, "partition", of.Partition,
					"offset", of.Offset, "bytes", next.MaxedBytes, "to", w.opts.Topic)
			}
			if errors.Is(err, kerr.UnknownTopicID) {
				w.replace(p.by)
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
		w.log.Warn("messages not confirmed yet", "what", w.opts.What, "to", w.opts.Topic, "messages", len(open),
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
func (w *Writer) send(ctx context.Context, p *pending, m *Message) {
	var err error
	if p.by, err = w.producer(p.form.alone); err != nil {
		p.attempt = &attempt{err: err, done: make(chan struct{})}
		close(p.attempt.done)
		return
	}
	r := m.Record(p.form.Form)
	r.Topic = w.opts.Topic
	p.bytes = size(r)
	p.attempt = p.by.send(ctx, m.Of, r)
}

// await returns the attempt's outcome, or ctx's error when that ends first. At
// each tick of slow it says that something is being waited for.
func (w *Writer) await(ctx context.Context, p *pending, slow <-chan time.Time) error {
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
			w.log.Warn("messages not confirmed yet", "what", w.opts.What, "to", w.opts.Topic, "err", p.by.why())
		}
	}
}

// failed words a message's error.
func (w *Writer) failed(ctx context.Context, of Coordinates, p *pending, err error) error {
	if ctx.Err() != nil && (errors.Is(err, errNotSent) || errors.Is(err, context.Cause(ctx))) {
		err = context.Cause(ctx)
		if why := cmp.Or(p.by.why(), p.last); why != nil && !errors.Is(why, errNotSent) {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	return &kafka.Error{
		Action: fmt.Sprintf("write %s of %s/%d@%d to %s", w.opts.What, of.Topic, of.Partition, of.Offset, strconv.Quote(w.opts.Topic)),
		Kind:   kafka.Kind(err), Err: err,
	}
}

// producer returns the one for messages that may share a batch, or for those
// that must not. It is there also with an error.
func (w *Writer) producer(alone bool) (*producer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return w.batched, ErrClosed
	case !alone:
		return w.batched, nil
	case w.alone == nil:
		// The broker says what is too large, not this client.
		p, err := newProducer(w.opts.Connection, largestMessage, 1, true)
		if err != nil {
			return w.batched, err
		}
		w.alone = p
	}
	return w.alone, nil
}

// replace puts a new producer in p's place: p keeps to a topic that was deleted,
// also when it has been made again. It may not be told to forget the topic, since
// it would number messages from the start again, and where the topic is the old
// one after all, the broker would take them for copies of what it has.
func (w *Writer) replace(p *producer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return
	case p == w.alone:
		w.alone = nil // Made anew when needed.
	case p == w.batched:
		fresh, err := newProducer(w.opts.Connection, w.opts.MaxMessageBytes, w.opts.MaxBytes, false)
		if err != nil {
			w.log.Warn("producer not replaced", "what", w.opts.What, "to", w.opts.Topic, "err", err)
			return
		}
		w.batched = fresh
	default:
		return // It was before.
	}
	w.retired.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), CloseGrace)
		defer cancel()
		p.close(ctx, errNotSent)
	})
}

// size returns the bytes a record's key, value and headers take.
func size(m *kgo.Record) int {
	n := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
