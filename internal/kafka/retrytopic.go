package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// RetryTopic says which retry topic a connector wants.
type RetryTopic struct {
	Topic     string
	Sources   []string      // The connector's topics.
	Retention time.Duration // How long it must keep a record at least.
}

// retryRetention is how long a retry topic that we make keeps its records, if
// not longer: an outage of the target may last.
const retryRetention = 7 * 24 * time.Hour

// ErrRetryTopic is a topic that cannot hold parked records as it is. The text
// says why and what to do.
var ErrRetryTopic = errors.New("the topic cannot be the retry topic")

// PrepareRetryTopic checks the retry topic, and makes it if it is missing, with
// as many partitions as the source with the most: never compacted, with a
// retention of a week or what is asked for, and with room for records as large
// as the sources allow. A topic that is there is not changed.
func (a *Admin) PrepareRetryTopic(ctx context.Context, r RetryTopic) (PreparedTopic, error) {
	p, config, err := a.prepareOwnTopic(ctx, ownTopic{
		name: r.Topic, what: "retry topic", sources: r.Sources, unfit: ErrRetryTopic,
		config: map[string]string{"retention.ms": strconv.FormatInt(max(r.Retention, retryRetention).Milliseconds(), 10)},
	})
	if err != nil {
		return p, err
	}
	if ms, err := strconv.ParseInt(config["retention.ms"], 10, 64); err == nil && ms >= 0 && ms < r.Retention.Milliseconds() {
		return p, fmt.Errorf("%w: %q keeps records for %v only (retention.ms), and a record may wait there for longer; set it to %d or more",
			ErrRetryTopic, r.Topic, time.Duration(ms)*time.Millisecond, r.Retention.Milliseconds())
	}
	if p.MaxMessageBytes > 0 {
		sources, err := a.Topics(ctx, r.Sources...)
		if err != nil {
			return p, err
		}
		if size := a.largestSource(ctx, sources); p.MaxMessageBytes < size {
			return p, fmt.Errorf("%w: %q takes messages of %d bytes (max.message.bytes), and the topics the connector reads have up to %d; set it to %d",
				ErrRetryTopic, r.Topic, p.MaxMessageBytes, size, size+ownOverheadBytes)
		}
	}
	return p, nil
}
