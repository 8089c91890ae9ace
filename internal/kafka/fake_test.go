package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// fake starts an embedded broker, for what needs no real one.
func fake(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestEmbeddedBroker(t *testing.T) {
	c := fake(t, kfake.SeedTopics(2, "orders"))
	a := openAdmin(t, Connection{Bootstrap: c.ListenAddrs()})
	capabilities, err := a.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !capabilities.ShareGroups || !capabilities.Renewal {
		t.Errorf("got %+v, want share groups with renewal", capabilities)
	}
	p, err := a.PrepareShareGroup(t.Context(), ShareGroup{ID: "g", Topics: []string{"orders"}, Lock: 20 * time.Second})
	if err != nil || !p.New || len(p.StartOffsets["orders"]) != 2 {
		t.Errorf("got %+v, %v, want a new group with two positions", p, err)
	}
	d, err := a.PrepareDeadLetterTopic(t.Context(), DeadLetterTopic{Topic: "dlq.orders", Sources: []string{"orders"}, Net: true})
	if err != nil || !d.Created || d.Partitions != 2 {
		t.Errorf("got %+v, %v, want two partitions made", d, err)
	}
	if net, err := a.SetDeadLetterNet(t.Context(), "g", "dlq.orders", []string{"orders"}); err != nil || net.On || net.Reason == "" {
		t.Errorf("got %+v, %v, want none, and why", net, err)
	}
}

// Brokers of before share groups still serve everything else, with both clients.
func TestOldBroker(t *testing.T) {
	c := fake(t, kfake.SeedTopics(1, "orders"), kfake.MaxVersions(kversion.V2_8_0()))
	a := openAdmin(t, Connection{Bootstrap: c.ListenAddrs()})
	if _, err := a.PrepareShareGroup(t.Context(), ShareGroup{ID: "g", Topics: []string{"orders"}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v, want %v", err, ErrUnsupported)
	}
	if kind, err := a.GroupKind(t.Context(), "g"); err != nil || kind != KindNone {
		t.Errorf("got %q, %v, want none", kind, err)
	}
	d, err := a.PrepareDeadLetterTopic(t.Context(), DeadLetterTopic{Topic: "dlq.orders", Sources: []string{"orders"}, Net: true})
	if err != nil || !d.Created {
		t.Errorf("got %+v, %v, want it made", d, err)
	}
}

// The share groups of 4.1, a preview, have no lock renewal: what is held for long
// would come again and again (SHARE-13), so they are refused by name.
func TestPreviewOfShareGroupsIsRefused(t *testing.T) {
	c := fake(t, kfake.SeedTopics(1, "orders"))
	c.ControlKey(int16(kmsg.ApiVersions), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
		kversion.V4_1_0().EachMaxKeyVersion(func(key, version int16) {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MaxVersion = key, version
			resp.ApiKeys = append(resp.ApiKeys, k)
		})
		preview := kmsg.NewApiVersionsResponseFinalizedFeature()
		preview.Name, preview.MaxVersionLevel, preview.MinVersionLevel = "share.version", 1, 1
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, preview)
		return resp, nil, true
	})
	a := openAdmin(t, Connection{Bootstrap: c.ListenAddrs()})
	_, err := a.PrepareShareGroup(t.Context(), ShareGroup{ID: "g", Topics: []string{"orders"}})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "Kafka 4.2") {
		t.Errorf("got %v, want %v, and the version that is needed", err, ErrUnsupported)
	}
}

func TestEveryCallEndsWithItsContext(t *testing.T) {
	c := fake(t, kfake.SeedTopics(1, "orders"))
	a := openAdmin(t, Connection{Bootstrap: c.ListenAddrs()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"topics":    func() error { _, err := a.Topics(ctx, "orders"); return err },
		"match":     func() error { _, err := a.MatchTopics(ctx, ".*"); return err },
		"create":    func() error { return a.CreateTopic(ctx, TopicSpec{Name: "x"}) },
		"config":    func() error { _, err := a.TopicConfig(ctx, "orders"); return err },
		"kind":      func() error { _, err := a.GroupKind(ctx, "g"); return err },
		"can":       func() error { _, err := a.Capabilities(ctx); return err },
		"group":     func() error { _, err := a.PrepareShareGroup(ctx, ShareGroup{ID: "g"}); return err },
		"net":       func() error { _, err := a.SetDeadLetterNet(ctx, "g", "dlq.x", nil); return err },
		"dlq topic": func() error { _, err := a.PrepareDeadLetterTopic(ctx, DeadLetterTopic{Topic: "dlq.x"}); return err },
		"open":      func() error { _, err := Open(ctx, a.conn, nil); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", name, err, context.Canceled)
		}
	}
}
