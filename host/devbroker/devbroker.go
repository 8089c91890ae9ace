// Package devbroker runs the embedded broker of `sluice dev`: franz-go's kfake,
// a Kafka in this process that speaks share groups, with topics in memory. It
// is for a first look with nothing installed; docs/development.md lists where
// it differs from a real broker.
package devbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Broker is a running embedded broker.
type Broker struct {
	cluster *kfake.Cluster
	client  *kgo.Client
}

// Start starts a broker with one partition per topic named, listening on
// loopback. It returns once the broker answers.
func Start(ctx context.Context, topics []string) (*Broker, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...),
		kfake.BrokerConfigs(map[string]string{"group.share.record.lock.duration.ms": "30000"}))
	if err != nil {
		return nil, fmt.Errorf("start embedded broker: %w", err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ClientID("sluice-dev"))
	if err != nil {
		cluster.Close()
		return nil, fmt.Errorf("connect to the embedded broker: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := kadm.NewClient(client).ListTopics(ctx); err != nil {
		client.Close()
		cluster.Close()
		return nil, fmt.Errorf("ask the embedded broker for its topics: %w", err)
	}
	return &Broker{cluster: cluster, client: client}, nil
}

// Bootstrap returns the broker's addresses.
func (b *Broker) Bootstrap() []string { return b.cluster.ListenAddrs() }

// Produce writes one record and waits until it is stored.
func (b *Broker) Produce(ctx context.Context, topic string, key, value []byte) error {
	r := &kgo.Record{Topic: topic, Key: key, Value: value}
	if err := b.client.ProduceSync(ctx, r).FirstErr(); err != nil {
		return fmt.Errorf("produce to %s: %w", topic, err)
	}
	return nil
}

// Close stops the broker; what it holds is gone.
func (b *Broker) Close() {
	b.client.Close()
	b.cluster.Close()
}
