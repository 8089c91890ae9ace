package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/loader"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/sharetask/consumergroup"
	"github.com/sluicehq/sluice/sharetask/deadletter"
	"github.com/sluicehq/sluice/sharetask/exactlyonce"
	"github.com/sluicehq/sluice/sharetask/parking"
	"github.com/sluicehq/sluice/sharetask/sharegroup"
)

// defaultPutTimeout is a put's time where the connector does not say.
const defaultPutTimeout = time.Minute

// lockMargin is what a put leaves of a lock that cannot be renewed.
const lockMargin = 5 * time.Second

// prepareTimeout bounds preparing the group and topics.
const prepareTimeout = 2 * time.Minute

// shared is what the tasks of one connector have in common while it runs.
type shared struct {
	connector  *connector
	runner     *loader.Runner
	queue      *deadletter.Queue  // Nil means none.
	parking    *parking.Topic     // Nil means none.
	ledger     *exactlyonce.Group // Nil with at-least-once.
	lock       time.Duration      // 0 where the broker does not tell.
	locks      int                // The record-lock window; 0 where the broker does not tell.
	putTimeout time.Duration
	// maxDeliveries is share.max_delivery_count, or less where the broker's
	// limit is so low.
	maxDeliveries int
	deliveryLimit int // The broker's.
	written       *sharetask.Written
	survived      *sharetask.Survived
}

// open opens the plugin, prepares group and topics, and connects the dead
// letter queue. Group configs are in force when it returns.
func (c *connector) open(ctx context.Context) (_ *shared, err error) {
	s := &shared{connector: c, putTimeout: c.def.PutTimeout, written: sharetask.NewWritten(), survived: sharetask.NewSurvived()}
	if s.putTimeout == 0 {
		s.putTimeout = defaultPutTimeout
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(context.WithoutCancel(ctx)))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if s.runner, err = c.bound.plugin.Open(ctx, c.pluginOptions()); err != nil {
		return s, err
	}
	if err := s.prepare(ctx); err != nil {
		return s, sortKafka(err)
	}
	return s, nil
}

// pluginOptions maps the plugin block.
func (c *connector) pluginOptions() loader.Options {
	o := loader.Options{Logger: c.log}
	if p := c.bound.pin; p != nil {
		o.Processes, o.InheritEnv = p.Processes, p.InheritEnv
		if c.bound.plugin.Form == loader.FormWASM { // A process of 64 MiB, the default, would not even start.
			o.MemoryBytes, o.AllowHosts = p.Sandbox.MemoryBytes, p.Sandbox.AllowHosts
		}
		o.Env = make(map[string]string, len(p.Env))
		for k, v := range p.Env {
			o.Env[k] = v.Reveal()
		}
	}
	return o
}

// prepare asks the broker for what the connector needs of it.
func (s *shared) prepare(ctx context.Context) (err error) {
	c, d := s.connector, s.connector.def
	admin, err := kafka.Open(ctx, c.bound.kafka, c.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admin.Close()) }()
	cluster, err := admin.ClusterID(ctx)
	if err != nil {
		return err
	}
	if err := checkGroupFile(c.stateDir, cluster, d.GroupID); err != nil {
		return &stopError{err}
	}
	topics, err := topicsOf(ctx, c.def, admin)
	if err != nil {
		return err
	}
	if d.GroupProtocol == config.GroupShare {
		if err := s.prepareShareGroup(ctx, admin, topics); err != nil {
			return err
		}
	} else if kind, err := admin.GroupKind(ctx, d.GroupID); err != nil {
		return err
	} else if kind != kafka.KindNone && kind != kafka.KindClassic && kind != kafka.KindConsumer {
		return &kafka.GroupKindError{Group: d.GroupID, Is: kind, Want: kafka.KindClassic}
	}
	if d.DeliverySemantics == config.ExactlyOnce {
		if err := s.prepareLedger(ctx, admin, topics); err != nil {
			return err
		}
	}
	if d.DeadLetterQueue != nil {
		if err := s.prepareLetters(ctx, admin, topics); err != nil {
			return err
		}
	}
	switch {
	case d.Retry.Topic != "":
		return s.prepareParking(ctx, admin, topics)
	case d.GroupProtocol == config.GroupShare:
		return c.findParked(ctx, admin)
	default:
		return nil
	}
}

