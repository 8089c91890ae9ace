package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// deadLetterOverheadBytes is how much larger than its original a dead letter
// may be: a topic we make takes that much more than the largest source.
const deadLetterOverheadBytes = 64 << 10

// DeadLetterTopic says which dead letter topic a connector wants.
type DeadLetterTopic struct {
	Topic             string
	Sources           []string // The connector's topics.
	Partitions        int      // As the source with the most when 0.
	ReplicationFactor int      // The broker's default when -1 or 0; never more than there are brokers.
	Net               bool     // It shall serve as the group's own as well; see SetDeadLetterNet.
}

// PreparedTopic is what a dead letter topic is like.
type PreparedTopic struct {
	Created           bool
	Partitions        int
	ReplicationFactor int
	MaxMessageBytes   int // Of a batch; 0 where it may not be read.
	// Notes say what was chosen or is worth knowing, one sentence each.
	Notes []string
}

// ErrDeadLetterTopic is a topic that cannot hold dead letters as it is. The
// text says why and what to do.
var ErrDeadLetterTopic = errors.New("the topic cannot be the dead letter queue")

// PrepareDeadLetterTopic checks the dead letter topic, and makes it if it is
// missing: never compacted, kept until purged, and with room for records as
// large as the sources allow. A topic that is there is not changed.
func (a *Admin) PrepareDeadLetterTopic(ctx context.Context, d DeadLetterTopic) (PreparedTopic, error) {
	var p PreparedTopic
	if d.Topic == "" {
		return p, fmt.Errorf("%w: it has no name", ErrDeadLetterTopic)
	}
	if slices.Contains(d.Sources, d.Topic) {
		return p, fmt.Errorf("%w: %q is also a topic the connector reads", ErrDeadLetterTopic, d.Topic)
	}
	found, err := a.Topics(ctx, d.Topic)
	if err != nil {
		return p, err
	}
	if len(found) == 0 {
		err = a.createDeadLetterTopic(ctx, d, &p)
		if err != nil && !errors.Is(err, ErrTopicExists) { // Another worker may have been quicker.
			return p, err
		}
		p.Created = err == nil
		topic, err := a.awaitTopic(ctx, d.Topic)
		if err != nil {
			return p, err
		}
		found = []Topic{topic}
	}
	p.Partitions = len(found[0].Partitions)
	for _, partition := range found[0].Partitions {
		p.ReplicationFactor = max(p.ReplicationFactor, partition.Replicas)
	}
	if p.Created {
		p.note("dead letter topic %q made with %d partitions and replication factor %d", d.Topic, p.Partitions, p.ReplicationFactor)
	}
	return p, a.checkDeadLetterTopic(ctx, d, &p)
}

func (p *PreparedTopic) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

func (a *Admin) createDeadLetterTopic(ctx context.Context, d DeadLetterTopic, p *PreparedTopic) error {
	spec := TopicSpec{
		Name: d.Topic, Partitions: d.Partitions, ReplicationFactor: d.ReplicationFactor,
		Config: map[string]string{
			"cleanup.policy": "delete",
			// A dead letter keeps its record's timestamp, so that of an old
			// record would be deleted at once under the default.
			"retention.ms": "-1",
		},
	}
	sources, err := a.Topics(ctx, d.Sources...)
	if err != nil {
		return err
	}
	if spec.Partitions == 0 {
		spec.Partitions = 1
		for _, t := range sources {
			spec.Partitions = max(spec.Partitions, len(t.Partitions))
		}
	}
	if size := a.largestSource(ctx, sources); size > 0 {
		spec.Config["max.message.bytes"] = strconv.Itoa(min(size, math.MaxInt32-deadLetterOverheadBytes) + deadLetterOverheadBytes)
	}
	if d.Net {
		c, err := a.Capabilities(ctx)
		if err != nil {
			return err
		}
		// Older brokers refuse a topic with a config they do not know.
		if c.DeadLetterNet {
			spec.Config[topicDeadLetterEnable] = "true"
		}
	}
	brokers, err := a.brokers(ctx)
	if err != nil {
		return err
	}
	if spec.ReplicationFactor > brokers {
		p.note("replication factor %d instead of %d: the cluster has no more brokers", brokers, spec.ReplicationFactor)
		spec.ReplicationFactor = brokers
	}
	err = a.CreateTopic(ctx, spec)
	if spec.ReplicationFactor <= 0 && errors.Is(err, sarama.ErrInvalidReplicationFactor) {
		// The broker's default does not fit its own cluster.
		p.note("replication factor %d instead of the broker's default: the cluster has no more brokers", brokers)
		spec.ReplicationFactor = brokers
		err = a.CreateTopic(ctx, spec)
	}
	return err
}

// brokers returns how many brokers there are.
func (a *Admin) brokers(ctx context.Context) (int, error) {
	n, err := await(ctx, &a.calls, func() (int, error) {
		brokers, _, err := a.topics.DescribeCluster()
		return len(brokers), err
	})
	return n, wrap(err, "describe cluster")
}

// largestSource returns the largest max.message.bytes of topics, 0 where it may
// not be read; then the broker's default is as good a guess.
func (a *Admin) largestSource(ctx context.Context, topics []Topic) int {
	size := 0
	for _, t := range topics {
		config, err := a.TopicConfig(ctx, t.Name)
		if err != nil {
			a.log.Debug("source topic's size limit unknown", "topic", t.Name, "err", err)
			continue
		}
		if n, err := strconv.Atoi(config["max.message.bytes"]); err == nil {
			size = max(size, n)
		}
	}
	return size
}

// checkDeadLetterTopic refuses a topic that would lose dead letters, and notes
// what its owner should know.
func (a *Admin) checkDeadLetterTopic(ctx context.Context, d DeadLetterTopic, p *PreparedTopic) error {
	config, err := a.TopicConfig(ctx, d.Topic)
	if errors.Is(err, ErrDenied) {
		p.note("the configs of dead letter topic %q may not be read (the ACL DESCRIBE_CONFIGS on TOPIC is needed), so they are not checked", d.Topic)
		return nil
	}
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(config["max.message.bytes"]); err == nil {
		p.MaxMessageBytes = n
	}
	if strings.Contains(config["cleanup.policy"], "compact") {
		return fmt.Errorf("%w: %q has cleanup.policy=%s, which drops dead letters of the same key and refuses those without one; set it to delete",
			ErrDeadLetterTopic, d.Topic, config["cleanup.policy"])
	}
	if ms, err := strconv.ParseInt(config["retention.ms"], 10, 64); err == nil && ms >= 0 {
		p.note("dead letter topic %q keeps records for %v, counted from the original record's timestamp (retention.ms)",
			d.Topic, time.Duration(ms)*time.Millisecond)
	}
	if config["message.timestamp.type"] == "LogAppendTime" {
		p.note("dead letter topic %q replaces the records' timestamps (message.timestamp.type=LogAppendTime)", d.Topic)
	}
	return nil
}
