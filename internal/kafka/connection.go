package kafka

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The SASL mechanisms a connection may use.
const (
	MechanismPlain       = "PLAIN"
	MechanismScramSHA256 = "SCRAM-SHA-256"
	MechanismScramSHA512 = "SCRAM-SHA-512"
	MechanismOAuthBearer = "OAUTHBEARER"
)

// Mechanisms returns the SASL mechanisms a connection may use.
func Mechanisms() []string {
	return []string{MechanismPlain, MechanismScramSHA256, MechanismScramSHA512, MechanismOAuthBearer}
}

// Defaults of a connection's timeouts.
const (
	DefaultDialTimeout = 10 * time.Second
	// DefaultRequestTimeout is what a request may take beyond what it asked
	// the broker to wait. It is long because an acknowledgement waits for the
	// share coordinator, which takes most of a minute to fail over; a
	// connection cut before that gives every held record back.
	DefaultRequestTimeout = 90 * time.Second
)

// Connection says how to reach one Kafka cluster. It is a value: it may be
// copied and used from any goroutine as long as nobody changes it.
type Connection struct {
	Name      string   // For messages; may be empty.
	Bootstrap []string // HOST:PORT, at least one.
	ClientID  string   // "sluice" when empty.
	TLS       *TLS     // Nil is plaintext.
	SASL      *SASL    // Nil is no authentication, or the TLS certificate's.

	DialTimeout    time.Duration // DefaultDialTimeout when zero; TLS and SASL handshakes are bounded by RequestTimeout.
	RequestTimeout time.Duration // DefaultRequestTimeout when zero.
}

// TLS turns on TLS. The zero value trusts the system's certificate authorities.
type TLS struct {
	CAFile     string // PEM; replaces the system's authorities.
	CertFile   string // PEM; with KeyFile, the client certificate (mTLS).
	KeyFile    string // PEM.
	ServerName string // Name to expect in the broker's certificate; its host when empty.
}

// SASL says who we are.
type SASL struct {
	Mechanism string // One of Mechanisms.
	Username  string // PLAIN and SCRAM.
	Password  Secret // PLAIN and SCRAM.
	Token     Secret // OAUTHBEARER.
}

// Validate checks the definition without opening a file or a connection. It
// returns every problem, joined; a problem's text begins with the setting's
// name and holds no secret.
func (c Connection) Validate() error {
	var errs []error
	if len(c.Bootstrap) == 0 {
		errs = append(errs, errors.New("bootstrap: at least one HOST:PORT is needed"))
	}
	for _, addr := range c.Bootstrap {
		if err := checkAddress(addr); err != nil {
			errs = append(errs, fmt.Errorf("bootstrap: %w", err))
		}
	}
	if c.DialTimeout < 0 {
		errs = append(errs, fmt.Errorf("dial_timeout: %v is negative", c.DialTimeout))
	}
	if c.RequestTimeout < 0 {
		errs = append(errs, fmt.Errorf("request_timeout: %v is negative", c.RequestTimeout))
	}
	if t := c.TLS; t != nil && (t.CertFile == "") != (t.KeyFile == "") {
		errs = append(errs, errors.New("tls: cert_file and key_file go together"))
	}
	if c.SASL != nil {
		errs = append(errs, c.SASL.validate()...)
	}
	return errors.Join(errs...)
}

func (s *SASL) validate() []error {
	var errs []error
	switch s.Mechanism {
	case MechanismPlain, MechanismScramSHA256, MechanismScramSHA512:
		if s.Username == "" {
			errs = append(errs, fmt.Errorf("sasl: username is needed with %s", s.Mechanism))
		}
		if s.Password == "" {
			errs = append(errs, fmt.Errorf("sasl: password is needed with %s", s.Mechanism))
		}
		if s.Token != "" {
			errs = append(errs, fmt.Errorf("sasl: token has no use with %s", s.Mechanism))
		}
	case MechanismOAuthBearer:
		if s.Token == "" {
			errs = append(errs, errors.New("sasl: token is needed with OAUTHBEARER"))
		}
		if s.Username != "" || s.Password != "" {
			errs = append(errs, errors.New("sasl: username and password have no use with OAUTHBEARER"))
		}
	default:
		errs = append(errs, fmt.Errorf("sasl: mechanism %q is not one of %s",
			s.Mechanism, strings.Join(Mechanisms(), ", ")))
	}
	return errs
}

func checkAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT", addr)
	}
	if host == "" {
		return fmt.Errorf("%q has no host", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q has no port between 1 and 65535", addr)
	}
	return nil
}

// String names the connection and its addresses.
func (c Connection) String() string {
	addrs := strings.Join(c.Bootstrap, ",")
	if c.Name == "" {
		return addrs
	}
	return strconv.Quote(c.Name) + " (" + addrs + ")"
}

func (c Connection) clientID() string {
	if c.ClientID == "" {
		return "sluice"
	}
	return c.ClientID
}

func (c Connection) dialTimeout() time.Duration {
	if c.DialTimeout == 0 {
		return DefaultDialTimeout
	}
	return c.DialTimeout
}

func (c Connection) requestTimeout() time.Duration {
	if c.RequestTimeout == 0 {
		return DefaultRequestTimeout
	}
	return c.RequestTimeout
}

func (c Connection) bootstrap() []string { return slices.Clone(c.Bootstrap) }
