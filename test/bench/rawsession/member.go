package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is the only one of its share group.
type member struct {
	client    *kgo.Client
	group, id string
	epoch     int32
}

// join enters the group and returns the partitions the member is given. The broker makes assignments about once a second: asking
// often brings it soon.
func join(ctx context.Context, client *kgo.Client, group, topic string) (*member, []int32, error) {
	m := &member{client: client, group: group, id: rand.Text()}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	subscribe := []string{topic}
	for {
		resp, err := m.heartbeat(ctx, subscribe)
		switch {
		case kerr.IsRetriable(err): // The coordinator is not there yet.
		case err != nil:
			return nil, nil, err
		case resp.Assignment != nil && len(resp.Assignment.TopicPartitions) > 0:
			return m, resp.Assignment.TopicPartitions[0].Partitions, nil
		default:
			subscribe = nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (m *member) heartbeat(ctx context.Context, subscribe []string) (*kmsg.ShareGroupHeartbeatResponse, error) {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = m.group, m.id, m.epoch, subscribe
	resp, err := req.RequestWith(ctx, m.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("heartbeat: %w", err)
	}
	m.epoch = resp.MemberEpoch
	return resp, nil
}

// stay keeps the member in the group until ctx ends.
func (m *member) stay(ctx context.Context) {
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := m.heartbeat(ctx, nil); err != nil && !errors.Is(err, context.Canceled) {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}
