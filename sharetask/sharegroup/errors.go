package sharegroup

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// errGivenBack is the cause of records that were open when the source closed.
var errGivenBack = errors.New("given back: the source closed")

// scope says what an error of the broker is about.
type scope uint8

const (
	scopeRecords   scope = iota // The records it was asked about.
	scopePartition              // The hold on the partition: it has another leader.
	scopeSession                // The whole share session: member, epoch or connection.
)

// scopeOf classifies an error. What is no answer of the broker is about the
// session: its connection broke.
func scopeOf(err error) scope {
	var broker *kerr.Error
	switch {
	case err == nil:
		return scopeRecords
	case !errors.As(err, &broker):
		return scopeSession
	}
	switch broker {
	case kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.LeaderNotAvailable,
		kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID:
		return scopePartition
	case kerr.InvalidShareSessionEpoch, kerr.ShareSessionNotFound, kerr.ShareSessionLimitReached,
		kerr.UnknownMemberID, kerr.FencedMemberEpoch, kerr.GroupIDNotFound:
		return scopeSession
	default:
		// INVALID_RECORD_STATE and the like: the lock of one of the records
		// ended, or renewing is switched off.
		return scopeRecords
	}
}

// retriable reports whether an acknowledgement that was refused with err may be
// sent again: the share coordinator could not write it just now. It may have
// been written all the same; the broker takes a verdict twice.
func retriable(err error) bool {
	for _, e := range []error{
		kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator,
		kerr.RequestTimedOut, kerr.NetworkException, kerr.UnknownServerError, kerr.KafkaStorageError,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// fatal reports whether an error will not mend by itself. A new source may do
// better: rights can be granted.
func fatal(err error) bool {
	for _, e := range []error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.InvalidTopicException, kerr.UnsupportedVersion, kerr.InvalidRequest,
		kerr.InvalidGroupID,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// explain adds what to do to the broker's word, where it is a limit of the
// broker.
func explain(err error) error {
	switch {
	case errors.Is(err, kerr.ShareSessionLimitReached):
		return fmt.Errorf("%w: the broker holds as many share sessions as group.share.max.share.sessions allows; raise it, or run fewer tasks", err)
	case errors.Is(err, kerr.GroupMaxSizeReached):
		return fmt.Errorf("%w: the group has as many members as group.share.max.size allows; raise it, or run fewer tasks", err)
	default:
		return err
	}
}
