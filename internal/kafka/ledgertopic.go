package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// LedgerTopic says which topic holds the claims of an exactly-once connector.
type LedgerTopic struct {
	Topic   string
	Sources []string // The connector's topics.
}

// ErrLedgerTopic is a topic, or a cluster, that cannot keep the promise of
// exactly-once as it is. The text says why and what to do.
var ErrLedgerTopic = errors.New("exactly-once is not possible")

const (
	transactionVersionFeature = "transaction.version"
	transactionStateTopic     = "__transaction_state"
	// ledgerReplicas and ledgerInSync are what survives the loss of a broker, and
	// lets nothing be confirmed that one broker alone has.
	ledgerReplicas = 3
	ledgerInSync   = 2
)

// PrepareLedgerTopic checks that the cluster can keep the promise, and the ledger
// topic, and makes that if it is missing: with as many partitions as the source
// with the most, kept for ever (what is not needed any more is deleted by who
// writes it). A topic that is there is not changed. On a cluster of fewer than
// three brokers, on which one disk is everything, a note says so.
func (a *Admin) PrepareLedgerTopic(ctx context.Context, l LedgerTopic) (PreparedTopic, error) {
	version, err := a.transactionVersion(ctx)
	if err != nil {
		return PreparedTopic{}, err
	}
	if version < 2 {
		return PreparedTopic{}, fmt.Errorf("%w: the cluster's feature transaction.version is %d, and what is late of a transaction could join the next one "+
			"below 2 (KIP-890); upgrade it: kafka-features.sh upgrade --feature transaction.version=2", ErrLedgerTopic, version)
	}
	brokers, err := a.brokers(ctx)
	if err != nil {
		return PreparedTopic{}, err
	}
	replicas, inSync := min(brokers, ledgerReplicas), min(brokers, ledgerInSync)
	p, config, err := a.prepareOwnTopic(ctx, ownTopic{
		name: l.Topic, what: "ledger topic", sources: l.Sources, replicas: replicas, unfit: ErrLedgerTopic,
		config: map[string]string{
			"retention.ms": "-1", "retention.bytes": "-1", "min.insync.replicas": strconv.Itoa(inSync), "unclean.leader.election.enable": "false",
		},
	})
	if err != nil {
		return p, err
	}
	if err := fitLedger(l.Topic, p.ReplicationFactor, replicas, inSync, config); err != nil {
		return p, err
	}
	if brokers < ledgerReplicas {
		p.note("the cluster has fewer than three brokers (%d), so exactly-once holds only for as long as no disk is lost", brokers)
	}
	return p, a.fitTransactions(ctx, replicas, inSync)
}

// fitLedger checks a ledger topic's settings, as far as they may be read.
func fitLedger(topic string, have, replicas, inSync int, config map[string]string) error {
	if have < replicas {
		return fmt.Errorf("%w: ledger topic %q has %d replicas; give it %d", ErrLedgerTopic, topic, have, replicas)
	}
	for _, c := range []struct {
		setting, want string
		ok            func(value string) bool
	}{
		{"retention.ms", "-1", func(v string) bool { return v == "-1" }},
		{"retention.bytes", "-1", func(v string) bool { return v == "-1" }},
		{"unclean.leader.election.enable", "false", func(v string) bool { return v == "false" }},
		{"min.insync.replicas", strconv.Itoa(inSync), func(v string) bool { n, err := strconv.Atoi(v); return err == nil && n >= inSync }},
	} {
		if v, known := config[c.setting]; known && !c.ok(v) {
			return fmt.Errorf("%w: ledger topic %q has %s=%s; set it to %s", ErrLedgerTopic, topic, c.setting, v, c.want)
		}
	}
	return nil
}

// fitTransactions checks the topic in which the brokers keep transactions. Before
// the first one there is none.
func (a *Admin) fitTransactions(ctx context.Context, replicas, inSync int) error {
	found, err := a.Topics(ctx, transactionStateTopic)
	if err != nil || len(found) == 0 {
		return err
	}
	for _, p := range found[0].Partitions {
		if p.Replicas < replicas {
			return fmt.Errorf("%w: topic %s has %d replicas, so that transactions can be lost; give it %d, and set the brokers' transaction.state.log.replication.factor",
				ErrLedgerTopic, transactionStateTopic, p.Replicas, replicas)
		}
	}
	config, err := a.TopicConfig(ctx, transactionStateTopic)
	if errors.Is(err, ErrDenied) {
		return nil
	}
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(config["min.insync.replicas"]); err == nil && n < inSync {
		return fmt.Errorf("%w: topic %s has min.insync.replicas=%d, so that a transaction's end can be lost; set it to %d, and the brokers' transaction.state.log.min.isr",
			ErrLedgerTopic, transactionStateTopic, n, inSync)
	}
	return nil
}

// transactionVersion returns the cluster's level of transaction.version.
func (a *Admin) transactionVersion(ctx context.Context) (int, error) {
	versions, err := a.groups.ApiVersions(ctx)
	if err != nil {
		return 0, wrap(err, "ask brokers for their versions")
	}
	level := 0
	for _, v := range versions {
		if v.Err != nil {
			return 0, wrap(v.Err, "ask broker %d for its versions", v.NodeID)
		}
		level = max(level, finalized(v, transactionVersionFeature))
	}
	return level, nil
}
