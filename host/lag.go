package host

import (
	"context"
	"time"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/host/metrics"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/sharetask"
)

const (
	// lagEvery is how often a share group is asked for its lag at most.
	lagEvery = 30 * time.Second
	// lagTimeout bounds asking.
	lagTimeout = 10 * time.Second
)

// lagging is a source that knows how far it is behind.
type lagging interface {
	Lags() map[sharetask.TopicPartition]int64
}

// lagReader asks how far a share group is behind.
type lagReader interface {
	Read(ctx context.Context) ([]kafka.GroupPosition, error)
	Close()
}

// measureLag brings the lag up to date: members of a consumer group know theirs;
// of a share group the broker is asked, and the answer shown at a later scrape.
func (c *connector) measureLag() {
	if c.def.GroupProtocol == config.GroupShare {
		select {
		case c.scraped <- struct{}{}:
		default:
		}
		return
	}
	lags := map[metrics.Partition]int64{}
	for _, slot := range c.tasks {
		slot.mu.Lock()
		source := slot.lag
		slot.mu.Unlock()
		if source == nil {
			continue
		}
		for tp, n := range source.Lags() {
			lags[metrics.Partition{Topic: tp.Topic, Number: tp.Partition}] = n
		}
	}
	c.lag.Set(lags)
}

// watchLag asks for a share group's lag when the metrics were scraped, but not
// more often than every lagEvery, until ctx ends. What fails is said once, and
// disturbs nothing else.
func (c *connector) watchLag(ctx context.Context) {
	reader, err := c.lagOf()
	if err != nil {
		c.log.Warn("lag is not known", "group", c.def.GroupID, "err", err)
		return
	}
	defer reader.Close()
	defer c.lag.Set(nil)
	failed := false
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-c.scraped:
		}
		lags, err := c.readLag(ctx, reader)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failed:
			c.log.Warn("lag is not known, asking again when the metrics are asked for", "group", c.def.GroupID, "err", err)
		case err == nil && failed:
			c.log.Info("lag is known again", "group", c.def.GroupID)
		}
		failed = err != nil
		c.lag.Set(lags) // Rather none than an old one.
		pause.Reset(lagEvery)
	}
}

// readLag asks once, and keeps what the connector reads.
func (c *connector) readLag(ctx context.Context, reader lagReader) (map[metrics.Partition]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, lagTimeout)
	defer cancel()
	positions, err := reader.Read(ctx)
	lags := map[metrics.Partition]int64{}
	for _, p := range positions {
		if c.def.Reads(p.Topic) {
			lags[metrics.Partition{Topic: p.Topic, Number: p.Partition}] = p.Lag
		}
	}
	return lags, err
}
