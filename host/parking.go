package host

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/sharetask/parking"
)

const (
	// retrySuffix is what the retry topic's group has more in its name.
	retrySuffix = ".retry"
	// retryLocks bounds what is read ahead of each partition of the retry topic.
	retryLocks = 1000
	// minRetention and retentionFactor say how long a parked record must be kept
	// at least: through all its tries, and an outage.
	minRetention    = 24 * time.Hour
	retentionFactor = 10
)

// prepareParking makes or checks the retry topic and its group, and the producer.
func (s *shared) prepareParking(ctx context.Context, admin *kafka.Admin, topics []string) error {
	c, d := s.connector, s.connector.def
	topic, err := admin.PrepareRetryTopic(ctx, kafka.RetryTopic{
		Topic: d.Retry.Topic, Sources: topics, Retention: max(minRetention, retentionFactor*d.Retry.MaxElapsed),
	})
	if err != nil {
		return err
	}
	for _, note := range topic.Notes {
		c.log.Info("retry topic", "topic", d.Retry.Topic, "note", note)
	}
	// What is parked is read from the beginning, wherever the connector began.
	group := d.GroupID + retrySuffix
	if _, err := c.prepareGroup(ctx, admin, kafka.ShareGroup{
		ID: group, Topics: []string{d.Retry.Topic}, Reset: kafka.Earliest(), MaxRecordLocks: min(retryLocks, d.Share.MaxRecordLocks),
	}); err != nil {
		return err
	}
	if err := c.prepareNet(ctx, admin, group, []string{d.Retry.Topic}); err != nil {
		return err
	}
	s.parking, err = parking.Open(ctx, parking.Options{
		Connection: c.bound.kafka, Topic: d.Retry.Topic, Group: d.GroupID, MaxMessageBytes: topic.MaxMessageBytes, Logger: c.log,
	})
	return err
}

// ParkedError is a group whose retry topic holds records nobody would read.
type ParkedError struct {
	Group   string
	Topics  []string
	Records int64
}

// Error says how many there are and what to do.
func (e *ParkedError) Error() string {
	return fmt.Sprintf("%d records of group %q are parked in %q: let the connector run with its retry block until they are put, "+
		"or delete group %q if they are not wanted", e.Records, e.Group, e.Topics, e.Group+retrySuffix)
}

// parkedAdmin is what parked asks of the cluster.
type parkedAdmin interface {
	GroupKind(ctx context.Context, group string) (kafka.GroupKind, error)
	GroupPositions(ctx context.Context, group string, kind kafka.GroupKind) ([]kafka.GroupPosition, error)
}

// parked returns what is parked and undecided of a group; nil for nothing.
func parked(ctx context.Context, admin parkedAdmin, group string) (*ParkedError, error) {
	retry := group + retrySuffix
	if kind, err := admin.GroupKind(ctx, retry); err != nil || kind != kafka.KindShare {
		return nil, err
	}
	positions, err := admin.GroupPositions(ctx, retry, kafka.KindShare)
	if err != nil {
		return nil, err
	}
	e := &ParkedError{Group: group}
	for _, p := range positions {
		e.Records += max(p.Lag, 0)
		if n := len(e.Topics); n == 0 || e.Topics[n-1] != p.Topic {
			e.Topics = append(e.Topics, p.Topic)
		}
	}
	if e.Records == 0 {
		return nil, nil
	}
	return e, nil
}

// findParked warns of records that an earlier definition of the connector
// parked. That it cannot look is no reason not to run.
func (c *connector) findParked(ctx context.Context, admin *kafka.Admin) error {
	left, err := parked(ctx, admin, c.def.GroupID)
	switch {
	case ctx.Err() != nil:
		return err
	case err != nil:
		c.log.Debug("whether records are parked is unknown", "err", err)
	case left != nil:
		c.log.Warn("records are parked that nobody reads", "err", left)
	}
	return nil
}
