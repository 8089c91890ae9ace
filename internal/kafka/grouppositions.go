package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// GroupPosition is where a group goes on in one partition.
type GroupPosition struct {
	Topic     string
	Partition int32
	// Offset is the first record that is not known to be decided: a consumer
	// group's committed offset, a share group's start offset. -1 means that the
	// group has none yet.
	Offset int64
	// Lag is how many records from Offset on are not decided yet, -1 where the
	// broker does not tell. Brokers tell it of share groups only, whose members
	// decide in any order and whose start offset is written one decision late.
	Lag int64
}

// compareGroupPositions orders by topic and partition.
func compareGroupPositions(x, y GroupPosition) int {
	if c := strings.Compare(x.Topic, y.Topic); c != 0 {
		return c
	}
	return int(x.Partition) - int(y.Partition)
}

// GroupPositions returns the positions of a group of the given kind, in order
// of topics and partitions; none for a group that does not exist. It waits for
// transactions that are about to commit offsets.
func (a *Admin) GroupPositions(ctx context.Context, group string, kind GroupKind) ([]GroupPosition, error) {
	var out []GroupPosition
	var err error
	if kind == KindShare {
		out, err = a.sharePositions(ctx, group)
	} else {
		out, err = a.committedPositions(ctx, group)
	}
	if errors.Is(Kind(err), ErrDenied) {
		return nil, &PermissionError{Group: group, Need: fmt.Sprintf("DESCRIBE on GROUP %q and on its topics", group), Err: err}
	}
	if err != nil {
		return nil, wrap(err, "read positions of group %q", group)
	}
	slices.SortFunc(out, compareGroupPositions)
	return out, nil
}

func (a *Admin) sharePositions(ctx context.Context, group string) ([]GroupPosition, error) {
	offsets, err := a.shareOffsets(ctx, group)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, err
	}
	var out []GroupPosition
	for _, o := range offsets.Sorted() {
		out = append(out, GroupPosition{Topic: o.Topic, Partition: o.Partition, Offset: o.StartOffset, Lag: o.Lag})
	}
	return out, nil
}