// topicsOf returns the names of the topics a connector reads now.
func topicsOf(ctx context.Context, def *config.Connector, admin *kafka.Admin) ([]string, error) {
	if def.TopicsRegex == "" {
		return def.Topics, nil
	}
	found, err := admin.MatchTopics(ctx, def.TopicPattern(), ownTopics(def)...)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, t := range found {
		names = append(names, t.Name)
	}
	return names, nil
}

// ownTopics returns the topics a connector writes records to that its pattern
// shall not match.
func ownTopics(def *config.Connector) []string {
	var own []string
	if def.DeadLetterQueue != nil {
		own = append(own, def.DeadLetterQueue.Topic)
	}
	if def.Retry.Topic != "" {
		own = append(own, def.Retry.Topic)
	}
	if def.DeliverySemantics == config.ExactlyOnce {
		own = append(own, def.LedgerTopic())
	}
	return own
}

// prepareGroup brings a group's configs into force.
func (c *connector) prepareGroup(ctx context.Context, admin *kafka.Admin, g kafka.ShareGroup) (kafka.Prepared, error) {
	d := c.def
	g.Isolation, g.Lock = d.IsolationLevel, d.Share.AcquisitionLockTimeout
	prepared, err := admin.PrepareShareGroup(ctx, g)
	if err != nil {
		return prepared, err
	}
	for _, change := range prepared.Changed {
		c.log.Info("group config set", "group", g.ID, "setting", change.Setting, "from", change.From, "to", change.To)
	}
	if prepared.Warning != "" {
		c.log.Warn("group prepared with a doubt", "group", g.ID, "warning", prepared.Warning)
	}
	if len(prepared.Missing) > 0 {
		level := slog.LevelWarn
		if c.bound.dev { // It is known to lack some; nobody can do anything about it.
			level = slog.LevelInfo
		}
		c.log.Log(ctx, level, "group configs this broker does not have", "group", g.ID, "settings", prepared.Missing)
	}
	return prepared, nil
}

// prepareShareGroup brings the connector's group's configs into force.
func (s *shared) prepareShareGroup(ctx context.Context, admin *kafka.Admin, topics []string) error {
	c, d := s.connector, s.connector.def
	prepared, err := c.prepareGroup(ctx, admin, kafka.ShareGroup{ID: d.GroupID, Topics: topics, Reset: reset(d), MaxRecordLocks: d.Share.MaxRecordLocks})
	if err != nil {
		return err
	}
	s.lock, s.locks = prepared.Lock, prepared.MaxRecordLocks
	if err := s.limitDeliveries(prepared.DeliveryLimit); err != nil {
		return err
	}
	if !prepared.Renewal {
		lock := s.lock
		if lock == 0 {
			lock = d.Share.AcquisitionLockTimeout
		}
		if most := lock - lockMargin; s.putTimeout > most {
			c.log.Warn("locks cannot be renewed here, puts end before the lock does", "put_timeout", most)
			s.putTimeout = most
		}
	}
	return nil
}

// crashMargin is how many deliveries are left between our limit and the
// broker's, at which it archives a record without a word: for workers that die.
const crashMargin = 2

// kafkaDeliveryLimit is the broker's limit where it does not tell: Kafka's
// default.
const kafkaDeliveryLimit = 5

