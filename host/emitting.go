package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/sharetask/emit"
	"github.com/sluicehq/sluice/sharetask/exactlyonce"
	"github.com/sluicehq/sluice/sharetask/exactlyonce/intent"
)

// emitting returns a writer's sink together with what produces the records it
// emits, if it does so.
func (s *shared) emitting(sink sharetask.Sink, task, writer int, apart bool) sharetask.Sink {
	c := s.connector
	if !c.bound.plugin.Description.Can(pluginapi.CanEmit) {
		return sink
	}
	name := fmt.Sprintf("%d-%d", task, writer)
	if apart { // Both of a writer's sinks may be there.
		name += "-apart"
	}
	if s.ledger != nil {
		return emit.New(sink, s.ledger.Committer(name))
	}
	return emit.New(sink, emit.NewProducer(emit.Options{
		Connection: c.bound.kafka, Encoder: c.bound.chain, ClientID: fmt.Sprintf("sluice-%s-%s-%s", c.worker, c.def.Name, name),
	}))
}

// prepareLedger makes or checks the ledger topic of an exactly-once connector, and
// begins to follow it.
func (s *shared) prepareLedger(ctx context.Context, admin *kafka.Admin, topics []string) error {
	c, d := s.connector, s.connector.def
	topic, err := admin.PrepareLedgerTopic(ctx, kafka.LedgerTopic{Topic: d.LedgerTopic(), Sources: topics})
	if err != nil {
		return err
	}
	for _, note := range topic.Notes {
		c.log.Info("ledger topic", "topic", d.LedgerTopic(), "note", note)
	}
	s.ledger, err = exactlyonce.Open(exactlyonce.Options{
		Connection: c.bound.kafka, Writers: d.GroupID + "-" + c.worker, Topic: d.LedgerTopic(), Partitions: int32(topic.Partitions), //nolint:gosec // As many as a topic has.

		Encoder: c.bound.chain, TransactionTimeout: s.lock, Positions: c.positions, Logger: c.log,
	})
	return err
}

// positions returns where the connector's group goes on in each source partition.
func (c *connector) positions(ctx context.Context) (_ map[intent.Source]int64, err error) {
	admin, err := kafka.Open(ctx, c.bound.kafka, c.log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, admin.Close()) }()
	kind := kafka.KindShare
	if c.def.GroupProtocol == config.GroupConsumer {
		kind = kafka.KindClassic
	}
	positions, err := admin.GroupPositions(ctx, c.def.GroupID, kind)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(positions))
	for i := range positions {
		names[i] = positions[i].Topic
	}
	topics, err := admin.Topics(ctx, names...)
	if err != nil {
		return nil, err
	}
	ids := make(map[string][16]byte, len(topics))
	for _, t := range topics {
		ids[t.Name] = t.ID
	}
	out := make(map[intent.Source]int64, len(positions))
	for _, p := range positions {
		if id, ok := ids[p.Topic]; ok && p.Offset >= 0 {
			out[intent.Source{TopicID: id, Partition: p.Partition}] = p.Offset
		}
	}
	return out, nil
}
