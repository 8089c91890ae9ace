package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/kafkatest"
)

func TestPrepareShareGroup(t *testing.T) {
	cluster, a := shared(t)
	topic := cluster.Topic(t, 2)
	group := kafkatest.Name(t)
	g := ShareGroup{
		ID: group, Topics: []string{topic}, Reset: Back(90 * time.Minute), Isolation: ReadCommitted,
		Lock: 20 * time.Second, MaxRecordLocks: 1000,
	}
	p, err := a.PrepareShareGroup(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	if !p.New || p.Lock != 20*time.Second || p.DeliveryLimit != 10 || p.MaxRecordLocks != 1000 || !p.Renewal || p.Isolation != ReadCommitted {
		t.Errorf("got %+v, want what was asked for and a delivery limit of 10", p)
	}
	if len(p.Changed) != 5 || len(p.StartOffsets) != 0 {
		t.Errorf("got changes %v and positions %v, want five and none", p.Changed, p.StartOffsets)
	}
	if p, err = a.PrepareShareGroup(t.Context(), g); err != nil || len(p.Changed) != 0 {
		t.Errorf("again: got changes %v, %v, want none", p.Changed, err)
	}

	t.Run("refused", func(t *testing.T) {
		for _, tt := range []struct {
			edit          func(*ShareGroup)
			setting, text string
		}{
			{func(g *ShareGroup) { g.Lock = time.Second }, SettingLock, "must be in the range 15000 to 60000"},
			{func(g *ShareGroup) { g.MaxRecordLocks = 1 }, SettingMaxRecordLocks, "Value must be at least 100"},
			{func(g *ShareGroup) { g.DeliveryLimit = 11 }, SettingDeliveryLimit, "must be in the range 2 to 10"},
			{func(g *ShareGroup) { g.Isolation = "serializable" }, SettingIsolation, "serializable"},
		} {
			bad := ShareGroup{ID: kafkatest.Name(t), Topics: g.Topics}
			tt.edit(&bad)
			_, err := a.PrepareShareGroup(t.Context(), bad)
			var setting *SettingError
			if !errors.As(err, &setting) || setting.Setting != tt.setting || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %s refused with the broker's text %q", err, tt.setting, tt.text)
			}
		}
	})
	t.Run("missing topic", func(t *testing.T) {
		_, err := a.PrepareShareGroup(t.Context(), ShareGroup{ID: kafkatest.Name(t), Topics: []string{topic, "nowhere"}})
		if !errors.Is(err, ErrUnknownTopic) || !strings.Contains(err.Error(), `"nowhere"`) {
			t.Errorf("got %v, want %v that names it", err, ErrUnknownTopic)
		}
	})
	t.Run("delivery limit by refusal", func(t *testing.T) {
		b, err := a.deliveryBounds(t.Context(), group, Capabilities{})
		if err != nil || b != (Bounds{2, 10}) {
			t.Errorf("got %v, %v, want 2 to 10", b, err)
		}
	})
}

// A partition that the group has already worked on keeps its position, one that
// came later gets its log start.
func TestPositionsAreKept(t *testing.T) {
	cluster, a := shared(t)
	first, second, group := cluster.Topic(t, 1), cluster.Topic(t, 1), kafkatest.Name(t)
	cluster.Produce(t, first, 0, 10, 100)
	cluster.Produce(t, second, 100, 10, 100)
	p, err := a.PrepareShareGroup(t.Context(), ShareGroup{ID: group, Topics: []string{first}})
	if err != nil || len(p.StartOffsets) != 1 || p.StartOffsets[first][0] != 0 {
		t.Fatalf("got %+v, %v, want one position", p, err)
	}
	consumeShared(t, cluster, group, []string{first}, 10)
	p, err = a.PrepareShareGroup(t.Context(), ShareGroup{ID: group, Topics: []string{first, second}})
	if err != nil || p.New || len(p.StartOffsets) != 1 || p.StartOffsets[second] == nil {
		t.Fatalf("got %+v, %v, want a position for the second topic alone", p, err)
	}
	for _, id := range consumeShared(t, cluster, group, []string{first, second}, 10) {
		if id < 100 {
			t.Errorf("record %d is delivered again", id)
		}
	}
	if p, err = a.PrepareShareGroup(t.Context(), ShareGroup{ID: group, Topics: []string{first, second}}); err != nil || len(p.StartOffsets) != 0 {
		t.Errorf("got %+v, %v, want no position set", p, err)
	}
}

