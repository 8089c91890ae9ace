package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/internal/kafka"
)

// GroupConversion says which connector's group is to become one of another
// kind.
type GroupConversion struct {
	Config    *config.Config
	Connector *config.Connector // One of Config's that is usable.
	To        string            // [config.GroupShare] or [config.GroupConsumer].
	DryRun    bool              // Look and say, change and save nothing.
	Logger    *slog.Logger      // Nil discards.
}

// What came of a [GroupConversion].
const (
	GroupConverted = "converted" // The group is of the wanted kind and goes on where it was.
	GroupPlanned   = "planned"   // It would be converted: this was a dry run.
	GroupUnchanged = "unchanged" // It was of the wanted kind already.
	GroupMissing   = "missing"   // There is no such group: nothing needs converting.
)

// ConvertedGroup is what a [GroupConversion] did or, in a dry run, would do.
type ConvertedGroup struct {
	Connector string `json:"connector"`
	Group     string `json:"group"`
	From      string `json:"from"` // Empty if nothing is or was converted.
	To        string `json:"to"`
	Result    string `json:"result"`
	// File is where the positions are kept, also afterwards.
	File string `json:"file"`
	// Resumed says that an earlier run did not come to its end and this one
	// goes on with the positions it saved.
	Resumed   bool            `json:"resumed"`
	Positions []GroupPosition `json:"positions"` // In order of topics and partitions.
	// Skipped are saved positions of partitions that are not there any more.
	Skipped []GroupPosition `json:"skipped,omitempty"`
	// Twice is the sum of the positions' Twice.
	Twice int64 `json:"twice_at_most"`
}

// groupAdmin is what a conversion asks of the cluster.
type groupAdmin interface {
	Capabilities(ctx context.Context) (kafka.Capabilities, error)
	ClusterID(ctx context.Context) (string, error)
	GroupKind(ctx context.Context, group string) (kafka.GroupKind, error)
	GroupMembers(ctx context.Context, group string, kind kafka.GroupKind) (int, error)
	GroupPositions(ctx context.Context, group string, kind kafka.GroupKind) ([]kafka.GroupPosition, error)
	LogRanges(ctx context.Context, reset kafka.Reset, topics ...string) (map[string]map[int32]kafka.LogRange, error)
	DeleteGroup(ctx context.Context, group string) error
	SetGroupPositions(ctx context.Context, group string, kind kafka.GroupKind, positions []kafka.GroupPosition) error
}

// GroupMembersError is a group that cannot be converted because it has members.
type GroupMembersError struct {
	Group, Connector string
	Members          int // 0 where a member came meanwhile.
}

// Error says how many there are and what to do.
func (e *GroupMembersError) Error() string {
	count := "members"
	switch {
	case e.Members == 1:
		count = "1 member"
	case e.Members > 1:
		count = fmt.Sprintf("%d members", e.Members)
	}
	return fmt.Sprintf("group %q has %s: stop connector %q in every worker first; a worker that was killed leaves its "+
		"member behind until its session times out", e.Group, count, e.Connector)
}

// Unwrap returns [kafka.ErrGroupInUse].
func (e *GroupMembersError) Unwrap() error { return kafka.ErrGroupInUse }

// ConvertGroup makes a connector's group one of the wanted kind that goes on
// where the group was: it saves the positions in the state directory, deletes
// the group, sets the positions in one of the new kind, and reads them back. It
// needs a group without members.
//
// A run that was cut off anywhere may be repeated, in either direction, with
// the same state directory. Where it is not known whether a record was decided,
// it comes again: nothing is lost.
//
// # Errors
//
// [*GroupMembersError], [*ParkedError], [*kafka.PermissionError], [*kafka.GroupKindError] for a
// Kafka Streams group, [kafka.ErrUnsupported] where there are no share groups,
// or one of [kafka.Error]'s kinds. The result is of use without an error only.
func ConvertGroup(ctx context.Context, o GroupConversion) (_ ConvertedGroup, err error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	admin, err := kafka.Open(ctx, connection(o.Config.Kafka[o.Connector.Kafka]), o.Logger)
	if err != nil {
		return ConvertedGroup{}, err
	}
	defer func() { err = errors.Join(err, admin.Close()) }()
	topics, err := topicsOf(ctx, o.Connector, admin)
	if err != nil {
		return ConvertedGroup{}, err
	}
	dir, err := filepath.Abs(o.Config.Worker.StateDir) // Said to whoever has to run the command again.
	if err != nil {
		return ConvertedGroup{}, fmt.Errorf("find the state directory: %w", err)
	}
	c := &groupConverter{
		admin: admin, dir: dir, connector: o.Connector.Name, group: o.Connector.GroupID,
		topics: topics, reset: reset(o.Connector), to: o.To, dryRun: o.DryRun,
	}
	return c.run(ctx)
}

// groupConverter is one run of a conversion.
type groupConverter struct {
	admin     groupAdmin
	dir       string // The state directory.
	connector string
	group     string
	topics    []string // What the connector reads.
	reset     kafka.Reset
	to        string
	dryRun    bool

	path string // Of the file in dir.
}

// groupKind returns the kind that a new group of a protocol has.
func groupKind(protocol string) kafka.GroupKind {
	if protocol == config.GroupShare {
		return kafka.KindShare
	}
	return kafka.KindClassic
}

