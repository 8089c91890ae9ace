package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// kafkaTarget is a topic. Only what is committed counts.
type kafkaTarget struct {
	mu       sync.Mutex
	seen     []int
	distinct int
}

// newKafkaTarget reads topic, of values with ids below n, until the test ends.
func newKafkaTarget(t *testing.T, c *kafkatest.Cluster, topic string, n int) *kafkaTarget {
	t.Helper()
	k := &kafkaTarget{seen: make([]int, n)}
	client := c.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { k.store(t, r) })
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		client.Close()
	})
	return k
}

func (k *kafkaTarget) store(t *testing.T, r *kgo.Record) {
	id, ok := idOf(r.Value)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !ok || id >= len(k.seen):
		t.Errorf("not a record of ours: %.80q", r.Value)
	case string(r.Key) != fmt.Sprintf("id-%d", id):
		t.Errorf("record %d has the key %q", id, r.Key)
	default:
		if k.seen[id] == 0 {
			k.distinct++
		}
		k.seen[id]++
	}
}

func (k *kafkaTarget) arrived() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.distinct
}

func (k *kafkaTarget) counts(n int) []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.seen[:n])
}

// emitter is a sink that emits, as a connector's body.
type emitter struct{ name, body string }

// emitters are sinks that emit, in each form, with the settings that let records
// through as they are. Forms do not differ by the group's protocol: in a consumer
// group one is enough.
func emitters(protocol, out string) []emitter {
	body := func(sink, more string) string {
		return fmt.Sprintf("sink = %q\n %s", sink, fmt.Sprintf(more, out))
	}
	const mapper = "value {\n converter = \"json\"\n }\n config {\n topic = %q\n field = \"id\"\n }"
	all := []emitter{
		{name: "kafka", body: body("builtin:kafka", "config {\n topic = %q\n }")},
		{name: "process", body: body("process:split", mapper)},
		{name: "wasm", body: body("wasm:split", mapper)},
	}
	if protocol == "consumer" {
		return all[:1]
	}
	return all
}

// TestEmittedRecordsSurviveKills: what sinks emit is produced, and what is
// accepted is there.
func TestEmittedRecordsSurviveKills(t *testing.T) {
	t.Parallel()
	const n, kills = 20_000, 3
	c := kafkatest.Shared(t)
	for _, m := range modes {
		for i, f := range emitters(m.name, "") {
			t.Run(m.name+"/"+f.name, func(t *testing.T) {
				topic, out := c.Topic(t, 3), c.Topic(t, 3)
				dst := newKafkaTarget(t, c, out, n)
				w := newWorker(t, definitions(c, topic, kafkatest.Name(t), m.hcl+"\n batch {\n max_records = 100\n }\n"+emitters(m.name, out)[i].body))
				produced := 0
				for range kills {
					c.Produce(t, topic, produced, n/(kills+1), 200)
					next := dst.arrived() + n/(kills+1)/4
					produced += n / (kills + 1)
					w.start()
					await(t, 2*time.Minute, "records arrive before a kill", func() bool { return dst.arrived() >= next })
					w.kill()
				}
				c.Produce(t, topic, produced, n-produced, 200)
				w.start()
				await(t, 3*time.Minute, "every record is there", func() bool { return dst.arrived() == n })
				w.stop()
				_, twice := missing(dst.counts(n))
				t.Logf("%d written twice in %d kills", twice, kills)
				// In a consumer group it is all since the last commit.
				if bound := kills * 3 * (recordLocks + producerBatch); m.name == "share" && twice > bound {
					t.Errorf("%d records were written twice, want at most %d", twice, bound)
				}
			})
		}
	}
}

// TestExactlyOnceSurvivesKills: each record is written once, whenever workers are
// killed, by readers of what is committed.
func TestExactlyOnceSurvivesKills(t *testing.T) {
	t.Parallel()
	const n, kills, workers = 24_000, 5, 2
	c := kafkatest.Shared(t)
	for _, m := range modes {
		for i, f := range emitters(m.name, "") {
			t.Run(m.name+"/"+f.name, func(t *testing.T) {
				topic, out := c.Topic(t, 3), c.Topic(t, 3)
				dst := newKafkaTarget(t, c, out, n)
				text := definitions(c, topic, kafkatest.Name(t), m.hcl+"\n delivery_semantics = \"exactly-once\"\n batch {\n max_records = 200\n }\n"+emitters(m.name, out)[i].body)
				all := make([]*worker, workers)
				for w := range all {
					all[w] = newWorker(t, text, fmt.Sprintf("id = \"w%d\"", w))
					all[w].start()
				}
				produced := 0
				for k := range kills {
					c.Produce(t, topic, produced, n/(kills+1), 200)
					next := dst.arrived() + n/(kills+1)/4
					produced += n / (kills + 1)
					await(t, 2*time.Minute, "records arrive before a kill", func() bool { return dst.arrived() >= next })
					all[k%workers].kill()
					all[k%workers].start()
				}
				c.Produce(t, topic, produced, n-produced, 200)
				await(t, 3*time.Minute, "every record is there", func() bool { return dst.arrived() == n })
				for _, w := range all {
					w.stop()
				}
				if _, twice := missing(dst.counts(n)); twice > 0 {
					t.Errorf("%d records were written twice in %d kills", twice, kills)
				}
			})
		}
	}
}