func (a *Admin) committedPositions(ctx context.Context, group string) ([]GroupPosition, error) {
	var offsets kadm.OffsetResponses
	var open error // An offset that a transaction has not decided yet.
	err := a.settle(ctx, func(ctx context.Context) error {
		fetched, err := a.groups.FetchOffsets(kadm.RequireStable(ctx), group)
		if err == nil {
			err = fetched.Error()
		}
		open = nil
		if errors.Is(err, kerr.UnstableOffsetCommit) {
			open = err
			return kerr.CoordinatorLoadInProgress // Asked again.
		}
		offsets = fetched
		return err
	})
	if err != nil && open != nil {
		err = open
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []GroupPosition
	for _, o := range offsets.Sorted() {
		out = append(out, GroupPosition{Topic: o.Topic, Partition: o.Partition, Offset: o.At, Lag: -1})
	}
	return out, nil
}

// SetGroupPositions makes a group of the given kind go on at positions, and
// makes the group if there is none. Lag is not looked at. The group must have
// no members: otherwise the error is [ErrGroupInUse].
func (a *Admin) SetGroupPositions(ctx context.Context, group string, kind GroupKind, positions []GroupPosition) error {
	if len(positions) == 0 {
		return nil
	}
	offsets := make(kadm.Offsets)
	for _, p := range positions {
		offsets.Add(kadm.Offset{Topic: p.Topic, Partition: p.Partition, At: p.Offset, LeaderEpoch: -1})
	}
	err := a.settle(ctx, func(ctx context.Context) error {
		if kind == KindShare {
			responses, err := a.groups.AlterShareGroupOffsets(ctx, group, offsets)
			if err == nil {
				err = responses.Error()
			}
			return err
		}
		return a.groups.CommitAllOffsets(ctx, group, offsets)
	})
	return groupChangeError(err, group, "set positions of", fmt.Sprintf("READ on GROUP %q and on its topics", group))
}

// DeleteGroup deletes a group of any kind with its positions. Its configs stay.
// That it does not exist is no error. The group must have no members: otherwise
// the error is [ErrGroupInUse].
func (a *Admin) DeleteGroup(ctx context.Context, group string) error {
	err := a.settle(ctx, func(ctx context.Context) error {
		deleted, err := a.groups.DeleteGroups(ctx, group)
		if err == nil {
			err = deleted[group].Err
		}
		return err
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	return groupChangeError(err, group, "delete", fmt.Sprintf("DELETE on GROUP %q", group))
}

// groupChangeError says what a refusal to change a group means.
func groupChangeError(err error, group, action, need string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.NonEmptyGroup), errors.Is(err, kerr.UnknownMemberID):
		// A commit from outside of a group with members is one of an unknown member.
		return &Error{Action: fmt.Sprintf("%s group %q", action, group), Kind: ErrGroupInUse, Err: err}
	case errors.Is(Kind(err), ErrDenied):
		return &PermissionError{Group: group, Need: need, Err: err}
	default:
		return wrap(err, "%s group %q", action, group)
	}
}

// GroupMembers returns how many members a group of the given kind has, 0 if
// there is no such group.
func (a *Admin) GroupMembers(ctx context.Context, group string, kind GroupKind) (int, error) {
	var members int
	err := a.settle(ctx, func(ctx context.Context) (err error) {
		members, err = a.describeMembers(ctx, group, kind)
		return err
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0, nil
	}
	if errors.Is(Kind(err), ErrDenied) {
		return 0, &PermissionError{Group: group, Need: fmt.Sprintf("DESCRIBE on GROUP %q", group), Err: err}
	}
	return members, wrap(err, "describe group %q", group)
}

func (a *Admin) describeMembers(ctx context.Context, group string, kind GroupKind) (int, error) {
	switch kind {
	case KindNone:
		return 0, nil
	case KindShare:
		described, err := a.groups.DescribeShareGroups(ctx, group)
		if err == nil {
			err = described.Error()
		}
		return len(described[group].Members), err
	case KindConsumer:
		described, err := a.groups.DescribeConsumerGroups(ctx, group)
		if err == nil {
			err = described.Error()
		}
		return len(described[group].Members), err
	case KindClassic:
		described, err := a.groups.DescribeGroups(ctx, group)
		if err == nil {
			err = described.Error()
		}
		return len(described[group].Members), err
	default:
		return 0, fmt.Errorf("count members of a %s group: %w", kind, errors.ErrUnsupported)
	}
}

// LogRange is what a partition's log holds.
type LogRange struct {
	Start int64 // The oldest record's offset.
	End   int64 // The offset the next record gets.
	Reset int64 // Where a group without a position begins.
}

// LogRanges returns the log of each partition of the named topics, by topic and
// partition. Topics that do not exist are left out.
func (a *Admin) LogRanges(ctx context.Context, reset Reset, topics ...string) (map[string]map[int32]LogRange, error) {
	found, err := a.Topics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, t := range found {
		names = append(names, t.Name)
	}
	out := make(map[string]map[int32]LogRange, len(names))
	if len(names) == 0 {
		return out, nil
	}
	list := func(what string, ask func(context.Context, ...string) (kadm.ListedOffsets, error)) (listed kadm.ListedOffsets, err error) {
		err = a.settle(ctx, func(ctx context.Context) error {
			listed, err = ask(ctx, names...)
			if err == nil {
				err = listed.Error()
			}
			return err
		})
		return listed, wrap(err, "list %s of the logs of topics %s", what, strings.Join(names, ", "))
	}
	starts, err := list("starts", a.groups.ListStartOffsets)
	if err != nil {
		return nil, err
	}
	ends, err := list("ends", a.groups.ListEndOffsets)
	if err != nil {
		return nil, err
	}
	resets := starts
	switch {
	case reset.back > 0:
		since := time.Now().Add(-reset.back).UnixMilli()
		resets, err = list("times", func(ctx context.Context, names ...string) (kadm.ListedOffsets, error) {
			return a.groups.ListOffsetsAfterMilli(ctx, since, names...)
		})
	case reset.latest:
		resets = ends
	}
	if err != nil {
		return nil, err
	}
	for topic, partitions := range ends {
		out[topic] = make(map[int32]LogRange, len(partitions))
		for id, end := range partitions {
			r := LogRange{Start: starts[topic][id].Offset, End: end.Offset, Reset: resets[topic][id].Offset}
			if r.Reset < 0 { // Nothing is that new.
				r.Reset = r.End
			}
			out[topic][id] = r
		}
	}
	return out, nil
}

// ClusterID returns the cluster's id.
func (a *Admin) ClusterID(ctx context.Context) (string, error) {
	m, err := a.groups.BrokerMetadata(ctx)
	if err != nil {
		return "", wrap(err, "ask for the cluster's id")
	}
	return m.Cluster, nil
}
