package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// connIdleTimeout keeps a share session's connection while its records are
// being worked on and nothing is asked of the broker: the broker gives every
// held record back when the connection closes. It is the client's maximum.
const connIdleTimeout = 15 * time.Minute

// Franz returns the connection as franz-go options. It reads the TLS files.
// Timeouts suit share groups: a long request timeout, so that an
// acknowledgement outlasts a share coordinator's failover, and connections
// that may idle. How much to fetch at once is the caller's.
func (c Connection) Franz() ([]kgo.Opt, error) {
	dial, err := c.Dialer()
	if err != nil {
		return nil, err
	}
	return c.FranzOver(dial), nil
}

// FranzOver is Franz with connections that dial opens, which is [Connection.Dialer] or wraps it.
func (c Connection) FranzOver(dial func(ctx context.Context, network, host string) (net.Conn, error)) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.Dialer(dial),
		kgo.SeedBrokers(c.bootstrap()...),
		kgo.ClientID(c.clientID()),
		kgo.RequestTimeoutOverhead(c.requestTimeout()),
		kgo.ConnIdleTimeout(connIdleTimeout),
		kgo.DisableClientMetrics(),
	}
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL.franz()))
	}
	return opts
}

// Dialer returns what opens a connection to a broker, as kgo.Dialer has it. It
// reads the TLS files. The dialer is bounded by the connection's dial timeout,
// and the TLS handshake by it as well. An invalid connection has none.
func (c Connection) Dialer() (func(ctx context.Context, network, host string) (net.Conn, error), error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("connection %s: %w", c, err)
	}
	dialer := &net.Dialer{Timeout: c.dialTimeout()}
	if c.TLS == nil {
		return dialer.DialContext, nil
	}
	conf, err := c.TLS.config()
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", c, err)
	}
	return (&tls.Dialer{NetDialer: dialer, Config: conf}).DialContext, nil
}

func (s *SASL) franz() sasl.Mechanism {
	switch s.Mechanism {
	case MechanismScramSHA256:
		return scram.Auth{User: s.Username, Pass: string(s.Password)}.AsSha256Mechanism()
	case MechanismScramSHA512:
		return scram.Auth{User: s.Username, Pass: string(s.Password)}.AsSha512Mechanism()
	case MechanismOAuthBearer:
		return oauth.Auth{Token: string(s.Token)}.AsMechanism()
	default: // Validate let nothing else through.
		return plain.Auth{User: s.Username, Pass: string(s.Password)}.AsMechanism()
	}
}