// groupProtocol returns the protocol a group's kind belongs to, "" for none.
func groupProtocol(kind kafka.GroupKind) string {
	switch kind {
	case kafka.KindShare:
		return config.GroupShare
	case kafka.KindClassic, kafka.KindConsumer:
		return config.GroupConsumer
	default:
		return ""
	}
}

func (c *groupConverter) run(ctx context.Context) (ConvertedGroup, error) {
	out := ConvertedGroup{Connector: c.connector, Group: c.group, To: c.to, Positions: []GroupPosition{}}
	cluster, err := c.admin.ClusterID(ctx)
	if err != nil {
		return out, err
	}
	c.path = groupFilePath(c.dir, cluster, c.group)
	out.File = c.path
	saved, err := readGroupFile(c.path, cluster, c.group)
	if err != nil {
		return out, err
	}
	kind, err := c.admin.GroupKind(ctx, c.group)
	if err != nil {
		return out, err
	}
	is := groupProtocol(kind)
	switch {
	case kind == kafka.KindNone && !saved.open():
		out.Result = GroupMissing
		return out, nil
	case kind != kafka.KindNone && is == "":
		return out, &kafka.GroupKindError{Group: c.group, Is: kind, Want: groupKind(c.to)}
	case is == c.to && !saved.open():
		out.Result = GroupUnchanged
		return out, nil
	}
	if err := c.ready(ctx, kind); err != nil {
		return out, err
	}
	file := groupFile{
		Version: groupFileVersion, Cluster: cluster, Group: c.group, Connector: c.connector,
		From: is, To: c.to, SavedAt: time.Now().UTC().Truncate(time.Second),
	}
	if saved.open() {
		out.Resumed = true
		file.From = saved.From
	}
	out.From = file.From
	file.Positions, out.Skipped, err = c.plan(ctx, kind, saved)
	if err != nil {
		return out, err
	}
	out.Positions = file.Positions
	for _, p := range file.Positions {
		out.Twice += p.Twice
	}
	out.Result = GroupPlanned
	if c.dryRun {
		return out, nil
	}
	if err := c.carryOut(ctx, &file, is, saved.open()); err != nil {
		return out, err
	}
	out.Result = GroupConverted
	return out, nil
}

// ready checks what must hold before anything is deleted.
func (c *groupConverter) ready(ctx context.Context, kind kafka.GroupKind) error {
	members, err := c.admin.GroupMembers(ctx, c.group, kind)
	if err != nil {
		return err
	}
	if members > 0 {
		return &GroupMembersError{Group: c.group, Connector: c.connector, Members: members}
	}
	if c.to != config.GroupShare {
		left, err := parked(ctx, c.admin, c.group)
		if err == nil && left != nil {
			err = left
		}
		return err
	}
	capabilities, err := c.admin.Capabilities(ctx)
	if err != nil {
		return err
	}
	return capabilities.NeedShareGroups(fmt.Sprintf("convert group %q", c.group))
}

// carryOut does what file says. is is the protocol of the group there is, ""
// for none. resumed says that the file on disk holds positions the group may
// not have.
func (c *groupConverter) carryOut(ctx context.Context, file *groupFile, is string, resumed bool) error {
	if is != "" && is != c.to {
		file.Stage = stageDeleting
		if err := file.write(c.path); err != nil {
			return err
		}
		if err := c.admin.DeleteGroup(ctx, c.group); err != nil {
			var permission *kafka.PermissionError
			refused := errors.Is(err, kafka.ErrGroupInUse) || errors.As(err, &permission)
			if !refused || resumed {
				return c.unfinished(err)
			}
			// The broker has not touched the group, which may go on and move: what
			// was saved is worth nothing.
			if errors.Is(err, kafka.ErrGroupInUse) {
				err = &GroupMembersError{Group: c.group, Connector: c.connector}
			}
			return errors.Join(err, os.Remove(c.path))
		}
	}
	file.Stage = stageSetting
	if err := file.write(c.path); err != nil {
		return c.unfinished(err)
	}
	if err := c.set(ctx, file.Positions); err != nil {
		return c.unfinished(err)
	}
	file.Stage = stageDone
	return file.write(c.path)
}

// set gives the new group its positions and reads them back.
func (c *groupConverter) set(ctx context.Context, want []GroupPosition) error {
	kind := groupKind(c.to)
	positions := make([]kafka.GroupPosition, 0, len(want))
	for _, p := range want {
		positions = append(positions, kafka.GroupPosition{Topic: p.Topic, Partition: p.Partition, Offset: p.Offset})
	}
	if err := c.admin.SetGroupPositions(ctx, c.group, kind, positions); err != nil {
		return err
	}
	back, err := c.admin.GroupPositions(ctx, c.group, kind)
	if err != nil {
		return err
	}
	have := make(map[groupPartition]int64, len(back))
	for _, p := range back {
		have[groupPartition{p.Topic, p.Partition}] = p.Offset
	}
	for _, p := range want {
		at, ok := have[groupPartition{p.Topic, p.Partition}]
		if !ok || at != p.Offset {
			if !ok {
				at = -1
			}
			return fmt.Errorf("read positions of group %q back: %s-%d is at %d, want %d", c.group, p.Topic, p.Partition, at, p.Offset)
		}
	}
	return nil
}

// unfinished says where the positions are and what to do.
func (c *groupConverter) unfinished(err error) error {
	return fmt.Errorf("%w; the conversion is not finished: the positions are saved in %s, start no worker with this "+
		"connector and run the command again", err, c.path)
}
