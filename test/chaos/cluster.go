package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// adminLimit bounds each look at the brokers.
const adminLimit = 10 * time.Second

// whole returns nil if every partition, internal ones too, has all its replicas in sync.
func whole(ctx context.Context, admin *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	topics, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	for _, t := range topics {
		if t.Err != nil {
			return fmt.Errorf("list topics: %s: %w", t.Topic, t.Err)
		}
		for _, p := range t.Partitions {
			if p.Err != nil {
				return fmt.Errorf("%s %d: %w", t.Topic, p.Partition, p.Err)
			}
			if len(p.ISR) < brokers {
				return fmt.Errorf("%s %d has %d replicas in sync", t.Topic, p.Partition, len(p.ISR))
			}
		}
	}
	return nil
}

// moveLeaders makes the next replica of every partition its leader, those of the group's state and coordinator too.
func moveLeaders(ctx context.Context, admin *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	topics, err := admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var assign kadm.AlterPartitionAssignmentsReq
	all := kadm.TopicsSet{}
	for _, t := range topics {
		for _, p := range t.Partitions {
			if n := len(p.Replicas); n > 1 {
				assign.Assign(t.Topic, p.Partition, append(append([]int32{}, p.Replicas[1:]...), p.Replicas[0]))
				all.Add(t.Topic, p.Partition)
			}
		}
	}
	assigned, err := admin.AlterPartitionAssignments(ctx, assign)
	if err = errors.Join(err, assigned.Error()); err != nil {
		return fmt.Errorf("reorder replicas: %w", err)
	}
	elected, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, all)
	if err != nil {
		return fmt.Errorf("elect leaders: %w", err)
	}
	moved := 0
	for _, ps := range elected {
		for _, p := range ps {
			if p.Err == nil {
				moved++
			}
		}
	}
	if moved == 0 {
		return errors.New("elect leaders: none moved")
	}
	return nil
}

// Backlog is what a group has not finished.
type Backlog struct {
	Lag    int64           // Of all partitions.
	Parts  map[int32]int64 // Of each.
	Starts map[int32]int64 // Where each partition's first unfinished record is, or was a moment ago.
}

// backlog asks for what the group has not finished.
func backlog(ctx context.Context, admin *kadm.Client, group string) (Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	groups, err := admin.DescribeShareGroupOffsets(ctx, group)
	if err == nil {
		err = groups.Error()
	}
	if err != nil {
		return Backlog{}, fmt.Errorf("describe offsets of the group: %w", err)
	}
	b := Backlog{Parts: map[int32]int64{}, Starts: map[int32]int64{}}
	for _, o := range groups[group].Offsets.Sorted() {
		if o.Err != nil {
			return Backlog{}, fmt.Errorf("describe offsets of the group: %w", o.Err)
		}
		if o.Lag < 0 {
			return Backlog{}, fmt.Errorf("describe offsets of the group: partition %d has no lag yet", o.Partition)
		}
		b.Lag += o.Lag
		b.Parts[o.Partition], b.Starts[o.Partition] = o.Lag, o.StartOffset
	}
	if len(b.Starts) < partitions {
		return Backlog{}, fmt.Errorf("describe offsets of the group: %d of %d partitions", len(b.Starts), partitions)
	}
	return b, nil
}

// members says who is in the group, as its coordinator sees it, and what each has.
func members(ctx context.Context, admin *kadm.Client, group string) string {
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	groups, err := admin.DescribeShareGroups(ctx, group)
	if err == nil {
		err = groups.Error()
	}
	if err != nil {
		return err.Error()
	}
	g := groups[group]
	parts := []string{fmt.Sprintf("coordinator %d, %s, epoch %d, %d members", g.Coordinator.NodeID, g.GroupState, g.GroupEpoch, len(g.Members))}
	for _, m := range g.Members {
		parts = append(parts, fmt.Sprintf("%s (%s, epoch %d) has %v", m.ClientID, m.MemberID, m.MemberEpoch, m.Assignment.Sorted()))
	}
	return strings.Join(parts, "; ")
}
