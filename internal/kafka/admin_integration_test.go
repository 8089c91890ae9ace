package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/kafkatest"
)

func openAdmin(t *testing.T, conn Connection) *Admin {
	t.Helper()
	a, err := Open(t.Context(), conn, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func shared(t *testing.T) (*kafkatest.Cluster, *Admin) {
	t.Helper()
	cluster := kafkatest.Shared(t)
	return cluster, openAdmin(t, Connection{Bootstrap: cluster.Bootstrap()})
}

func TestTopics(t *testing.T) {
	_, a := shared(t)
	base := kafkatest.Name(t)
	name := func(suffix string) string { return base + suffix }
	for _, suffix := range []string{".a", ".b", ".dlq"} {
		if err := a.CreateTopic(t.Context(), TopicSpec{Name: name(suffix), Partitions: 2, Config: map[string]string{"retention.ms": "1234567"}}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("describe", func(t *testing.T) {
		topics, err := a.Topics(t.Context(), name(".b"), name(".none"), name(".a"))
		if err != nil {
			t.Fatal(err)
		}
		if len(topics) != 2 || topics[0].Name != name(".b") || topics[1].Name != name(".a") {
			t.Fatalf("got %+v, want b and a, in the order asked", topics)
		}
		if topics[0].ID == ([16]byte{}) || topics[0].ID == topics[1].ID {
			t.Errorf("got ids %v and %v, want different ones", topics[0].ID, topics[1].ID)
		}
		if p := topics[0].Partitions; len(p) != 2 || p[1].ID != 1 || p[1].Leader < 0 || p[1].Replicas != 1 {
			t.Errorf("got partitions %+v, want two that are led", p)
		}
	})
	t.Run("match", func(t *testing.T) {
		topics, err := a.MatchTopics(t.Context(), base+`\.(a|b|dlq)|__.*`, name(".dlq"))
		if err != nil {
			t.Fatal(err)
		}
		if len(topics) != 2 || topics[0].Name != name(".a") || topics[1].Name != name(".b") {
			t.Errorf("got %+v, want a and b", topics)
		}
		if topics, err = a.MatchTopics(t.Context(), base); err != nil || len(topics) != 0 {
			t.Errorf("got %v, %v, want no topic: the whole name must match", topics, err)
		}
		if _, err = a.MatchTopics(t.Context(), "("); err == nil {
			t.Error("got no error for a broken expression")
		}
	})
	t.Run("config", func(t *testing.T) {
		config, err := a.TopicConfig(t.Context(), name(".a"))
		if err != nil || config["retention.ms"] != "1234567" || config["cleanup.policy"] != "delete" {
			t.Errorf("got %v and %v, %v", config["retention.ms"], config["cleanup.policy"], err)
		}
		if _, err = a.TopicConfig(t.Context(), name(".none")); !errors.Is(err, ErrUnknownTopic) {
			t.Errorf("got %v, want %v", err, ErrUnknownTopic)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, tt := range []struct {
			name string
			spec TopicSpec
			kind error
			text string
		}{
			{"exists", TopicSpec{Name: name(".a")}, ErrTopicExists, "already exists"},
			{"name", TopicSpec{Name: "not/a/name"}, nil, "contains one or more characters other than ASCII alphanumerics"},
			{"config", TopicSpec{Name: name(".c"), Config: map[string]string{"retention.ms": "soon"}}, nil, "retention.ms"},
			{"replicas", TopicSpec{Name: name(".c"), ReplicationFactor: 3}, nil, "only 1 broker(s) are registered"},
		} {
			err := a.CreateTopic(t.Context(), tt.spec)
			if err == nil || !strings.Contains(err.Error(), tt.text) || (tt.kind != nil && !errors.Is(err, tt.kind)) {
				t.Errorf("%s: got %v, want %q in it", tt.name, err, tt.text)
			}
		}
	})
}

func TestGroupKind(t *testing.T) {
	cluster, a := shared(t)
	topic := cluster.Topic(t, 1)
	cluster.Produce(t, topic, 0, 1, 100)
	classic, share := kafkatest.Name(t), kafkatest.Name(t)
	poll := func(opts ...kgo.Opt) {
		client := cluster.Client(t, append(opts, kgo.ConsumeTopics(topic))...)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if fetches := client.PollFetches(ctx); len(fetches.Records()) == 0 {
			t.Fatalf("got no record: %v", fetches.Errors())
		}
	}
	poll(kgo.ConsumerGroup(classic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if _, err := a.PrepareShareGroup(t.Context(), ShareGroup{ID: share, Topics: []string{topic}}); err != nil {
		t.Fatal(err)
	}
	poll(kgo.ShareGroup(share))
	for group, want := range map[string]GroupKind{kafkatest.Name(t): KindNone, share: KindShare} {
		if kind, err := a.GroupKind(t.Context(), group); err != nil || kind != want {
			t.Errorf("got %q, %v, want %q", kind, err, want)
		}
	}
	kind, err := a.GroupKind(t.Context(), classic)
	if err != nil || (kind != KindClassic && kind != KindConsumer) {
		t.Errorf("got %q, %v, want a consumer group's kind", kind, err)
	}
	_, err = a.PrepareShareGroup(t.Context(), ShareGroup{ID: classic, Topics: []string{topic}})
	var kindErr *GroupKindError
	if !errors.As(err, &kindErr) || kindErr.Is != kind || !errors.Is(err, ErrGroupKind) || !strings.Contains(err.Error(), "sluice group convert") {
		t.Errorf("got %v, want a %T that names sluice group convert", err, kindErr)
	}
}

func TestCapabilities(t *testing.T) {
	t.Run("4.4", func(t *testing.T) {
		_, a := shared(t)
		c, err := a.Capabilities(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := Capabilities{
			Brokers: 1, ShareVersion: 2, ShareGroups: true, Renewal: true, DeliveryLimit: true, DeadLetterNet: true,
			DeadLetterPrefix: "dlq.", DeadLetterPrefixKnown: true,
			Lock: Bounds{15000, 60000}, DeliveryCounts: Bounds{2, 10}, DefaultDeliveryLimit: 5, MaxRecordLocks: Bounds{100, 4000},
		}
		if c != want {
			t.Errorf("got  %+v\nwant %+v", c, want)
		}
	})
	for version, want := range map[int]Capabilities{
		0: {Brokers: 1, DeadLetterPrefix: "dlq."},
		1: {
			Brokers: 1, ShareVersion: 1, ShareGroups: true, Renewal: true, DeliveryLimit: true, DeadLetterPrefix: "dead.", DeadLetterPrefixKnown: true,
			Lock: Bounds{15000, 120000}, DeliveryCounts: Bounds{2, 10}, DefaultDeliveryLimit: 5, MaxRecordLocks: Bounds{100, 4000},
		},
	} {
		t.Run("share.version="+string(rune('0'+version)), func(t *testing.T) {
			cluster := kafkatest.New(t, kafkatest.Options{
				Features: map[string]int{"share.version": version},
				Properties: map[string]string{
					"group.share.max.record.lock.duration.ms": "120000", "errors.deadletterqueue.topic.name.prefix": "dead.",
				},
			})
			a := openAdmin(t, Connection{Bootstrap: cluster.Bootstrap()})
			c, err := a.Capabilities(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c != want {
				t.Errorf("got  %+v\nwant %+v", c, want)
			}
			topic := cluster.Topic(t, 1)
			_, err = a.PrepareShareGroup(t.Context(), ShareGroup{ID: "g", Topics: []string{topic}})
			if version == 0 && !errors.Is(err, ErrUnsupported) {
				t.Errorf("prepare: got %v, want %v", err, ErrUnsupported)
			}
			if version == 1 && err != nil {
				t.Errorf("prepare: %v", err)
			}
			net, err := a.SetDeadLetterNet(t.Context(), "g", "dead.x", []string{topic})
			if err != nil || net.On || !strings.Contains(net.Reason, "share.version") {
				t.Errorf("net: got %+v, %v, want none because of share.version", net, err)
			}
		})
	}
}

func TestDeadLetterTopicAndNet(t *testing.T) {
	cluster, a := shared(t)
	source, group := cluster.Topic(t, 3), kafkatest.Name(t)
	topic := "dlq." + kafkatest.Name(t)
	prepare := func(d DeadLetterTopic) (PreparedTopic, error) {
		d.Sources = []string{source}
		return a.PrepareDeadLetterTopic(t.Context(), d)
	}
	made, err := prepare(DeadLetterTopic{Topic: topic, ReplicationFactor: 3, Net: true})
	if err != nil {
		t.Fatal(err)
	}
	if !made.Created || made.Partitions != 3 || made.ReplicationFactor != 1 || made.MaxMessageBytes != 1048588+ownOverheadBytes {
		t.Errorf("got %+v, want 3 partitions, 1 replica and room for headers", made)
	}
	if len(made.Notes) == 0 || !strings.Contains(made.Notes[0], "replication factor 1 instead of 3") {
		t.Errorf("got notes %q, want what was chosen", made.Notes)
	}
	again, err := prepare(DeadLetterTopic{Topic: topic, Partitions: 7})
	if err != nil || again.Created || again.Partitions != 3 {
		t.Errorf("got %+v, %v, want the topic as it is", again, err)
	}
	if _, err := prepare(DeadLetterTopic{Topic: source}); !errors.Is(err, ErrDeadLetterTopic) {
		t.Errorf("source topic: got %v, want %v", err, ErrDeadLetterTopic)
	}
	compacted := kafkatest.Name(t)
	cluster.CreateTopic(t, compacted, 1, 1, map[string]string{"cleanup.policy": "compact"})
	if _, err := prepare(DeadLetterTopic{Topic: compacted}); !errors.Is(err, ErrDeadLetterTopic) || !strings.Contains(err.Error(), "compact") {
		t.Errorf("compacted topic: got %v, want %v", err, ErrDeadLetterTopic)
	}
	plain := "dlq." + kafkatest.Name(t)
	cluster.CreateTopic(t, plain, 1, 1, nil)
	if p, err := prepare(DeadLetterTopic{Topic: plain}); err != nil || !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, "168h0m0s") }) {
		t.Errorf("got %+v, %v, want a note about retention", p, err)
	}

	check := func(topic string, on bool, reason, inForce string) {
		t.Helper()
		net, err := a.SetDeadLetterNet(t.Context(), group, topic, []string{source})
		if err != nil || net.On != on || !strings.Contains(net.Reason, reason) || (reason == "") != (net.Reason == "") {
			t.Errorf("%q: got %+v, %v, want on=%t, reason %q", topic, net, err, on, reason)
		}
		config, err := a.groupConfig(t.Context(), group, anyBroker)
		if err != nil || config[SettingDeadLetterTopic] != inForce {
			t.Errorf("%q: the group has %q, %v, want %q", topic, config[SettingDeadLetterTopic], err, inForce)
		}
	}
	check(topic, true, "", topic)
	check("letters", false, `does not begin with "dlq."`, "") // And takes the net before it away.
	check(topic, true, "", topic)
	check("dlq.none", false, "does not exist", "")
	check(plain, false, "errors.deadletterqueue.group.enable=true", "")
	check(topic, true, "", topic)
	check("", false, "turned off", "")
}

// The broker tells nobody when its dead letter queue does not work, so here it
// is seen to work: what a member rejects is copied.
func TestNetCatches(t *testing.T) {
	cluster, a := shared(t)
	source, group := cluster.Topic(t, 1), kafkatest.Name(t)
	topic := "dlq." + kafkatest.Name(t)
	cluster.Produce(t, source, 41, 1, 100)
	if _, err := a.PrepareShareGroup(t.Context(), ShareGroup{ID: group, Topics: []string{source}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.PrepareDeadLetterTopic(t.Context(), DeadLetterTopic{Topic: topic, Sources: []string{source}, Net: true}); err != nil {
		t.Fatal(err)
	}
	if net, err := a.SetDeadLetterNet(t.Context(), group, topic, []string{source}); err != nil || !net.On {
		t.Fatalf("got %+v, %v, want the net on", net, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := cluster.Client(t, kgo.ShareGroup(group), kgo.ConsumeTopics(source))
	records := client.PollFetches(ctx).Records()
	if len(records) != 1 {
		t.Fatalf("got %d records, want 1", len(records))
	}
	records[0].Ack(kgo.AckReject)
	if err := client.FlushAcks(ctx); err != nil {
		t.Fatal(err)
	}
	err := poll(ctx, func() (bool, error) {
		copies := cluster.ReadAll(t, topic)
		if len(copies) == 0 {
			return false, nil
		}
		if id, err := kafkatest.ID(copies[0].Value); err != nil || id != 41 {
			t.Errorf("got record %d, %v, want 41", id, err)
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("no copy arrives: %v", err)
	}
}

func TestRetryTopic(t *testing.T) {
	cluster, a := shared(t)
	source := cluster.Topic(t, 3)
	prepare := func(topic string) (PreparedTopic, error) {
		return a.PrepareRetryTopic(t.Context(), RetryTopic{Topic: topic, Sources: []string{source}, Retention: 24 * time.Hour})
	}
	topic := "retry." + kafkatest.Name(t)
	made, err := prepare(topic)
	if err != nil || !made.Created || made.Partitions != 3 || made.MaxMessageBytes != 1048588+ownOverheadBytes {
		t.Fatalf("got %+v, %v, want 3 partitions and room for headers", made, err)
	}
	if c, err := a.TopicConfig(t.Context(), topic); err != nil || c["retention.ms"] != "604800000" || c["cleanup.policy"] != "delete" {
		t.Errorf("got retention %s and cleanup %s, %v; want a week and delete", c["retention.ms"], c["cleanup.policy"], err)
	}
	if again, err := prepare(topic); err != nil || again.Created {
		t.Errorf("got %+v, %v, want the topic as it is", again, err)
	}
	for name, tt := range map[string]struct {
		config map[string]string
		want   string
	}{
		"compacted":       {map[string]string{"cleanup.policy": "compact"}, "cleanup.policy=compact"},
		"short retention": {map[string]string{"retention.ms": "3600000"}, "set it to 86400000 or more"},
		"small messages":  {map[string]string{"max.message.bytes": "1000"}, "up to 1048588"},
		"kept for ever":   {map[string]string{"retention.ms": "-1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			topic := kafkatest.Name(t)
			cluster.CreateTopic(t, topic, 1, 1, tt.config)
			_, err := prepare(topic)
			if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, ErrRetryTopic) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := prepare(source); !errors.Is(err, ErrRetryTopic) {
		t.Errorf("source topic: got %v, want %v", err, ErrRetryTopic)
	}
}
