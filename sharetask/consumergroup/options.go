package consumergroup

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/IBM/sarama"

	"github.com/sluicehq/sluice/internal/kafka"
)

// Defaults and limits of [Options].
const (
	DefaultMaxRecords       = 500
	LimitMaxRecords         = 10_000
	DefaultSessionTimeout   = 45 * time.Second
	DefaultRebalanceTimeout = 60 * time.Second
	DefaultCommitInterval   = time.Second
	DefaultMetadataInterval = 30 * time.Second
)

// Reset says where to begin in a partition the group has no position in, or
// one that no longer exists. The zero value is the end of the log, as in Kafka.
type Reset struct {
	Earliest bool
	// By, if not zero, begins with the first record not older than By.
	By time.Duration
}

// String returns the policy as Kafka writes it.
func (r Reset) String() string {
	switch {
	case r.By > 0:
		return "by_duration:" + r.By.String()
	case r.Earliest:
		return "earliest"
	default:
		return "latest"
	}
}

// Options say what a source reads and how.
type Options struct {
	Connection kafka.Connection
	ClientID   string // Replaces Connection's when not empty.

	Group      string
	Topics     []string // These, or
	TopicRegex string   // every topic this matches (RE2, unanchored), looked up every MetadataInterval.

	Reset         Reset
	ReadCommitted bool // Records of open and aborted transactions are not seen.

	MaxRecords       int           // Records in one Acquired, DefaultMaxRecords when zero, at most LimitMaxRecords.
	SessionTimeout   time.Duration // DefaultSessionTimeout when zero.
	RebalanceTimeout time.Duration // How long a revoke may take at most, DefaultRebalanceTimeout when zero.
	CommitInterval   time.Duration // DefaultCommitInterval when zero.
	MetadataInterval time.Duration // DefaultMetadataInterval when zero.

	Logger *slog.Logger // Nil discards.
}

// withDefaults checks o and fills in its defaults.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Group == "" {
		errs = append(errs, errors.New("group: is empty"))
	}
	if (len(o.Topics) == 0) == (o.TopicRegex == "") {
		errs = append(errs, errors.New("topics: give either names or an expression"))
	}
	if _, err := regexp.Compile(o.TopicRegex); err != nil {
		errs = append(errs, fmt.Errorf("topic expression: %w", err))
	}
	if o.Reset.By < 0 || o.Reset.By > 0 && o.Reset.Earliest {
		errs = append(errs, errors.New("reset: give earliest or a positive duration"))
	}
	o.MaxRecords = cmp.Or(o.MaxRecords, DefaultMaxRecords)
	if o.MaxRecords < 1 || o.MaxRecords > LimitMaxRecords {
		errs = append(errs, fmt.Errorf("max records: %d is not in 1 to %d", o.MaxRecords, LimitMaxRecords))
	}
	o.SessionTimeout = cmp.Or(o.SessionTimeout, DefaultSessionTimeout)
	o.RebalanceTimeout = cmp.Or(o.RebalanceTimeout, DefaultRebalanceTimeout)
	o.CommitInterval = cmp.Or(o.CommitInterval, DefaultCommitInterval)
	o.MetadataInterval = cmp.Or(o.MetadataInterval, DefaultMetadataInterval)
	for name, d := range map[string]time.Duration{
		"session timeout": o.SessionTimeout, "rebalance timeout": o.RebalanceTimeout,
		"commit interval": o.CommitInterval, "metadata interval": o.MetadataInterval,
	} {
		if d < 10*time.Millisecond {
			errs = append(errs, fmt.Errorf("%s: %v is too short", name, d))
		}
	}
	if o.ClientID != "" {
		o.Connection.ClientID = o.ClientID
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(errs...)
}

// heartbeatInterval leaves room for several lost heartbeats in a session.
func (o Options) heartbeatInterval() time.Duration {
	return min(o.SessionTimeout/4, 3*time.Second)
}

// config returns the library's settings. The source commits and picks first
// positions itself; the library's own are never used but where a position goes
// out of range between our look and its. It calls suspect when a fetch was
// refused in a way that a deleted topic may be behind.
func (o Options) config(conns *connections, suspect func()) (*sarama.Config, error) {
	c, err := o.Connection.Sarama()
	if err != nil {
		return nil, err
	}
	c.Net.Proxy.Enable = true
	c.Net.Proxy.Dialer = conns.dialer(c.Net.DialTimeout, c.Net.KeepAlive)
	c.Metadata.Full = o.TopicRegex != "" // Any topic may match.
	c.Metadata.RefreshFrequency = o.MetadataInterval
	c.ChannelBufferSize = o.MaxRecords
	c.Consumer.Return.Errors = true
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Offsets.Initial = sarama.OffsetNewest
	if o.Reset.Earliest || o.Reset.By > 0 {
		c.Consumer.Offsets.Initial = sarama.OffsetOldest
	}
	backoff := c.Consumer.Retry.Backoff
	c.Consumer.Retry.BackoffFunc = func(int) time.Duration {
		suspect()
		return backoff
	}
	c.Consumer.MaxWaitTime = 500 * time.Millisecond
	if o.ReadCommitted {
		c.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	c.Consumer.Group.Session.Timeout = o.SessionTimeout
	c.Consumer.Group.Heartbeat.Interval = o.heartbeatInterval()
	c.Consumer.Group.Rebalance.Timeout = o.RebalanceTimeout
	// Round robin spreads many topics of one partition over the members; range
	// is what other clients know, for the time a group is shared with them.
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin(), sarama.NewBalanceStrategyRange()}
	return c, c.Validate()
}
