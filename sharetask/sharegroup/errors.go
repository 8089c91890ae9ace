package sharegroup

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// errGivenBack is the cause of records that were open when the source closed.
var errGivenBack = errors.New("given back: the source closed")

// errDropped is the cause of decisions whose answer did not come before the
// connections were dropped.
var errDropped = errors.New("the connections were dropped before the broker answered")

// sessionScope says what an acknowledgement's error ends besides the
// decisions it refused.
type sessionScope uint8

const (
	scopeDecision  sessionScope = iota // Nothing more.
	scopePartition                     // The hold on the partition: it has another leader.
	scopeSession                       // The whole share session: member, epoch or connection.
)

// scopeOf classifies the error of an acknowledgement. What it does not know is
// no answer of the broker about the records (a broken connection, a partition
// missing in the response), which ends the session.
func scopeOf(err error) sessionScope {
	var broker *kerr.Error
	switch {
	case err == nil:
		return scopeDecision
	case !errors.As(err, &broker):
		return scopeSession
	}
	switch broker {
	case kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
		kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID:
		return scopePartition
	case kerr.InvalidShareSessionEpoch, kerr.ShareSessionNotFound, kerr.ShareSessionLimitReached,
		kerr.UnknownMemberID, kerr.FencedMemberEpoch, kerr.GroupIDNotFound, kerr.GroupAuthorizationFailed:
		return scopeSession
	default:
		// INVALID_RECORD_STATE and the like are about the records: the lock
		// of one of them ended, or renewing is switched off.
		return scopeDecision
	}
}

// fatal reports whether a poll's error will not mend by itself in this client.
// A new one may do better: rights can be granted, a topic made again has
// another id.
func fatal(err error) bool {
	var session *kgo.ErrGroupSession
	if errors.As(err, &session) {
		return !kerr.IsRetriable(session.Err)
	}
	for _, e := range []error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.UnknownTopicID, kerr.InvalidTopicException, kerr.UnsupportedVersion,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