// limitDeliveries sets the connector's limit below the broker's.
func (s *shared) limitDeliveries(broker int) error {
	d := s.connector.def
	s.maxDeliveries = d.Share.MaxDeliveryCount
	if broker == 0 {
		broker = kafkaDeliveryLimit
	}
	s.deliveryLimit = broker
	most := max(1, broker-crashMargin)
	if s.maxDeliveries <= most {
		return nil
	}
	if d.Ranges.Written("share.max_delivery_count") {
		return &stopError{fmt.Errorf("share.max_delivery_count is %d, but this broker gives a record of group %q up after %d deliveries: "+
			"write at most %d, which leaves %d for crashes", s.maxDeliveries, d.GroupID, broker, most, crashMargin)}
	}
	s.connector.log.Info("deliveries are limited by the broker", "max_delivery_count", most, "broker_limit", broker)
	s.maxDeliveries = most
	return nil
}

// carefulFrom is the delivery count before those at which records are put alone:
// from it on a worker that dies takes few of them along.
func (s *shared) carefulFrom() int { return max(2, s.maxDeliveries-2) }

func reset(d *config.Connector) kafka.Reset {
	switch d.AutoOffsetReset {
	case config.ResetLatest:
		return kafka.Latest()
	case config.ResetByDuration:
		return kafka.Back(d.AutoOffsetBack)
	default:
		return kafka.Earliest()
	}
}

// prepareLetters makes or checks the dead letter topic, the safety net under
// it, and the producer.
func (s *shared) prepareLetters(ctx context.Context, admin *kafka.Admin, topics []string) error {
	c, d := s.connector, s.connector.def
	share := d.GroupProtocol == config.GroupShare
	topic, err := admin.PrepareDeadLetterTopic(ctx, kafka.DeadLetterTopic{
		Topic: d.DeadLetterQueue.Topic, Sources: topics, Partitions: d.DeadLetterQueue.Partitions,
		ReplicationFactor: d.DeadLetterQueue.ReplicationFactor, Net: share && d.DeadLetterQueue.Net,
	})
	if err != nil {
		return err
	}
	for _, note := range topic.Notes {
		c.log.Info("dead letter topic", "topic", d.DeadLetterQueue.Topic, "note", note)
	}
	if share {
		if err := c.prepareNet(ctx, admin, d.GroupID, topics); err != nil {
			return err
		}
		if d.DeadLetterQueue.Broker {
			return nil
		}
	}
	opts := deadletter.Options{
		Connection: c.bound.kafka, Topic: d.DeadLetterQueue.Topic, Connector: d.Name, Group: d.GroupID,
		Sink: c.bound.plugin.Name, MaxMessageBytes: topic.MaxMessageBytes, Logger: c.log,
	}
	if s.ledger != nil {
		s.queue = deadletter.Over(s.ledger.Letters("dead-letters", opts.Topic, int32(topic.Partitions)), opts) //nolint:gosec // As many as a topic has.
		return nil
	}
	s.queue, err = deadletter.Open(ctx, opts)
	return err
}

// prepareNet makes the dead letter topic that of a group as well, if it is to
// be.
func (c *connector) prepareNet(ctx context.Context, admin *kafka.Admin, group string, topics []string) error {
	q := c.def.DeadLetterQueue
	if q == nil || !q.Net {
		return nil
	}
	net, err := admin.SetDeadLetterNet(ctx, group, q.Topic, topics)
	if err != nil {
		return err
	}
	if q.Broker {
		return brokerLetters(group, net)
	}
	if net.Reason != "" {
		c.log.Info("safety net of the broker", "group", group, "on", net.On, "reason", net.Reason)
	}
	return nil
}

// brokerLetters refuses to leave dead letters to a broker that may not write
// them: it would drop each without a word.
func brokerLetters(group string, net kafka.Net) error {
	if net.On && net.Reason == "" {
		return nil
	}
	return &stopError{fmt.Errorf("dead_letter_queue.broker leaves the dead letters of group %q to the broker, which would drop them or may do so: %s; "+
		"put that right, or remove the setting and the host writes them itself", group, net.Reason)}
}

