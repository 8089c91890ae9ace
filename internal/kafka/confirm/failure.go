package confirm

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// failure says what a failed write means.
type failure uint8

const (
	uncertain    failure = iota // It may have landed, or may yet: write again.
	tooLarge                    // This record, or the batch it was in, is larger than the topic takes.
	badTimestamp                // The topic does not take the timestamp of one of the batch's records.
	badRecord                   // The topic does not take one of the batch's records.
	refused                     // Nothing can be written there as things are.
)

// judge tells failures apart. Brokers refuse a batch as a whole, so tooLarge,
// badTimestamp and badRecord say something about a message only if it was alone.
func judge(err error) failure {
	for _, e := range []struct {
		err error
		is  failure
	}{
		{kerr.MessageTooLarge, tooLarge}, // The client's own word as well.
		{kerr.RecordListTooLarge, tooLarge},
		{kerr.InvalidTimestamp, badTimestamp},
		{kerr.InvalidRecord, badRecord},
		{kerr.TopicAuthorizationFailed, refused},
		{kerr.ClusterAuthorizationFailed, refused},
		{kerr.SaslAuthenticationFailed, refused},
		{kerr.InvalidTopicException, refused},
		{kerr.UnknownTopicOrPartition, refused},
		{kerr.PolicyViolation, refused},
		{kerr.UnsupportedForMessageFormat, refused},
		{kgo.ErrClientClosed, refused},
		{ErrClosed, refused},
	} {
		if errors.Is(err, e.err) {
			return e.is
		}
	}
	return uncertain
}

// next returns how to write a message again after err, and whether to wait
// first; final means not at all. whole says that nothing may be left out.
func (f form) next(err error, size int, whole bool) (again form, wait, final bool) {
	switch why := judge(err); {
	case why == uncertain:
		return f, !errors.Is(err, errNotSent), false
	case why == refused:
		return f, false, true
	case !f.alone: // A neighbour may be at fault.
		f.alone = true
		return f, false, false
	case why == tooLarge && f.Omit < All && !whole:
		if f.Omit == Nothing {
			f.MaxedBytes = size
		}
		f.Omit++
		return f, false, false
	case why == badTimestamp && !f.Now:
		f.Now = true
		return f, false, false
	default:
		return f, false, true
	}
}
