package bench

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// recordBytes is the size of a record's value.
const recordBytes = 1024

// groupConfig is the type of a resource that is a group.
const groupConfig kmsg.ConfigResourceType = 32

// adminTimeout bounds a request that is no part of a measurement.
const adminTimeout = time.Minute

// values1K makes values of random bytes: parts of one block, as compression and caches must not help.
type values1K []byte

func newValues() values1K {
	b := make(values1K, 8<<20)
	_, _ = crand.Read(b) // Never fails.
	return b
}

func (v values1K) next() []byte {
	at := rand.IntN(len(v) - recordBytes)
	return v[at : at+recordBytes]
}

// fill creates a topic and writes n records of random bytes to it, in batches as large as the client makes them.
func (l *lab) fill(ctx context.Context, topic string, partitions int, n int64) error {
	client, err := l.newTopic(ctx, topic, partitions)
	if err != nil {
		return err
	}
	defer client.Close()
	from := newValues()
	failed := kgo.AbortingFirstErrPromise(client)
	for range n {
		client.Produce(ctx, &kgo.Record{Value: from.next()}, failed.Promise())
	}
	if err := failed.Err(); err != nil {
		return fmt.Errorf("fill topic %s: %w", topic, err)
	}
	return nil
}

// newTopic creates a topic and returns a client that produces to it.
func (l *lab) newTopic(ctx context.Context, topic string, partitions int, opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(l.bootstrap), kgo.DefaultProduceTopic(topic))...)
	if err != nil {
		return nil, err
	}
	admin, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	if _, err := kadm.NewClient(client).CreateTopic(admin, int32(partitions), l.replicas, nil, topic); err != nil {
		client.Close()
		return nil, fmt.Errorf("create topic %s: %w", topic, err)
	}
	return client, nil
}

// newShareGroup has a share group begin at the earliest record. Sluice does so itself.
func (l *lab) newShareGroup(ctx context.Context, group string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	set := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	set.Name, set.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = groupConfig, group
	resource.Configs = append(resource.Configs, set)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, client)
	if err == nil && len(resp.Resources) > 0 {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("configure group %s: %w", group, err)
	}
	return nil
}

// stream writes records at a steady pace until ctx ends: one in a tenth of a second until ready is closed, then rate a second.
func stream(ctx context.Context, client *kgo.Client, rate int, ready <-chan struct{}) error {
	from := newValues()
	var failures atomic.Int64
	produce := func() {
		client.Produce(context.WithoutCancel(ctx), &kgo.Record{Value: from.next()}, func(_ *kgo.Record, err error) {
			if err != nil {
				failures.Add(1)
			}
		})
	}
	slow := time.NewTicker(100 * time.Millisecond)
	defer slow.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
			waiting = false
		case <-slow.C:
			produce()
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	begin, sent := time.Now(), int64(0)
	for {
		select {
		case <-ctx.Done():
			if n := failures.Load(); n > 0 {
				return fmt.Errorf("%d records could not be written", n)
			}
			return nil
		case now := <-tick.C:
			for due := int64(now.Sub(begin).Seconds() * float64(rate)); sent < due; sent++ {
				produce()
			}
		}
	}
}
