package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/IBM/sarama"
)

// ownOverheadBytes is how much larger than its original a record with our
// headers may be: a topic we make takes that much more than the largest source.
const ownOverheadBytes = 64 << 10

// ownTopic is a topic that a connector writes its records to beside its target.
type ownTopic struct {
	name, what string
	sources    []string // The connector's topics.
	partitions int      // As the source with the most when 0.
	replicas   int      // The broker's default when -1 or 0; never more than there are brokers.
	unfit      error    // Wrapped where it cannot be used.
	config     map[string]string
}

// PreparedTopic is what a dead letter or retry topic is like.
type PreparedTopic struct {
	Created           bool
	Partitions        int
	ReplicationFactor int
	MaxMessageBytes   int // Of a batch; 0 where it may not be read.
	// Notes say what was chosen or is worth knowing, one sentence each.
	Notes []string
}

func (p *PreparedTopic) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// prepareOwnTopic checks the topic, and makes it if it is missing. It returns
// its configs too, none where they may not be read.
func (a *Admin) prepareOwnTopic(ctx context.Context, o ownTopic) (p PreparedTopic, config map[string]string, err error) {
	if o.name == "" {
		return p, nil, fmt.Errorf("%w: it has no name", o.unfit)
	}
	if slices.Contains(o.sources, o.name) {
		return p, nil, fmt.Errorf("%w: %q is also a topic the connector reads", o.unfit, o.name)
	}
	found, err := a.Topics(ctx, o.name)
	if err != nil {
		return p, nil, err
	}
	if len(found) == 0 {
		err = a.createOwnTopic(ctx, o, &p)
		if err != nil && !errors.Is(err, ErrTopicExists) { // Another worker may have been quicker.
			return p, nil, err
		}
		p.Created = err == nil
		topic, err := a.awaitTopic(ctx, o.name)
		if err != nil {
			return p, nil, err
		}
		found = []Topic{topic}
	}
	p.Partitions = len(found[0].Partitions)
	for _, partition := range found[0].Partitions {
		p.ReplicationFactor = max(p.ReplicationFactor, partition.Replicas)
	}
	if p.Created {
		p.note("%s %q made with %d partitions and replication factor %d", o.what, o.name, p.Partitions, p.ReplicationFactor)
	}
	config, err = a.TopicConfig(ctx, o.name)
	if errors.Is(err, ErrDenied) {
		p.note("the configs of %s %q may not be read (the ACL DESCRIBE_CONFIGS on TOPIC is needed), so they are not checked", o.what, o.name)
		return p, nil, nil
	}
	if err != nil {
		return p, nil, err
	}
	if n, err := strconv.Atoi(config["max.message.bytes"]); err == nil {
		p.MaxMessageBytes = n
	}
	if strings.Contains(config["cleanup.policy"], "compact") {
		return p, nil, fmt.Errorf("%w: %q has cleanup.policy=%s, which drops records of the same key and refuses those without one; set it to delete",
			o.unfit, o.name, config["cleanup.policy"])
	}
	return p, config, nil
}

func (a *Admin) createOwnTopic(ctx context.Context, o ownTopic, p *PreparedTopic) error {
	spec := TopicSpec{Name: o.name, Partitions: o.partitions, ReplicationFactor: o.replicas, Config: o.config}
	spec.Config["cleanup.policy"] = "delete"
	sources, err := a.Topics(ctx, o.sources...)
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
		spec.Config["max.message.bytes"] = strconv.Itoa(min(size, math.MaxInt32-ownOverheadBytes) + ownOverheadBytes)
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
