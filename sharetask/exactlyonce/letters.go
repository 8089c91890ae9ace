package exactlyonce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/internal/kafka/confirm"
	"github.com/sluicehq/sluice/sharetask/deadletter"
	"github.com/sluicehq/sluice/sharetask/emit"
	"github.com/sluicehq/sluice/sharetask/exactlyonce/intent"
)

// Letters writes dead letters exactly once: a letter is output of its record like
// any other, and a record is written or dead-lettered, not both. It is safe for
// concurrent use; one call writes at a time.
type Letters struct {
	topic      string
	partitions int32

	mu     sync.Mutex
	writer writer // Guarded by mu.
}

var _ deadletter.Writer = (*Letters)(nil)

// Letters returns the writer of dead letters to a topic of so many partitions. name
// is as of [Group.Committer].
func (g *Group) Letters(name, topic string, partitions int32) *Letters {
	return &Letters{topic: topic, partitions: partitions, writer: writer{group: g, id: g.opts.Writers + "-" + name}}
}

// Close drops the connections.
func (l *Letters) Close(context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writer.close()
}

// Write writes the messages, in a transaction for each source partition, and
// returns one error per message, nil for one whose record is known to be written.
// One that is too large is written without its value, or without everything.
func (l *Letters) Write(ctx context.Context, messages []confirm.Message) []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := make([]error, len(messages))
	forms := make([]confirm.Form, len(messages))
	open := make([]int, len(messages))
	for i := range open {
		open[i] = i
	}
	for len(open) > 0 {
		l.try(ctx, messages, forms, open, errs)
		open = slices.DeleteFunc(open, func(i int) bool {
			if errs[i] == nil || !emit.OfRecord(errs[i]) || forms[i].Omit == confirm.All || ctx.Err() != nil {
				return true
			}
			forms[i].Omit++
			return false
		})
	}
	for i, err := range errs {
		if err != nil {
			of := messages[i].Of
			errs[i] = &kafka.Error{
				Action: fmt.Sprintf("write dead letter of %s/%d@%d to %s", of.Topic, of.Partition, of.Offset, strconv.Quote(l.topic)),
				Kind:   kafka.Kind(err), Err: err,
			}
		}
	}
	return errs
}

// try writes those of messages that are open, in their forms.
func (l *Letters) try(ctx context.Context, messages []confirm.Message, forms []confirm.Form, open []int, errs []error) {
	bySource := map[intent.Source][]*item{}
	for _, i := range open {
		m := &messages[i]
		r := m.Record(forms[i])
		r.Topic, r.Partition = l.topic, r.Partition%l.partitions
		of := intent.Source{TopicID: m.Of.TopicID, Partition: m.Of.Partition}
		it := &item{offset: m.Of.Offset, from: i}
		it.outs = append(it.outs, r)
		bySource[of] = append(bySource[of], it)
	}
	for of, items := range bySource {
		slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.offset, b.offset) })
		switch {
		case of.TopicID == [16]byte{}:
			fail(items, errors.New("the id of its topic is not known"))
		case ctx.Err() != nil:
			fail(items, context.Cause(ctx))
		default:
			_ = l.writer.write(ctx, of, items) // The items have it.
		}
		for _, i := range items {
			errs[i.from] = i.err
		}
	}
}
