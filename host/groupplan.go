package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluicehq/sluice/internal/kafka"
)

// How a [GroupPosition] was found.
const (
	BasisGroup    = "group"     // The group's own: a committed offset, or a share group's start offset.
	BasisReset    = "reset"     // The group had none that can be used: where auto_offset_reset begins.
	BasisLogStart = "log_start" // The group's own is of a record that was deleted since.
)

// GroupPosition is where a converted group goes on in one partition.
type GroupPosition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`  // The first record it delivers.
	LogEnd    int64  `json:"log_end"` // When the position was read.
	Basis     string `json:"basis"`
	// Note says why Basis is not BasisGroup, or what else is to be known.
	Note string `json:"note,omitempty"`
	// Twice is how many records from Offset on were decided already, at most,
	// and are delivered again. Offsets without a record, such as those of
	// transaction markers, count.
	Twice int64 `json:"twice_at_most"`
}

// groupPartition names a partition.
type groupPartition struct {
	topic string
	id    int32
}

// plan finds the positions to set, from the group there is and from what an
// earlier run saved, if that may be all there is. skipped are saved ones whose
// partitions are gone.
func (c *groupConverter) plan(ctx context.Context, kind kafka.GroupKind, saved *groupFile) (plan, skipped []GroupPosition, err error) {
	var has []kafka.GroupPosition
	if kind != kafka.KindNone {
		if has, err = c.admin.GroupPositions(ctx, c.group, kind); err != nil {
			return nil, nil, err
		}
	}
	var left []GroupPosition
	if saved.open() {
		left = saved.Positions
	}
	topics := make(map[string]bool) // Also those of a group that the connector does not read any more.
	for _, t := range c.topics {
		topics[t] = true
	}
	for _, p := range has {
		topics[p.Topic] = true
	}
	for _, p := range left {
		topics[p.Topic] = true
	}
	// The ends are asked for after the positions: a record that comes between
	// makes the number of those that come twice too high, never too low.
	logs, err := c.admin.LogRanges(ctx, c.reset, slices.Sorted(maps.Keys(topics))...)
	if err != nil {
		return nil, nil, err
	}
	plan, skipped = planPositions(planInput{has: has, share: kind == kafka.KindShare, left: left, reads: c.topics, logs: logs, reset: c.reset})
	return plan, skipped, nil
}

// planInput is what positions are planned from.
type planInput struct {
	has   []kafka.GroupPosition // Of the group there is.
	share bool                  // It is a share group.
	left  []GroupPosition       // Saved by a run that did not come to its end.
	reads []string              // The connector's topics.
	logs  map[string]map[int32]kafka.LogRange
	reset kafka.Reset
}

// planPositions decides where each partition begins. What was saved goes before
// what the group has: all records before it are decided, while a group that was
// made anew in between may have skipped some.
func planPositions(in planInput) (plan, skipped []GroupPosition) {
	found := make(map[groupPartition]GroupPosition)
	for _, topic := range in.reads {
		for id := range in.logs[topic] {
			found[groupPartition{topic, id}] = GroupPosition{Topic: topic, Partition: id, Offset: -1, Basis: BasisGroup}
		}
	}
	for _, h := range in.has {
		p := GroupPosition{Topic: h.Topic, Partition: h.Partition, Offset: h.Offset, Basis: BasisGroup}
		if in.share {
			p.Twice = decidedAbove(h, in.logs[h.Topic][h.Partition])
		}
		found[groupPartition{h.Topic, h.Partition}] = p
	}
	for _, p := range in.left {
		key := groupPartition{p.Topic, p.Partition}
		if now, ok := found[key]; ok && now.Offset >= 0 {
			p.Twice += now.Twice + max(0, now.Offset-p.Offset)
		}
		found[key] = p
	}
	for key, p := range found {
		log, ok := in.logs[key.topic][key.id]
		switch {
		case ok:
			plan = append(plan, fit(p, log, in.reset))
		case p.Offset >= 0:
			p.Note = "the partition is not there any more"
			skipped = append(skipped, p)
		}
	}
	order := func(x, y GroupPosition) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	}
	slices.SortFunc(plan, order)
	slices.SortFunc(skipped, order)
	return plan, skipped
}

// decidedAbove returns how many records from a share group's position on are
// decided, at most.
func decidedAbove(p kafka.GroupPosition, log kafka.LogRange) int64 {
	if p.Offset < 0 {
		return 0 // It has decided nothing.
	}
	return max(0, log.End-p.Offset-max(p.Lag, 0))
}

// fit makes a position one that the log has.
func fit(p GroupPosition, log kafka.LogRange, reset kafka.Reset) GroupPosition {
	p.LogEnd = log.End
	switch {
	case p.Offset < 0:
		p.Offset, p.Basis, p.Note = log.Reset, BasisReset, fmt.Sprintf("the group has no position here: %s", reset)
	case p.Offset > log.End:
		p.Basis, p.Note = BasisReset, fmt.Sprintf("%d is beyond the end of the log: %s", p.Offset, reset)
		p.Offset = log.Reset
	case p.Offset < log.Start:
		p.Basis, p.Note = BasisLogStart, fmt.Sprintf("what follows %d was deleted from the log", p.Offset)
		p.Offset = log.Start
	}
	p.Twice = min(p.Twice, log.End-p.Offset)
	return p
}
