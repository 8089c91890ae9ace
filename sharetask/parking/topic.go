package parking

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/internal/kafka/confirm"
	"github.com/sluicehq/sluice/sharetask"
)

// Options say where records are parked.
type Options struct {
	Connection      kafka.Connection
	Topic           string // It must exist: see kafka.Admin.PrepareRetryTopic.
	Group           string // The connector's, of the topics it reads.
	MaxMessageBytes int    // As in [confirm.Options].
	Logger          *slog.Logger
}

// Topic is a connector's retry topic. It is safe for concurrent use by any
// number of tasks.
type Topic struct {
	writer *confirm.Writer
	group  string
}

var _ sharetask.Parking = (*Topic)(nil)

// Open connects the topic, trying until ctx ends. Errors are those of package
// internal/kafka.
func Open(ctx context.Context, opts Options) (*Topic, error) {
	w, err := confirm.Open(ctx, confirm.Options{
		Connection: opts.Connection, Topic: opts.Topic, What: "parked record", Whole: true,
		MaxMessageBytes: opts.MaxMessageBytes, Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Topic{writer: w, group: opts.Group}, nil
}

// Close is as [confirm.Writer.Close].
func (t *Topic) Close(ctx context.Context) { t.writer.Close(ctx) }

// Park implements [sharetask.Parking], as [confirm.Writer.Write] does.
func (t *Topic) Park(ctx context.Context, records []sharetask.Parked) []error {
	messages := make([]confirm.Message, len(records))
	for i := range records {
		o := &records[i].Origin
		messages[i] = confirm.Message{
			Of:     confirm.Coordinates{Topic: o.Topic, TopicID: o.TopicID, Partition: o.Partition, Offset: o.Offset},
			Record: func(confirm.Form) *kgo.Record { return message(&records[i], t.group) },
		}
	}
	return t.writer.Write(ctx, messages)
}