// close releases what open opened.
func (s *shared) close(ctx context.Context) error {
	var errs []error
	if s.queue != nil {
		s.queue.Close(ctx)
	}
	if s.parking != nil {
		s.parking.Close(ctx)
	}
	if s.ledger != nil { // After what writes to it.
		s.ledger.Close()
	}
	if s.runner != nil {
		errs = append(errs, s.runner.Close(ctx))
	}
	return errors.Join(errs...)
}

// source makes the group member of one task. An error surfaces at its Start.
func (s *shared) source(slot *taskSlot) (sharetask.Source, error) {
	d, log := s.connector.def, slot.log
	client := fmt.Sprintf("sluice-%s-%s-%d", s.connector.worker, d.Name, slot.number)
	regex := ""
	if d.TopicsRegex != "" {
		regex = d.TopicPattern()
	}
	if d.GroupProtocol == config.GroupShare {
		o := sharegroup.Options{
			Connection: s.connector.bound.kafka, ClientID: client, Group: d.GroupID, Topics: d.Topics, TopicRegex: regex,
			MemberID: s.connector.memberID(slot), Lock: s.lock, RecordLocks: min(s.locks, sharegroup.LimitRecordLocks), BatchSize: s.connector.batch(), Logger: log,
			CarefulFrom: s.carefulFrom(), Exclude: ownTopics(d),
		}
		main, err := sharegroup.New(o)
		if err != nil || s.parking == nil {
			return main, err
		}
		o.Group, o.Topics, o.TopicRegex, o.Exclude = d.GroupID+retrySuffix, []string{d.Retry.Topic}, "", nil
		o.RecordLocks = min(o.RecordLocks, retryLocks)
		o.CarefulFrom = 0 // What is parked is held until it is due, and comes again many times.
		retry, err := sharegroup.New(o)
		if err != nil {
			return nil, err
		}
		return parking.Join(main, retry, d.Retry.Topic, d.GroupID), nil
	}
	rebalance := d.Consumer.RebalanceTimeout
	if rebalance == 0 {
		rebalance = s.putTimeout + 30*time.Second
	}
	return consumergroup.New(consumergroup.Options{
		Connection: s.connector.bound.kafka, ClientID: client, Group: d.GroupID,
		Topics: d.Topics, TopicRegex: regex,
		Reset:         consumergroup.Reset{Earliest: d.AutoOffsetReset == config.ResetEarliest, By: d.AutoOffsetBack},
		ReadCommitted: d.IsolationLevel == kafka.ReadCommitted, SessionTimeout: d.Consumer.SessionTimeout,
		RebalanceTimeout: rebalance, CommitInterval: d.Consumer.CommitInterval, Logger: log,
	})
}

// sinks returns what makes the sinks of the tasks from first on.
func (s *shared) sinks(first int, log *slog.Logger) sharetask.SinkMaker {
	return func(ctx context.Context, writer int, apart bool) (sharetask.Sink, error) {
		start := s.runner.NewInstance
		if apart {
			start = s.runner.NewIsolated
		}
		task, writer := first+writer/s.connector.def.Parallelism, writer%s.connector.def.Parallelism
		in, err := start(ctx, pluginapi.Config{
			Connector: s.connector.def.Name, Task: task, Writer: writer, Worker: s.connector.worker,
			Values: s.connector.bound.values, Logger: log.With("plugin", s.connector.bound.plugin.Name, "writer", writer),
		})
		if err != nil {
			return nil, err
		}
		return s.emitting(in, task, writer, apart), nil
	}
}

// sortKafka marks the broker's answers that trying again does not change.
func sortKafka(err error) error {
	var setting *kafka.SettingError
	var permission *kafka.PermissionError
	switch {
	case errors.As(err, &setting), errors.As(err, &permission),
		errors.Is(err, kafka.ErrGroupKind), errors.Is(err, kafka.ErrUnsupported),
		errors.Is(err, kafka.ErrDeadLetterTopic), errors.Is(err, kafka.ErrRetryTopic), errors.Is(err, kafka.ErrLedgerTopic):
		return &stopError{err}
	default:
		return err // Unreachable, refused, no such topic: it may be put right while we wait.
	}
}
