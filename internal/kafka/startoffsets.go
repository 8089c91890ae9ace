package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// startAtLogStart gives every partition of topics that the group has no state
// for its log start as position. Without it a leader that initialises the
// partition before it sees the group's configs begins at the log's end and
// skips what is there.
//
// A group with members is left alone: whoever let them join has prepared it.
// It returns what it set, and a warning where it was not allowed to.
func (a *Admin) startAtLogStart(ctx context.Context, group string, fresh bool, topics []Topic) (map[string]map[int32]int64, string, error) {
	var has kadm.ShareOffsets
	if !fresh {
		var err error
		has, err = a.shareOffsets(ctx, group)
		if warning, ok := positionWarning(group, "DESCRIBE", err); ok {
			return nil, warning, nil
		}
		if err != nil {
			return nil, "", wrap(err, "describe positions of group %q", group)
		}
	}
	names := make([]string, 0, len(topics))
	for _, t := range topics {
		names = append(names, t.Name)
	}
	starts, err := a.groups.ListStartOffsets(ctx, names...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, "", wrap(err, "list log starts")
	}
	offsets := make(kadm.Offsets)
	for name, partitions := range starts {
		for id, start := range partitions {
			if o, ok := has[name][id]; ok && o.StartOffset >= 0 {
				continue
			}
			offsets.Add(kadm.Offset{Topic: name, Partition: id, At: start.Offset, LeaderEpoch: -1})
		}
	}
	if len(offsets) == 0 {
		return nil, "", nil
	}
	return a.alterStart(ctx, group, offsets)
}

// shareOffsets returns a share group's positions, none for a group that is not
// there any more.
func (a *Admin) shareOffsets(ctx context.Context, group string) (offsets kadm.ShareOffsets, err error) {
	err = a.settle(ctx, func(ctx context.Context) error {
		described, err := a.groups.DescribeShareGroupOffsets(ctx, group)
		if err == nil {
			err = described[group].Err
		}
		if errors.Is(err, kerr.GroupIDNotFound) {
			return nil
		}
		offsets = described[group].Offsets
		return err
	})
	return offsets, err
}

// settle calls f until its error is not one of a coordinator that is starting
// or moving, or of a topic it has not seen yet; at most settleTimeout.
func (a *Admin) settle(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var last error
	err := poll(ctx, func() (bool, error) {
		err := f(ctx)
		if transient(err) || errors.Is(err, kerr.UnknownTopicOrPartition) {
			last = err
			return false, nil
		}
		last = nil
		return true, err
	})
	if err != nil && last != nil {
		return last // Says more than that the time is over.
	}
	return err
}

func (a *Admin) alterStart(ctx context.Context, group string, offsets kadm.Offsets) (map[string]map[int32]int64, string, error) {
	err := a.settle(ctx, func(ctx context.Context) error {
		responses, err := a.groups.AlterShareGroupOffsets(ctx, group, offsets)
		if err == nil {
			err = responses.Error()
		}
		return err
	})
	if errors.Is(err, kerr.NonEmptyGroup) {
		return nil, "", nil
	}
	if warning, ok := positionWarning(group, "READ", err); ok {
		return nil, warning, nil
	}
	if err != nil {
		return nil, "", wrap(err, "set first positions of group %q", group)
	}
	set := make(map[string]map[int32]int64, len(offsets))
	for name, partitions := range offsets {
		set[name] = make(map[int32]int64, len(partitions))
		for id, o := range partitions {
			set[name][id] = o.At
		}
	}
	a.log.Debug("group starts at log start", "group", group, "topics", len(set))
	return set, "", nil
}

// positionWarning says what a missing right means, if err is one. It is not an
// error: the configs, read back from every leader, do the same but for a race.
func positionWarning(group, operation string, err error) (string, bool) {
	if !errors.Is(Kind(err), ErrDenied) {
		return "", false
	}
	return fmt.Sprintf("the first positions of group %q could not be set (the ACL %s on GROUP %q is needed); "+
		"the group's reset decides alone", group, operation, group), true
}
