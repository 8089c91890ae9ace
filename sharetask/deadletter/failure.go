package deadletter

import (
	"errors"

	"github.com/IBM/sarama"
)

// failure says what a failed write of a letter means.
type failure uint8

const (
	uncertain    failure = iota // It may have landed, or may yet: write again.
	tooLarge                    // This record, or the batch it was in, is larger than the topic takes.
	badTimestamp                // The topic does not take the timestamp of one of the batch's records.
	badRecord                   // The topic does not take one of the batch's records.
	refused                     // Nothing can be written there as things are.
)

// judge tells failures apart. Brokers refuse a batch as a whole, so tooLarge,
// badTimestamp and badRecord say something about a letter only if it was alone.
func judge(err error) failure {
	var (
		encoding sarama.PacketEncodingError
		config   sarama.ConfigurationError
	)
	switch {
	case errors.Is(err, sarama.ErrMessageSizeTooLarge), errors.Is(err, sarama.ErrMessageSetSizeTooLarge),
		errors.As(err, &config), // "larger than configured": sarama's only one while producing.
		errors.As(err, &encoding):
		return tooLarge
	case errors.Is(err, sarama.ErrInvalidTimestamp):
		return badTimestamp
	case errors.Is(err, sarama.ErrInvalidRecord):
		return badRecord
	case errors.Is(err, sarama.ErrTopicAuthorizationFailed), errors.Is(err, sarama.ErrClusterAuthorizationFailed),
		errors.Is(err, sarama.ErrSASLAuthenticationFailed), errors.Is(err, sarama.ErrInvalidTopic),
		errors.Is(err, sarama.ErrUnknownTopicOrPartition), errors.Is(err, sarama.ErrPolicyViolation),
		errors.Is(err, sarama.ErrUnsupportedForMessageFormat), errors.Is(err, sarama.ErrShuttingDown),
		errors.Is(err, sarama.ErrClosedClient), errors.Is(err, errClosed):
		return refused
	default:
		return uncertain
	}
}

// next returns how to write a letter again after err, and whether to wait
// first; final means not at all.
func (f form) next(err error, size int) (again form, wait, final bool) {
	switch why := judge(err); {
	case why == uncertain:
		return f, !errors.Is(err, errNotSent), false
	case why == refused:
		return f, false, true
	case !f.alone: // A neighbour may be at fault.
		f.alone = true
		return f, false, false
	case why == tooLarge && f.omit < all:
		if f.omit == nothing {
			f.maxedBytes = size
		}
		f.omit++
		return f, false, false
	case why == badTimestamp && !f.now:
		f.now = true
		return f, false, false
	default:
		return f, false, true
	}
}
