package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The kinds of an [*Error], for errors.Is. An error that fits none has no kind
// and may pass by itself.
var (
	// ErrUnreachable is a broker that does not answer, or an address where no
	// broker is. Trying again may help.
	ErrUnreachable = errors.New("the broker cannot be reached")
	// ErrAuth is a refused name, password, token or client certificate.
	ErrAuth = errors.New("the broker refuses the credentials")
	// ErrTLS is a certificate that cannot be trusted, or TLS spoken to a
	// listener that has none.
	ErrTLS = errors.New("no trusted TLS connection can be made")
	// ErrDenied is a request the broker's ACLs do not allow.
	ErrDenied = errors.New("the broker's ACLs do not allow it")
	// ErrUnsupported is something the broker's version or features lack.
	ErrUnsupported = errors.New("the broker does not support it")
	// ErrUnknownTopic is a topic that does not exist, or may not be seen.
	ErrUnknownTopic = errors.New("the topic does not exist")
	// ErrTopicExists is a topic that was to be made and is there already.
	ErrTopicExists = errors.New("the topic exists already")
	// ErrGroupInUse is a change that a group with members does not allow. Stop
	// them and try again.
	ErrGroupInUse = errors.New("the group has members")
)

// Error is a failed action at the broker or on the way to it.
type Error struct {
	Action string // What was tried, "create topic \"x\"".
	Kind   error  // One of this package's Err values; nil where none fits.
	Err    error  // The client's error, with the broker's text.
}

// Error returns the action, the kind and the broker's text.
func (e *Error) Error() string {
	if e.Kind == nil {
		return e.Action + ": " + e.Err.Error()
	}
	return e.Action + ": " + e.Kind.Error() + ": " + e.Err.Error()
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Kind, e.Err}
}

// wrap translates an error of either client; nil stays nil.
func wrap(err error, action string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Action: fmt.Sprintf(action, args...), Kind: Kind(err), Err: err}
}

// Kind returns which of this package's Err values an error of either Kafka
// client is, nil where none fits.
func Kind(err error) error {
	var own *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own) && own.Kind != nil:
		return own.Kind
	case errors.Is(err, context.Canceled):
		return nil // Ours, whatever else the client says about it.
	case is(err, kerr.SaslAuthenticationFailed, sarama.ErrSASLAuthenticationFailed),
		is(err, kerr.UnsupportedSaslMechanism, sarama.ErrUnsupportedSASLMechanism):
		return ErrAuth
	case is(err, kerr.ClusterAuthorizationFailed, sarama.ErrClusterAuthorizationFailed),
		is(err, kerr.TopicAuthorizationFailed, sarama.ErrTopicAuthorizationFailed),
		is(err, kerr.GroupAuthorizationFailed, sarama.ErrGroupAuthorizationFailed):
		return ErrDenied
	case is(err, kerr.UnknownTopicOrPartition, sarama.ErrUnknownTopicOrPartition),
		is(err, kerr.UnknownTopicID, sarama.ErrUnknownTopicOrPartition):
		return ErrUnknownTopic
	case is(err, kerr.TopicAlreadyExists, sarama.ErrTopicAlreadyExists):
		return ErrTopicExists
	case is(err, kerr.UnsupportedVersion, sarama.ErrUnsupportedVersion):
		return ErrUnsupported
	}
	if kind := tlsKind(err); kind != nil {
		return kind
	}
	var netErr net.Error
	if errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sarama.ErrOutOfBrokers) {
		return ErrUnreachable
	}
	return nil
}

// tlsKind tells a refused client certificate from a broker that cannot be
// trusted.
func tlsKind(err error) error {
	var (
		alert    tls.AlertError
		header   tls.RecordHeaderError
		verify   *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		op       *net.OpError
	)
	switch {
	case errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error":
		return ErrAuth // The broker sent an alert: it does not take our certificate.
	case strings.Contains(err.Error(), "tls alert record"):
		return ErrTLS // franz-go's only sign that a plaintext client met TLS.
	case errors.As(err, &header), errors.As(err, &verify), errors.As(err, &unknown),
		errors.As(err, &hostname), errors.As(err, &invalid):
		return ErrTLS
	default:
		return nil
	}
}

func is(err error, franz *kerr.Error, other sarama.KError) bool {
	return errors.Is(err, franz) || errors.Is(err, other)
}
