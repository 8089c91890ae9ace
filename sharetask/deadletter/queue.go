package deadletter

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/internal/kafka/confirm"
	"github.com/sluicehq/sluice/sharetask"
)

// Options say where dead letters go and who writes them.
type Options struct {
	Connection kafka.Connection
	Topic      string // It must exist: see kafka.Admin.PrepareDeadLetterTopic.
	Connector  string
	Group      string
	Sink       string // The sink's name; may be empty.

	MaxMessageBytes int   // As in [confirm.Options].
	MaxBytes        int64 // As in [confirm.Options].
	Logger          *slog.Logger
}

// Writer writes messages to the topic, as [confirm.Writer] does.
type Writer interface {
	Write(ctx context.Context, messages []confirm.Message) []error
	Close(ctx context.Context)
}

// Queue is a connector's dead letter queue. It is safe for concurrent use by
// any number of tasks.
type Queue struct {
	writer Writer
	from   source
}

// Open connects the queue, trying until ctx ends. Errors are those of package
// internal/kafka.
func Open(ctx context.Context, opts Options) (*Queue, error) {
	w, err := confirm.Open(ctx, confirm.Options{
		Connection: opts.Connection, Topic: opts.Topic, What: "dead letter",
		MaxMessageBytes: opts.MaxMessageBytes, MaxBytes: opts.MaxBytes, Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	return Over(w, opts), nil
}

// Over returns a queue over a writer of its own, which it closes. Of opts it needs
// who writes.
func Over(w Writer, opts Options) *Queue {
	return &Queue{writer: w, from: source{connector: opts.Connector, group: opts.Group, sink: opts.Sink}}
}

// Close is as [confirm.Writer.Close].
func (q *Queue) Close(ctx context.Context) { q.writer.Close(ctx) }

// Task returns the queue as task number n of the connector uses it. Closing
// the Queue closes it.
func (q *Queue) Task(n int) *TaskQueue {
	t := &TaskQueue{queue: q, from: q.from}
	t.from.task = n
	return t
}

// TaskQueue is a [Queue] that puts one task's number on its letters. It is safe
// for concurrent use.
type TaskQueue struct {
	queue *Queue
	from  source
}

var _ sharetask.DeadLetterQueue = (*TaskQueue)(nil)

// Write implements [sharetask.DeadLetterQueue], as [confirm.Writer.Write] does.
// A record that carries ten dead letters of the group already is not written.
func (t *TaskQueue) Write(ctx context.Context, letters []sharetask.DeadLetter) []error {
	errs := make([]error, len(letters))
	messages, at := make([]confirm.Message, 0, len(letters)), make([]int, 0, len(letters))
	for i := range letters {
		r := letters[i].Record
		if errs[i] = returned(r, t.from.group); errs[i] != nil {
			continue
		}
		at = append(at, i)
		messages = append(messages, confirm.Message{
			Of:     confirm.Coordinates{Topic: r.Topic, TopicID: r.TopicID, Partition: r.Partition, Offset: r.Offset},
			Record: func(f confirm.Form) *kgo.Record { return message(&letters[i], t.from, f) },
		})
	}
	if len(messages) == 0 {
		return errs
	}
	for k, err := range t.queue.writer.Write(ctx, messages) {
		errs[at[k]] = err
	}
	return errs
}
