package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// GroupKind says which protocol a group of that name speaks.
type GroupKind string

// The kinds of groups.
const (
	KindNone     GroupKind = "" // There is no group of that name.
	KindClassic  GroupKind = "classic"
	KindConsumer GroupKind = "consumer"
	KindShare    GroupKind = "share"
	KindStreams  GroupKind = "streams"
)

// ErrGroupKind is the kind of a [*GroupKindError].
var ErrGroupKind = errors.New("the group id is in use by a group of another kind")

// GroupKindError is a group id that a group of another kind uses. Brokers do
// not tell: a share member of a consumer group's name just never gets records.
// Retrying does not help.
type GroupKindError struct {
	Group string
	Is    GroupKind
	Want  GroupKind
}

// Error says what is in the way and how to convert the group.
func (e *GroupKindError) Error() string {
	return fmt.Sprintf("group %q is a %s group and cannot be used as a %s group: stop its members and run "+
		"\"sluice group convert\" for the connector, or choose another group_id", e.Group, e.Is, e.Want)
}

// Unwrap returns [ErrGroupKind].
func (e *GroupKindError) Unwrap() error { return ErrGroupKind }

// GroupKind returns the kind of the named group, [KindNone] if there is none or
// it may not be seen. It asks every broker; if one that may be the group's
// coordinator does not answer, that is an error.
func (a *Admin) GroupKind(ctx context.Context, group string) (GroupKind, error) {
	var kind GroupKind
	err := a.settle(ctx, func(ctx context.Context) error {
		listed, err := a.groups.ListGroups(ctx)
		if g, ok := listed[group]; ok {
			kind = listedKind(g)
			return nil
		}
		return err
	})
	if err != nil {
		return KindNone, wrap(err, "list groups")
	}
	return kind, nil
}

// listedKind reads the type; brokers before 3.8 do not send one and have
// classic groups only, or consumer groups of early access.
func listedKind(g kadm.ListedGroup) GroupKind {
	if g.GroupType == "" {
		return KindClassic
	}
	return GroupKind(g.GroupType)
}

// transient reports errors of a coordinator that is starting or moving.
func transient(err error) bool {
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) {
		for _, s := range shards.Errs {
			if !transient(s.Err) {
				return false
			}
		}
		return len(shards.Errs) > 0
	}
	return errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.CoordinatorNotAvailable) ||
		errors.Is(err, kerr.NotCoordinator)
}

// checkKind returns a [*GroupKindError] unless group may be used as want.
func (a *Admin) checkKind(ctx context.Context, group string, want GroupKind) (GroupKind, error) {
	kind, err := a.GroupKind(ctx, group)
	if err != nil {
		return kind, err
	}
	if kind != KindNone && kind != want {
		return kind, &GroupKindError{Group: group, Is: kind, Want: want}
	}
	return kind, nil
}
