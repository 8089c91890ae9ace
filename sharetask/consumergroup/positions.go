package consumergroup

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"golang.org/x/sync/errgroup"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// lookups is how many questions about offsets are asked at once.
const lookups = 8

// positions fills a with the partitions of an assignment and their first
// positions: the group's, or the reset policy's where it has none or one that
// no longer exists.
func (s *Source) positions(group sarama.ConsumerGroupSession, a *assignment) error {
	claims := group.Claims()
	if len(claims) == 0 {
		return nil
	}
	committed, err := s.admin.ListConsumerGroupOffsets(s.opts.Group, claims)
	if err != nil {
		return fmt.Errorf("read the group's positions: %w", err)
	}
	var ask errgroup.Group
	ask.SetLimit(lookups)
	for topic, partitions := range claims {
		id, timestamps, err := s.describeTopic(topic)
		if err != nil {
			return fmt.Errorf("look up the id of topic %s: %w", topic, err)
		}
		young := s.remember(topic, id)
		for _, number := range partitions {
			known := first{at: -1, young: young}
			if block := committed.GetBlock(topic, number); block != nil {
				if block.Err != sarama.ErrNoError {
					return fmt.Errorf("read the group's position in %s-%d: %w", topic, number, block.Err)
				}
				known.at, known.ours = block.Offset, block.Metadata == tag(id)
				if known.at >= 0 && (ofAnother(block.Metadata, id) || young && !known.ours) {
					s.log.Warn("position is one in a topic that was deleted", "topic", topic, "partition", number, "offset", known.at)
					known.at, known.young = -1, true
				}
			}
			p := &partition{timestamps: timestamps}
			p.TopicPartition = sharetask.TopicPartition{Topic: topic, TopicID: id, Partition: number}
			a.parts[partitionKey{topic, number}] = p
			ask.Go(func() error { return s.position(group, p, known) })
		}
	}
	return ask.Wait()
}

// first is what is known of where to begin.
type first struct {
	at    int64 // The group's position, or -1.
	ours  bool  // It says which topic it is in.
	young bool  // All that is in the topic is to be read where there is no position.
}

// position sets where p begins.
func (s *Source) position(group sarama.ConsumerGroupSession, p *partition, known first) error {
	committed := known.at
	oldest, err := s.member.GetOffset(p.Topic, p.Partition, sarama.OffsetOldest)
	if err != nil {
		return fmt.Errorf("look up the start of %s-%d: %w", p.Topic, p.Partition, err)
	}
	newest, err := s.member.GetOffset(p.Topic, p.Partition, sarama.OffsetNewest)
	if err != nil {
		return fmt.Errorf("look up the end of %s-%d: %w", p.Topic, p.Partition, err)
	}
	p.firstEnd = newest
	if committed >= oldest && committed <= newest {
		p.tracker = newTracker(committed, committed)
		if !known.ours {
			p.tracker.committed = -1 // Commits it again, with the topic it is in.
		}
		return nil
	}
	start := newest
	switch {
	case s.opts.Reset.Earliest, known.young && committed < 0:
		start = oldest
	case s.opts.Reset.By > 0:
		start, err = s.member.GetOffset(p.Topic, p.Partition, time.Now().Add(-s.opts.Reset.By).UnixMilli())
		if err != nil {
			return fmt.Errorf("look up the position of %v ago in %s-%d: %w", s.opts.Reset.By, p.Topic, p.Partition, err)
		}
		if start < 0 { // Nothing is that new.
			start = newest
		}
	}
	if committed >= 0 {
		s.log.Warn("position is out of range", "topic", p.Topic, "partition", p.Partition, "offset", committed,
			"log_start", oldest, "log_end", newest, "reset", s.opts.Reset.String(), "reset_to", start)
	}
	// The broker has no usable position: commit this one before any record, so
	// that a restart begins here too.
	p.tracker = newTracker(start, -1)
	group.MarkOffset(p.Topic, p.Partition, start, "")
	group.ResetOffset(p.Topic, p.Partition, start, "")
	return nil
}

// describeTopic returns a topic's id, zero from a broker that has none, and
// what its timestamps are, as far as the broker tells. The timestamp type is the
// topic's setting now: the library drops what a batch says of itself.
func (s *Source) describeTopic(topic string) (pluginapi.TopicID, pluginapi.TimestampType, error) {
	timestamps := pluginapi.CreateTime
	topics, err := s.admin.DescribeTopics([]string{topic})
	if err != nil {
		return pluginapi.TopicID{}, timestamps, err
	}
	if len(topics) != 1 || topics[0].Err != sarama.ErrNoError && topics[0].Err != sarama.ErrLeaderNotAvailable {
		return pluginapi.TopicID{}, timestamps, topicError(topics)
	}
	id := pluginapi.TopicID(topics[0].Uuid)
	const setting = "message.timestamp.type"
	results, err := s.admin.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{setting}}}, sarama.DescribeConfigsOptions{})
	if err != nil {
		s.log.Debug("timestamp type is not known", "topic", topic, "err", err)
	}
	for _, r := range results {
		for _, e := range r.Configs {
			if e.Name == setting && e.Value == "LogAppendTime" {
				timestamps = pluginapi.LogAppendTime
			}
		}
	}
	return id, timestamps, nil
}

func topicError(topics []*sarama.TopicMetadata) error {
	if len(topics) != 1 {
		return sarama.ErrIncompleteResponse
	}
	return topics[0].Err
}
