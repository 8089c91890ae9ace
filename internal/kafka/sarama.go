package kafka

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/rcrowley/go-metrics"
	"github.com/xdg-go/scram"
)

// noMetrics turns off what sarama measures with, which nobody reads: 80 KiB for
// each connection.
var noMetrics = sync.OnceFunc(func() { metrics.UseNilMetrics = true })

// Sarama returns the connection as a sarama configuration: the newest protocol
// versions broker and client share, no topic ever created by asking for it,
// and metadata of used topics only. It reads the TLS files. Callers set what
// their use needs on top.
func (c Connection) Sarama() (*sarama.Config, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("connection %s: %w", c, err)
	}
	noMetrics()
	conf := sarama.NewConfig()
	conf.ClientID = c.clientID()
	conf.Version = sarama.MaxVersion // Negotiated down with each broker.
	conf.Net.DialTimeout = c.dialTimeout()
	conf.Net.ReadTimeout = c.requestTimeout()
	conf.Net.WriteTimeout = c.requestTimeout()
	conf.Net.KeepAlive = 30 * time.Second
	conf.Admin.Timeout = min(c.requestTimeout(), 30*time.Second)
	conf.Metadata.Full = false
	conf.Metadata.AllowAutoTopicCreation = false
	conf.Consumer.Return.Errors = true
	if c.TLS != nil {
		tlsConf, err := c.TLS.config()
		if err != nil {
			return nil, fmt.Errorf("connection %s: %w", c, err)
		}
		conf.Net.TLS.Enable = true
		conf.Net.TLS.Config = tlsConf
	}
	if c.SASL != nil {
		c.SASL.sarama(conf)
	}
	if err := conf.Validate(); err != nil {
		return nil, fmt.Errorf("connection %s: %w", c, err)
	}
	return conf, nil
}

func (s *SASL) sarama(conf *sarama.Config) {
	sasl := &conf.Net.SASL
	sasl.Enable = true
	sasl.Mechanism = sarama.SASLMechanism(s.Mechanism)
	sasl.User = s.Username
	sasl.Password = string(s.Password)
	switch s.Mechanism {
	case MechanismScramSHA256:
		sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: sha256.New} }
	case MechanismScramSHA512:
		sasl.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: sha512.New} }
	case MechanismOAuthBearer:
		sasl.TokenProvider = staticToken(s.Token)
	}
}

// scramClient is one SCRAM conversation for sarama.
type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

var _ sarama.SCRAMClient = (*scramClient)(nil)

// Begin starts the conversation. Name and password go as they are: brokers do
// not prepare them (no SASLprep), and neither does franz-go, so a client that
// did would fail for some passwords only.
func (c *scramClient) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClientUnprepped(user, password, authzID)
	if err != nil {
		return err
	}
	c.conversation = client.NewConversation()
	return nil
}

// Step answers a challenge.
func (c *scramClient) Step(challenge string) (string, error) { return c.conversation.Step(challenge) }

// Done reports whether the conversation is over.
func (c *scramClient) Done() bool { return c.conversation.Done() }

type staticToken Secret

// Token returns the token; sarama asks for it on every new connection.
func (t staticToken) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}
