package sharegroup

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka"
)

const (
	// credentialsPause is between two looks at whether the broker takes our
	// credentials.
	credentialsPause   = 5 * time.Second
	credentialsTimeout = 10 * time.Second
)

// credentials watches whether the broker still takes ours. After a password was
// changed, connections live on until the broker makes them log in again, each at
// its own time: what one worker loses another one gets, and would lose too. So
// when records come that were delivered before, a new connection shows whether
// that is why. While it is refused nothing is acquired; what is held is decided
// for as long as the old connections last.
type credentials struct {
	s       *Source
	doubted chan struct{} // Capacity 1.
	refused bool          // Guarded by s.mu.
}

func newCredentials(s *Source) *credentials {
	return &credentials{s: s, doubted: make(chan struct{}, 1)}
}

// doubt has the credentials looked at, soon.
func (c *credentials) doubt() {
	select {
	case c.doubted <- struct{}{}:
	default:
	}
}

// run looks when there is doubt, and then for as long as they are refused, until
// ctx ends. Without credentials there is nothing to look at.
func (c *credentials) run(ctx context.Context) {
	if c.s.opts.Connection.SASL == nil {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for refused := false; ; {
		if !refused {
			select {
			case <-c.doubted:
			case <-ctx.Done():
				return
			}
		}
		if err := c.login(ctx); refused != errors.Is(kafka.Kind(err), kafka.ErrAuth) {
			refused = !refused
			c.set(refused, err)
		}
		timer.Reset(credentialsPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// set enters that the credentials are refused, or taken again.
func (c *credentials) set(refused bool, err error) {
	c.s.mu.Lock()
	c.refused = refused
	c.s.mu.Unlock()
	if refused {
		c.s.log.Warn("the broker refuses the credentials, nothing is acquired until it takes them", "err", err)
		return
	}
	c.s.log.Info("the broker takes the credentials again")
	c.s.signal()
}

// login logs in on a new connection.
func (c *credentials) login(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, credentialsTimeout)
	defer cancel()
	client, err := kgo.NewClient(slices.Concat(c.s.conn, []kgo.Opt{kgo.RetryTimeout(0), kgo.RequestRetries(0)})...)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Ping(ctx)
}
