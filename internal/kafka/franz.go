package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sluicehq/sluice/internal/rawconn"
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
	var conf *tls.Config
	if c.TLS != nil {
		var err error
		if conf, err = c.TLS.config(); err != nil {
			return nil, fmt.Errorf("connection %s: %w", c, err)
		}
	}
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, c.dialTimeout())
		defer cancel()
		conn, err := new(net.Dialer).DialContext(ctx, network, host)
		if err != nil {
			return nil, err
		}
		conn = rawconn.Wrap(conn)
		if conf == nil {
			return conn, nil
		}
		return handshake(ctx, conn, host, conf)
	}, nil
}

// handshake returns conn as a TLS client, or closes it. ctx bounds it.
func handshake(ctx context.Context, conn net.Conn, host string, conf *tls.Config) (net.Conn, error) {
	if conf.ServerName == "" {
		name, _, err := net.SplitHostPort(host)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		conf = conf.Clone()
		conf.ServerName = name
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
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
