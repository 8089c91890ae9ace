package emit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/pluginapi"
)

// codeProduce is the code of results of records that could not be produced, where
// the broker names none.
const codeProduce = "produce"

// OfRecord reports whether a failure is a record's own, or of another one in the
// batch it was produced in.
func OfRecord(err error) bool {
	for _, e := range []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidTimestamp, kerr.InvalidRecord} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Failure returns the result of a record that emitted something for topic that
// was not produced, alone in its batch where it may be its own fault.
func Failure(topic string, err error) pluginapi.Result {
	code := codeProduce
	var broker *kerr.Error
	if errors.As(err, &broker) {
		code = broker.Message
	}
	message := fmt.Sprintf("produce to %q: %v", topic, err)
	switch {
	case OfRecord(err), errors.Is(err, kerr.InvalidTopicException):
		return pluginapi.Rejected(code, message)
	case errors.Is(err, kerr.UnknownTopicOrPartition), !unreachable(err) && broker == nil:
		// The topic may be made yet. Or it does not have the partition, which the
		// client alone knows.
		return pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Transient, Code: code, Message: message})
	default:
		return pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Unavailable, Code: code, Message: message})
	}
}

// unreachable reports whether an error says that no broker answered.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrRecordRetries) || errors.Is(err, kgo.ErrClientClosed)
}

// ProduceError is the error of a record that was not produced.
type ProduceError struct {
	Topic string
	Err   error
}

// Error returns the cause's text.
func (e *ProduceError) Error() string { return fmt.Sprintf("produce to %q: %v", e.Topic, e.Err) }

// Unwrap returns the cause.
func (e *ProduceError) Unwrap() error { return e.Err }