// consumeShared reads n different records with one member and returns their ids.
func consumeShared(t *testing.T, cluster *kafkatest.Cluster, group string, topics []string, n int) []int {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Bootstrap()...), kgo.ShareGroup(group), kgo.ConsumeTopics(topics...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := make(map[int]bool)
	var ids []int
	for len(ids) < n && ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, r := range fetches.Records() {
			id, err := kafkatest.ID(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			r.Ack(kgo.AckAccept)
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		if err := client.FlushAcks(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) < n {
		t.Fatalf("group %s: got %d records in a minute, want %d", group, len(ids), n)
	}
	return ids
}

// On three brokers each config is in force on every leader when PrepareShareGroup
// returns, and nothing that was produced before or while the first member
// joins is skipped, although the brokers' own reset is latest.
func TestPrepareOnThreeBrokers(t *testing.T) {
	cluster := kafkatest.New(t, kafkatest.Options{Brokers: 3, Properties: map[string]string{
		"group.share.min.heartbeat.interval.ms": "1000", "group.share.heartbeat.interval.ms": "1000", // Members get their partitions sooner.
	}})
	a := openAdmin(t, Connection{Bootstrap: cluster.Bootstrap()})
	const rounds, each, partitions = 5, 300, 6
	for round := range rounds {
		topic := fmt.Sprintf("orders-%d", round)
		group := "connect-" + topic
		cluster.CreateTopic(t, topic, partitions, 3, nil)
		cluster.Produce(t, topic, 0, each, 100)
		// What is produced from now on races with everything below.
		var wg sync.WaitGroup
		wg.Go(func() { cluster.Produce(t, topic, each, each, 100) })
		// Two workers start at once; both prepare.
		b := openAdmin(t, Connection{Bootstrap: cluster.Bootstrap()})
		wg.Go(func() {
			if _, err := b.PrepareShareGroup(t.Context(), ShareGroup{ID: group, Topics: []string{topic}, Lock: 15 * time.Second}); err != nil {
				t.Errorf("round %d, second worker: %v", round, err)
			}
		})
		start := time.Now()
		if _, err := a.PrepareShareGroup(t.Context(), ShareGroup{ID: group, Topics: []string{topic}, Lock: 15 * time.Second}); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: prepared in %v", round, time.Since(start).Round(time.Millisecond))
		topics, err := a.Topics(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(leaders(topics)); n != 3 {
			t.Fatalf("got %d leaders, want 3", n)
		}
		for _, id := range leaders(topics) {
			config, err := a.groupConfig(t.Context(), group, id)
			if err != nil {
				t.Fatal(err)
			}
			if config[SettingReset] != "earliest" || config[SettingLock] != "15000" || config[SettingDeliveryLimit] != "10" {
				t.Errorf("round %d: broker %d has reset %q, lock %q, limit %q", round, id,
					config[SettingReset], config[SettingLock], config[SettingDeliveryLimit])
			}
		}
		offsets, err := a.shareOffsets(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		for id := range int32(partitions) {
			if o, ok := offsets.Lookup(topic, id); !ok || o.StartOffset != 0 {
				t.Errorf("round %d: partition %d has position %d (%t), want 0", round, id, o.StartOffset, ok)
			}
		}
		consumeShared(t, cluster, group, []string{topic}, 2*each)
		wg.Wait()
	}
}

// A leader that has not seen the group's reset yet would begin at the log's
// end; the positions alone keep it from that.
func TestPositionsBeatTheReset(t *testing.T) {
	cluster, a := shared(t)
	topic, group := cluster.Topic(t, 2), kafkatest.Name(t)
	cluster.Produce(t, topic, 0, 50, 100)
	topics, err := a.Topics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	set, warning, err := a.startAtLogStart(t.Context(), group, true, topics)
	if err != nil || warning != "" || len(set[topic]) != 2 {
		t.Fatalf("got %v, %q, %v, want two positions", set, warning, err)
	}
	consumeShared(t, cluster, group, []string{topic}, 50)
}

// guarded starts a broker that checks rights, with an admin who has all of them
// and a worker who has none.
func guarded(t *testing.T) (cluster *kafkatest.Cluster, admin, worker *Admin) {
	t.Helper()
	cluster = kafkatest.New(t, kafkatest.Options{
		Users:     map[string]string{"worker": "worker-secret", "admin": "admin-secret"},
		Listeners: []kafkatest.Listener{{Name: "SASL", Mechanisms: []string{MechanismPlain}}},
		Properties: map[string]string{
			"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users":           "User:ANONYMOUS;User:admin",
		},
	})
	admin = openAdmin(t, Connection{Bootstrap: cluster.Bootstrap()})
	worker = openAdmin(t, Connection{
		Bootstrap: cluster.BootstrapOf("SASL"), SASL: &SASL{Mechanism: MechanismPlain, Username: "worker", Password: "worker-secret"},
	})
	return cluster, admin, worker
}

func TestWithoutRights(t *testing.T) {
	cluster, admin, worker := guarded(t)
	ctx := t.Context()
	topic := cluster.Topic(t, 1)
	g := ShareGroup{ID: "connect-orders", Topics: []string{topic}, Lock: 20 * time.Second, DeliveryLimit: 10}

	if topics, err := worker.Topics(ctx, topic); err != nil || len(topics) != 0 {
		t.Errorf("got %v, %v, want a topic that may not be seen to be missing", topics, err)
	}
	allow(t, cluster, "topic", topic, "READ", "DESCRIBE")
	allow(t, cluster, "group", g.ID, "READ", "DESCRIBE")

	_, err := worker.PrepareShareGroup(ctx, g)
	wantPermission(t, err, `DESCRIBE_CONFIGS on GROUP "connect-orders"`, "")
	allow(t, cluster, "group", g.ID, "DESCRIBE_CONFIGS")
	_, err = worker.PrepareShareGroup(ctx, g)
	wantPermission(t, err, `ALTER_CONFIGS on GROUP "connect-orders"`,
		"--alter --entity-type groups --entity-name connect-orders --add-config share.auto.offset.reset=earliest,"+
			"share.delivery.count.limit=10,share.record.lock.duration.ms=20000")

	// Someone with the rights does what the message says; then it goes on.
	if _, err := admin.PrepareShareGroup(ctx, g); err != nil {
		t.Fatal(err)
	}
	p, err := worker.PrepareShareGroup(ctx, g)
	if err != nil || len(p.Changed) != 0 || p.Lock != 20*time.Second {
		t.Errorf("got %+v, %v, want it to go on with what is in force", p, err)
	}
	g.DeliveryLimit = 0 // Neither the broker's configs nor its refusal may be had.
	if p, err = worker.PrepareShareGroup(ctx, g); err != nil || p.DeliveryLimit != 10 {
		t.Errorf("got %+v, %v, want the limit as it is", p, err)
	}
	err = worker.CreateTopic(ctx, TopicSpec{Name: "dlq.orders"})
	if !errors.Is(err, ErrDenied) {
		t.Errorf("create: got %v, want %v", err, ErrDenied)
	}
	if _, err := admin.PrepareDeadLetterTopic(ctx, DeadLetterTopic{Topic: "dlq.orders", Sources: []string{topic}, Net: true}); err != nil {
		t.Fatal(err)
	}
	allow(t, cluster, "topic", "dlq.orders", "WRITE", "DESCRIBE")
	d, err := worker.PrepareDeadLetterTopic(ctx, DeadLetterTopic{Topic: "dlq.orders", Sources: []string{topic}})
	if err != nil || d.Created || len(d.Notes) != 1 {
		t.Errorf("got %+v, %v, want a note that its configs may not be read", d, err)
	}
	allow(t, cluster, "topic", "dlq.orders", "DESCRIBE_CONFIGS")
	net, err := worker.SetDeadLetterNet(ctx, g.ID, "dlq.orders", []string{topic})
	if err != nil || net.On || !strings.Contains(net.Reason, "ALTER_CONFIGS") {
		t.Errorf("net: got %+v, %v, want none for want of ALTER_CONFIGS", net, err)
	}
	allow(t, cluster, "group", g.ID, "ALTER_CONFIGS")
	net, err = worker.SetDeadLetterNet(ctx, g.ID, "dlq.orders", []string{topic})
	if err != nil || !net.On || !strings.Contains(net.Reason, "is a guess") {
		t.Errorf("net: got %+v, %v, want it on, with a guessed prefix", net, err)
	}
}

func wantPermission(t *testing.T, err error, need, command string) {
	t.Helper()
	var p *PermissionError
	if !errors.As(err, &p) || !errors.Is(err, ErrDenied) || p.Need != need || !strings.Contains(p.Command, command) || !strings.Contains(err.Error(), need) {
		t.Errorf("got %v, want a PermissionError that needs %s and runs %s", err, need, command)
	}
}
