package kafkatest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// requestTimeout bounds each helper that talks to the brokers.
const requestTimeout = 3 * time.Minute

// Client returns a client of the plaintext listeners that is closed when the test ends.
func (c *Cluster) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Bootstrap()...)}, opts...)...)
	if err != nil {
		t.Fatalf("make client: %v", err)
	}
	t.Cleanup(client.Close)
	return client
}

// Admin returns an administration client that is closed when the test ends.
func (c *Cluster) Admin(t testing.TB) *kadm.Client {
	t.Helper()
	return kadm.NewClient(c.Client(t))
}

// Name makes a name for a topic or group that no other test uses: the test's own and a random ending.
func Name(t testing.TB) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			return r
		default:
			return '-'
		}
	}, t.Name())
	if len(clean) > 100 {
		clean = clean[:100]
	}
	return clean + "-" + strings.ToLower(rand.Text()[:8])
}

// Topic creates a topic with a new name (see [Name]) and returns the name. The replication factor is the cluster's default.
func (c *Cluster) Topic(t testing.TB, partitions int) string {
	t.Helper()
	name := Name(t)
	c.CreateTopic(t, name, partitions, -1, nil)
	return name
}

// CreateTopic creates a topic and waits until every running broker knows its leaders. A replication of -1 is the cluster's default (3 with three
// brokers or more, else 1). configs are topic settings such as "retention.ms"; nil for none.
func (c *Cluster) CreateTopic(t testing.TB, name string, partitions, replication int, configs map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	admin := c.Admin(t)
	values := make(map[string]*string, len(configs))
	for k, v := range configs {
		values[k] = &v
	}
	if _, err := admin.CreateTopic(ctx, int32(partitions), int16(replication), values, name); err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	for _, b := range c.brokers {
		if b.running() {
			c.awaitTopic(ctx, t, b, name, partitions)
		}
	}
}

// DeleteTopic deletes a topic and waits until no running broker knows it. Until then they take records for it, though the deletion is answered.
func (c *Cluster) DeleteTopic(t testing.TB, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	if _, err := c.Admin(t).DeleteTopic(ctx, name); err != nil {
		t.Fatalf("delete topic %s: %v", name, err)
	}
	for _, b := range c.brokers {
		if b.running() {
			c.awaitTopic(ctx, t, b, name, 0)
		}
	}
}

// awaitTopic polls one broker until it names a leader for each partition.
func (c *Cluster) awaitTopic(ctx context.Context, t testing.TB, b *broker, name string, partitions int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()[b.index]), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatalf("make client: %v", err)
	}
	defer client.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		topics, err := kadm.NewClient(client).ListTopics(ctx, name)
		led := 0
		if err == nil {
			for _, p := range topics[name].Partitions {
				if p.Err == nil && p.Leader >= 0 {
					led++
				}
			}
		}
		if err == nil && led == partitions {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("broker %d knows leaders of %d of %d partitions of %s: %v", b.index, led, partitions, name, err)
		}
	}
}

// Value is a JSON object of exactly size bytes, at least 40, that carries an id of 0 to 999,999,999: {"id":123,"pad":"xxx"}.
func Value(id, size int) []byte {
	head := fmt.Sprintf(`{"id":%d,"pad":"`, id)
	pad := max(size-len(head)-len(`"}`), 0)
	return []byte(head + strings.Repeat("x", pad) + `"}`)
}

// ID reads the id of a value made by [Value], also after it went through a sink that keeps JSON.
func ID(value []byte) (int, error) {
	var v struct {
		ID *int `json:"id"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(value), &v); err != nil {
		return 0, fmt.Errorf("read id: %w", err)
	}
	if v.ID == nil {
		return 0, fmt.Errorf("read id: no field \"id\" in %.80q", value)
	}
	return *v.ID, nil
}

// Produce writes n records with the ids first to first+n-1 to the topic: key "id-ID", value [Value] of size bytes, spread over the partitions in
// turn. It returns when the brokers have confirmed all of them.
func (c *Cluster) Produce(t testing.TB, topic string, first, n, size int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	client := c.Client(t, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	defer client.Close()
	failed := kgo.AbortingFirstErrPromise(client)
	for id := first; id < first+n; id++ {
		r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "id-%d", id), Value: Value(id, size)}
		client.Produce(ctx, r, failed.Promise())
	}
	if err := failed.Err(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}

// ProduceRecords writes the records as they are and returns when all are confirmed, with their partitions and offsets set. A record's Partition is honoured if
// partitioned is true.
func (c *Cluster) ProduceRecords(t testing.TB, partitioned bool, records ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	var opts []kgo.Opt
	if partitioned {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	client := c.Client(t, opts...)
	defer client.Close()
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// ReadAll returns everything the topic holds now, partition by partition in offset order.
func (c *Cluster) ReadAll(t testing.TB, topic string) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	ends, err := c.Admin(t).ListEndOffsets(ctx, topic)
	if err != nil || ends.Error() != nil {
		t.Fatalf("list end offsets of %s: %v, %v", topic, err, ends.Error())
	}
	starts, err := c.Admin(t).ListStartOffsets(ctx, topic)
	if err != nil || starts.Error() != nil {
		t.Fatalf("list start offsets of %s: %v, %v", topic, err, starts.Error())
	}
	open := map[int32]int64{} // partition to the end it has not reached yet
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := starts.Lookup(topic, o.Partition); s.Offset < o.Offset {
			open[o.Partition] = o.Offset
		}
	})
	// Control records count towards the end of a partition, so they are kept and left out here.
	client := c.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	defer client.Close()
	byPartition := make([][]*kgo.Record, len(ends[topic]))
	for len(open) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, ok := open[r.Partition]
			if !ok || r.Offset >= end {
				return
			}
			if !r.Attrs.IsControl() {
				byPartition[r.Partition] = append(byPartition[r.Partition], r)
			}
			if r.Offset == end-1 {
				delete(open, r.Partition)
			}
		})
	}
	var all []*kgo.Record
	for _, records := range byPartition {
		all = append(all, records...)
	}
	return all
}
