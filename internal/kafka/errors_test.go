package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestKind(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"none", nil, nil},
		{"franz auth", fmt.Errorf("x: %w", kerr.SaslAuthenticationFailed), ErrAuth},
		{"sarama auth inside out of brokers", sarama.Wrap(sarama.ErrOutOfBrokers, sarama.ErrSASLAuthenticationFailed), ErrAuth},
		{"sarama out of brokers", sarama.ErrOutOfBrokers, ErrUnreachable},
		{"closed connection", io.EOF, ErrUnreachable},
		{"deadline", context.DeadlineExceeded, ErrUnreachable},
		{"cancelled", fmt.Errorf("%w: %w", sarama.ErrOutOfBrokers, context.Canceled), nil},
		{"topic acl", kerr.TopicAuthorizationFailed, ErrDenied},
		{"group acl", &sarama.DescribeConfigError{Err: sarama.ErrGroupAuthorizationFailed}, ErrDenied},
		{"cluster acl", sarama.ErrClusterAuthorizationFailed, ErrDenied},
		{"unknown topic", kerr.UnknownTopicOrPartition, ErrUnknownTopic},
		{"topic exists", &sarama.TopicError{Err: sarama.ErrTopicAlreadyExists}, ErrTopicExists},
		{"already ours", wrap(io.EOF, "read"), ErrUnreachable},
		{"ours with a kind", &Error{Action: "x", Kind: ErrUnsupported, Err: io.EOF}, ErrUnsupported},
		{"other", errors.New("other"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Kind(tt.err); !errors.Is(got, tt.want) || (got == nil) != (tt.want == nil) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestErrorKeepsKindAndCause(t *testing.T) {
	err := wrap(&sarama.DescribeConfigError{Err: sarama.ErrGroupAuthorizationFailed, ErrMsg: "the broker's words"}, "describe group %q", "g")
	if !errors.Is(err, ErrDenied) || !errors.Is(err, sarama.ErrGroupAuthorizationFailed) {
		t.Errorf("got %v, want both kind and cause in its chain", err)
	}
	const want = `describe group "g": the broker's ACLs do not allow it: kafka server: The client is not authorized to access this group - the broker's words`
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if wrap(nil, "x") != nil {
		t.Error("no error became one")
	}
}

func TestTransient(t *testing.T) {
	shards := func(errs ...error) error {
		e := &kadm.ShardErrors{}
		for _, err := range errs {
			e.Errs = append(e.Errs, kadm.ShardError{Err: err})
		}
		return e
	}
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"none", nil, false},
		{"loading", kerr.CoordinatorLoadInProgress, true},
		{"all shards loading", shards(kerr.CoordinatorLoadInProgress, kerr.NotCoordinator), true},
		{"one shard unreachable", shards(kerr.CoordinatorLoadInProgress, io.EOF), false},
		{"denied", kerr.GroupAuthorizationFailed, false},
	} {
		if got := transient(tt.err); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestBoundsInText(t *testing.T) {
	for text, want := range map[string]Bounds{
		"share.delivery.count.limit must be in the range 2 to 10 inclusive.": {2, 10},
		"Value must be at least 2":                   {},
		"in the range 1 to 99999999999999999999999.": {},
	} {
		if got := boundsInText(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestConfigCommand(t *testing.T) {
	a := &Admin{conn: Connection{Bootstrap: []string{"a:1", "b:2"}}}
	got := a.configCommand("g", map[string]string{"x": "1", "b": "", "c": "2"})
	const want = "kafka-configs.sh --bootstrap-server a:1,b:2 --alter --entity-type groups --entity-name g --add-config c=2,x=1 --delete-config b"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
