package consumergroup

import (
	"errors"

	"github.com/IBM/sarama"

	"github.com/sluicehq/sluice/sharetask"
)

var (
	// errRevoked is the cause of records lost in a rebalance.
	errRevoked = errors.New("the partition was revoked")

	// errGivenBack is the cause of records that were open when the source closed.
	errGivenBack = errors.New("given back: the source closed")

	// errReplaced is the cause of records lost with their topic.
	errReplaced = errors.New("its records are gone")

	// errAbsent is what a source waits for that has nothing to read.
	errAbsent = errors.New("none of the topics exists")

	// errUnproven says that a leader did not tell whether a topic is the same.
	errUnproven = errors.New("it cannot be told whether it is still the same")
)

// fenced reports whether the group no longer knows this member, so that none
// of its commits can succeed.
func fenced(err error) bool {
	return errors.Is(err, sarama.ErrUnknownMemberId) || errors.Is(err, sarama.ErrIllegalGeneration) ||
		errors.Is(err, sarama.ErrFencedInstancedId)
}

// fatal reports whether retrying in this source does not help.
func fatal(err error) bool {
	for _, e := range []error{
		sharetask.ErrGroupKind, sarama.ErrInconsistentGroupProtocol, sarama.ErrGroupAuthorizationFailed,
		sarama.ErrTopicAuthorizationFailed, sarama.ErrClusterAuthorizationFailed, sarama.ErrSASLAuthenticationFailed,
		sarama.ErrInvalidSessionTimeout, sarama.ErrInvalidGroupId, sarama.ErrGroupMaxSizeReached,
		sarama.ErrFencedInstancedId, sarama.ErrInvalidTopic,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
