package chaos

import (
	"context"
	"errors"
	"fmt"
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

// lag returns how many records the group has not finished, and where each partition's first such record is.
func lag(ctx context.Context, admin *kadm.Client, group string) (int64, map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	groups, err := admin.DescribeShareGroupOffsets(ctx, group)
	if err == nil {
		err = groups.Error()
	}
	if err != nil {
		return 0, nil, fmt.Errorf("describe offsets of the group: %w", err)
	}
	total, starts := int64(0), map[int32]int64{}
	for _, o := range groups[group].Offsets.Sorted() {
		if o.Err != nil {
			return 0, nil, fmt.Errorf("describe offsets of the group: %w", o.Err)
		}
		if o.Lag < 0 {
			return 0, nil, fmt.Errorf("describe offsets of the group: partition %d has no lag yet", o.Partition)
		}
		total += o.Lag
		starts[o.Partition] = o.StartOffset
	}
	if len(starts) < partitions {
		return 0, nil, fmt.Errorf("describe offsets of the group: %d of %d partitions", len(starts), partitions)
	}
	return total, starts, nil
}
