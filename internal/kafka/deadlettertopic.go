package kafka

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// DeadLetterTopic says which dead letter topic a connector wants.
type DeadLetterTopic struct {
	Topic             string
	Sources           []string // The connector's topics.
	Partitions        int      // As the source with the most when 0.
	ReplicationFactor int      // The broker's default when -1 or 0; never more than there are brokers.
	Net               bool     // It shall serve as the group's own as well; see SetDeadLetterNet.
}

// ErrDeadLetterTopic is a topic that cannot hold dead letters as it is. The
// text says why and what to do.
var ErrDeadLetterTopic = errors.New("the topic cannot be the dead letter queue")

// PrepareDeadLetterTopic checks the dead letter topic, and makes it if it is
// missing: never compacted, kept until purged, and with room for records as
// large as the sources allow. A topic that is there is not changed.
func (a *Admin) PrepareDeadLetterTopic(ctx context.Context, d DeadLetterTopic) (PreparedTopic, error) {
	own := ownTopic{
		name: d.Topic, what: "dead letter topic", sources: d.Sources, partitions: d.Partitions, replicas: d.ReplicationFactor,
		unfit: ErrDeadLetterTopic,
		// A dead letter keeps its record's timestamp, so that of an old record
		// would be deleted at once under the default.
		config: map[string]string{"retention.ms": "-1"},
	}
	if d.Net {
		c, err := a.Capabilities(ctx)
		if err != nil {
			return PreparedTopic{}, err
		}
		// Older brokers refuse a topic with a config they do not know.
		if c.DeadLetterNet {
			own.config[topicDeadLetterEnable] = "true"
		}
	}
	p, config, err := a.prepareOwnTopic(ctx, own)
	if err != nil {
		return p, err
	}
	if ms, err := strconv.ParseInt(config["retention.ms"], 10, 64); err == nil && ms >= 0 {
		p.note("dead letter topic %q keeps records for %v, counted from the original record's timestamp (retention.ms)",
			d.Topic, time.Duration(ms)*time.Millisecond)
	}
	if config["message.timestamp.type"] == "LogAppendTime" {
		p.note("dead letter topic %q replaces the records' timestamps (message.timestamp.type=LogAppendTime)", d.Topic)
	}
	return p, nil
}
