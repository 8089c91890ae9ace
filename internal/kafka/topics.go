package kafka

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/IBM/sarama"
)

// Topic is a topic as the cluster describes it.
type Topic struct {
	Name       string
	ID         [16]byte // Zero where the broker has no topic ids.
	Internal   bool
	Partitions []Partition // In order of their ids.
}

// Partition is one partition of a topic.
type Partition struct {
	ID       int32
	Leader   int32 // Broker id; -1 while there is none.
	Replicas int
}

// TopicSpec says how to make a topic.
type TopicSpec struct {
	Name              string
	Partitions        int // The broker's default when 0.
	ReplicationFactor int // The broker's default when 0 or -1.
	Config            map[string]string
}

// Topics returns the named topics that exist, in the order of names. Topics
// that do not exist, or may not be seen, are left out.
func (a *Admin) Topics(ctx context.Context, names ...string) ([]Topic, error) {
	if len(names) == 0 {
		return nil, nil
	}
	found, err := a.describeTopics(ctx, names)
	if err != nil {
		return nil, wrap(err, "describe topics %s", strings.Join(names, ", "))
	}
	topics := make([]Topic, 0, len(names))
	for _, name := range names {
		meta := found[name]
		switch {
		case meta == nil, meta.Err == sarama.ErrUnknownTopicOrPartition, meta.Err == sarama.ErrTopicAuthorizationFailed:
		case meta.Err == sarama.ErrNoError, meta.Err == sarama.ErrLeaderNotAvailable:
			topics = append(topics, newTopic(meta))
		default:
			return nil, wrap(meta.Err, "describe topic %q", name)
		}
	}
	return topics, nil
}

// MatchTopics returns the topics whose whole name matches pattern, as Kafka
// Connect's topics.regex does, in order of their names. Internal topics, names
// that begin with "__", and those in exclude are never among them.
func (a *Admin) MatchTopics(ctx context.Context, pattern string, exclude ...string) ([]Topic, error) {
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return nil, fmt.Errorf("topics_regex %q: %w", pattern, err)
	}
	found, err := a.describeTopics(ctx, nil)
	if err != nil {
		return nil, wrap(err, "list topics")
	}
	var topics []Topic
	for name, meta := range found {
		if meta.IsInternal || strings.HasPrefix(name, "__") || slices.Contains(exclude, name) || !re.MatchString(name) {
			continue
		}
		if meta.Err == sarama.ErrNoError || meta.Err == sarama.ErrLeaderNotAvailable {
			topics = append(topics, newTopic(meta))
		}
	}
	slices.SortFunc(topics, func(x, y Topic) int { return strings.Compare(x.Name, y.Name) })
	return topics, nil
}

// describeTopics returns the metadata of the named topics, of all for none.
func (a *Admin) describeTopics(ctx context.Context, names []string) (map[string]*sarama.TopicMetadata, error) {
	metas, err := await(ctx, &a.calls, func() ([]*sarama.TopicMetadata, error) {
		return a.topics.DescribeTopics(names)
	})
	if err != nil {
		return nil, err
	}
	found := make(map[string]*sarama.TopicMetadata, len(metas))
	for _, m := range metas {
		found[m.Name] = m
	}
	return found, nil
}

func newTopic(meta *sarama.TopicMetadata) Topic {
	t := Topic{Name: meta.Name, ID: meta.Uuid, Internal: meta.IsInternal}
	for _, p := range meta.Partitions {
		leader := p.Leader
		if p.Err == sarama.ErrLeaderNotAvailable {
			leader = -1
		}
		t.Partitions = append(t.Partitions, Partition{ID: p.ID, Leader: leader, Replicas: len(p.Replicas)})
	}
	slices.SortFunc(t.Partitions, func(x, y Partition) int { return int(x.ID - y.ID) })
	return t
}

// CreateTopic makes a topic and returns when every partition has a leader. The
// error keeps the broker's text; its kind is [ErrTopicExists] or [ErrDenied]
// where it is one of them.
func (a *Admin) CreateTopic(ctx context.Context, spec TopicSpec) error {
	detail := &sarama.TopicDetail{NumPartitions: -1, ReplicationFactor: -1, ConfigEntries: map[string]*string{}}
	if spec.Partitions > 0 {
		detail.NumPartitions = int32(spec.Partitions)
	}
	if spec.ReplicationFactor > 0 {
		detail.ReplicationFactor = int16(spec.ReplicationFactor)
	}
	for name, value := range spec.Config {
		detail.ConfigEntries[name] = &value
	}
	_, err := await(ctx, &a.calls, func() (struct{}, error) {
		return struct{}{}, a.topics.CreateTopic(spec.Name, detail, false)
	})
	if err != nil {
		return wrap(err, "create topic %q", spec.Name)
	}
	_, err = a.awaitTopic(ctx, spec.Name)
	return err
}

// awaitTopic waits until a topic that was just made is led everywhere.
func (a *Admin) awaitTopic(ctx context.Context, name string) (Topic, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleTimeout, errors.New("it has no leaders yet"))
	defer cancel()
	var topic Topic
	err := poll(ctx, func() (bool, error) {
		found, err := a.Topics(ctx, name)
		if err != nil || len(found) == 0 {
			return false, err
		}
		topic = found[0]
		led := len(topic.Partitions) > 0
		for _, p := range topic.Partitions {
			led = led && p.Leader >= 0
		}
		return led, nil
	})
	return topic, wrap(err, "wait for topic %q", name)
}

// TopicConfig returns a topic's configs, defaults included.
func (a *Admin) TopicConfig(ctx context.Context, topic string) (map[string]string, error) {
	config, err := a.describeConfig(ctx, sarama.TopicResource, topic)
	return config, wrap(err, "describe configs of topic %q", topic)
}

// brokerConfig returns one broker's configs, any broker's for -1.
func (a *Admin) brokerConfig(ctx context.Context, id int32) (map[string]string, error) {
	if id < 0 {
		brokers := a.sarama.Brokers()
		if len(brokers) == 0 {
			return nil, wrap(sarama.ErrOutOfBrokers, "describe a broker's configs")
		}
		id = brokers[0].ID()
	}
	config, err := a.describeConfig(ctx, sarama.BrokerResource, strconv.Itoa(int(id)))
	return config, wrap(err, "describe configs of broker %d", id)
}

// describeConfig returns the configs of one resource as the broker that is
// asked for such resources has them.
func (a *Admin) describeConfig(ctx context.Context, kind sarama.ConfigResourceType, name string) (map[string]string, error) {
	return await(ctx, &a.calls, func() (map[string]string, error) {
		results, err := a.topics.DescribeConfigs([]*sarama.ConfigResource{{Type: kind, Name: name}}, sarama.DescribeConfigsOptions{})
		if err != nil {
			return nil, err
		}
		config := make(map[string]string)
		for _, r := range results {
			if r.ErrorCode != sarama.ErrNoError {
				return nil, &sarama.DescribeConfigError{Err: r.ErrorCode, ErrMsg: r.ErrorMsg}
			}
			for _, c := range r.Configs {
				config[c.Name] = c.Value
			}
		}
		return config, nil
	})
}
