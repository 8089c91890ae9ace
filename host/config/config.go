package config

import (
	"encoding/json"
	"regexp"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Config is what the files say, defaults filled in. It is not changed after
// [Load] and safe for concurrent reading.
type Config struct {
	Worker     Worker
	Kafka      map[string]*Kafka     // By name.
	Plugins    map[string]*PluginPin // By plugin name.
	Connectors []*Connector          // In the order of files and lines; unusable ones too.
	Sources    *Sources              `json:"-"` // For printing diagnostics with their source lines.
}

// Usable returns the connectors that can be run.
func (c *Config) Usable() []*Connector {
	var out []*Connector
	for _, conn := range c.Connectors {
		if conn.Usable {
			out = append(out, conn)
		}
	}
	return out
}

// Ranges says where each written setting stands, by its path of names joined
// by dots: "share.acquisition_lock_timeout". A setting written as a property
// has its property's place. Settings left at their default are not in it.
type Ranges map[string]hcl.Range

// Written reports whether the user wrote the setting.
func (r Ranges) Written(path string) bool {
	_, ok := r[path]
	return ok
}

// At returns where path stands, or its nearest parent's place when it was not
// written. The path "" is the block's own header.
func (r Ranges) At(path string) hcl.Range {
	for {
		if at, ok := r[path]; ok || path == "" {
			return at
		}
		i := len(path) - 1
		for i > 0 && path[i] != '.' {
			i--
		}
		path = path[:i]
	}
}

// Worker is the worker block, or its defaults.
type Worker struct {
	ID             string   // The host's name by default.
	GroupProtocol  string   // GroupConsumer or GroupShare, for connectors that do not say.
	PluginPath     []string // Directories, absolute or from the working directory.
	Listen         string   // Address of the HTTP listener.
	InsecureListen bool     // Listen may name an address other machines can reach.
	StateDir       string
	MemoryBytes    int64 // Of all records in flight; 0 means half of GOMEMLIMIT, else 1 GiB.
	StopTimeout    time.Duration
	Key            Converter
	Value          Converter
	Header         Converter
	Ranges         Ranges `json:"-"`
	Usable         bool   // The block, if there is one, is right.
}

// Converter names a converter and the options written for it. Options are
// checked against the converter's own description by [Converter.CheckOptions].
type Converter struct {
	Name    string // "bytes" by default.
	Options *Tree
	sources *Sources
}

// Kafka is one connection to a cluster.
type Kafka struct {
	Name      string
	Bootstrap []string
	ClientID  string
	TLS       *TLS  // Nil means plain text.
	SASL      *SASL // Nil means no login.

	DialTimeout    time.Duration
	RequestTimeout time.Duration

	Ranges Ranges `json:"-"`
	Usable bool
}

// TLS says how to check the brokers and, for mutual TLS, who we are.
type TLS struct {
	CAFile   string // Empty means the system's roots.
	CertFile string
	KeyFile  string
	// ServerName is the name to expect in the brokers' certificates; empty
	// means each broker's host.
	ServerName string
}

// SASL is a login.
type SASL struct {
	Mechanism string
	Username  Secret
	Password  Secret
	Token     Secret // OAUTHBEARER.
}

// PluginPin pins, configures and sandboxes a plugin.
type PluginPin struct {
	Name       string
	Version    string // A constraint such as "~> 1.2"; empty means any.
	SHA256     string // In lower-case hexadecimal; empty means any.
	Env        map[string]Secret
	InheritEnv []string // Names of variables, with * as a wildcard.
	Processes  int
	Sandbox    Sandbox
	Ranges     Ranges `json:"-"`
	Usable     bool
}

// Sandbox limits a WASM plugin.
type Sandbox struct {
	MemoryBytes int64
	AllowHosts  []string // "host:port"
}

// The group protocols a connector may use.
const (
	GroupShare    = "share"
	GroupConsumer = "consumer"
)

// The values of [Share.AcknowledgementMode].
const (
	AcknowledgeExplicit = "explicit"
	AcknowledgeImplicit = "implicit"
)

// SinkRef names a plugin, and its form where the user forces one.
type SinkRef struct {
	Form string // "builtin", "process", "wasm", or "" for any.
	Name string
}

// String returns the reference as it is written.
func (s SinkRef) String() string {
	if s.Form == "" {
		return s.Name
	}
	return s.Form + ":" + s.Name
}

// The values of [Connector.AutoOffsetReset].
const (
	ResetEarliest   = "earliest"
	ResetLatest     = "latest"
	ResetByDuration = "by_duration"
)

// The values of [Connector.DeliverySemantics].
const (
	AtLeastOnce = "at-least-once"
	ExactlyOnce = "exactly-once"
)

const readCommitted = "read_committed"

// Connector is one connector, defaults filled in.
type Connector struct {
	Name  string
	Sink  SinkRef
	Kafka string // Name of a Kafka block; empty with Env.Dev.

	Topics      []string // Exactly one of Topics and TopicsRegex is set.
	TopicsRegex string   // RE2; matches whole names. See [Connector.Reads].

	Tasks       int
	Parallelism int
	PutTimeout  time.Duration // 0 means the default: 60s, or what the lock leaves.

	GroupProtocol     string
	GroupID           string
	AutoOffsetReset   string
	AutoOffsetBack    time.Duration // With ResetByDuration: how far back.
	IsolationLevel    string        // "read_uncommitted" or "read_committed".
	DeliverySemantics string        // AtLeastOnce or ExactlyOnce.

	Share           Share
	Consumer        Consumer
	Batch           Batch
	Retry           Retry
	Breaker         Breaker
	Isolate         Isolate
	DeadLetterQueue *DeadLetterQueue // Nil means none.
	Errors          Errors

	Key    Converter
	Value  Converter
	Header Converter

	// Config holds the plugin's own settings as written.
	Config *Tree

	Ranges   Ranges    `json:"-"`
	DefRange hcl.Range // Of the block's header.
	Usable   bool      // It has no error and may be run.

	topics  *regexp.Regexp
	sources *Sources
}

// Reads reports whether the connector subscribes to topic. The dead letter
// topic of the connector itself is never read.
func (c *Connector) Reads(topic string) bool {
	if c.DeadLetterQueue != nil && topic == c.DeadLetterQueue.Topic {
		return false
	}
	return c.names(topic)
}

// LedgerTopic returns the topic in which an exactly-once connector keeps who wrote
// what.
func (c *Connector) LedgerTopic() string { return c.GroupID + ".ledger" }

// TopicPattern returns TopicsRegex such that it matches whole topic names
// only, or "".
func (c *Connector) TopicPattern() string {
	if c.TopicsRegex == "" {
		return ""
	}
	return "^(?:" + c.TopicsRegex + ")$"
}

// names reports whether topic is listed or matches the pattern.
func (c *Connector) names(topic string) bool {
	for _, t := range c.Topics {
		if t == topic {
			return true
		}
	}
	return c.topics != nil && c.topics.MatchString(topic)
}

// Share holds the settings of a share group.
type Share struct {
	AcknowledgementMode    string // AcknowledgeExplicit or AcknowledgeImplicit.
	AcquisitionLockTimeout time.Duration
	MaxDeliveryCount       int
	MaxRecordLocks         int
	HoldTimeout            time.Duration
}

// Consumer holds the settings of a classic consumer group.
type Consumer struct {
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration // 0 means put_timeout + 30s.
	CommitInterval   time.Duration
}

// Batch bounds what is put at once.
type Batch struct {
	MaxRecords int
	MaxBytes   int64
	MaxWait    time.Duration // From the first record.
}

// Retry says how a record is tried again: in place, or from a topic.
type Retry struct {
	Initial    time.Duration
	Max        time.Duration
	MaxElapsed time.Duration
	ParkAfter  time.Duration // 0 where records wait in place.
	Topic      string        // Empty where they do.
}

// Breaker says when an outage of the target is assumed.
type Breaker struct {
	Failures int // Whole batches that fail in a row.
	Max      time.Duration
}

// Isolate says how a record that kills its sink is found.
type Isolate struct {
	Attempts int // Of a single record.
}

// DeadLetterQueue is where records go that were given up on.
type DeadLetterQueue struct {
	Topic             string
	Partitions        int // 0 means as many as the source topic.
	ReplicationFactor int // -1 means the broker's default.
	MaxRatio          float64
	Net               bool
	Broker            bool // The broker alone writes dead letters; only in a share group and with Net.
}

// Errors says what happens to a record that cannot be written.
type Errors struct {
	Tolerance string // "all" or "none".
	Log       bool
}

// MarshalJSON shows the definition, secrets blotted out, without positions.
func (c *Connector) MarshalJSON() ([]byte, error) {
	type plain struct {
		Name, Sink, Kafka      string
		Topics                 []string
		TopicsRegex            string
		Tasks, Parallelism     int
		PutTimeout             string
		GroupProtocol, GroupID string
		AutoOffsetReset        string
		AutoOffsetBack         string `json:",omitempty"`
		IsolationLevel         string
		DeliverySemantics      string
		Share                  Share
		Consumer               Consumer
		Batch                  Batch
		Retry                  Retry
		Breaker                Breaker
		Isolate                Isolate
		DeadLetterQueue        *DeadLetterQueue
		Errors                 Errors
		Key, Value, Header     string
		Config                 *Tree
		Usable                 bool
	}
	out := plain{
		Name: c.Name, Sink: c.Sink.String(), Kafka: c.Kafka, Topics: c.Topics, TopicsRegex: c.TopicsRegex,
		Tasks: c.Tasks, Parallelism: c.Parallelism, PutTimeout: c.PutTimeout.String(),
		GroupProtocol: c.GroupProtocol, GroupID: c.GroupID, AutoOffsetReset: c.AutoOffsetReset,
		IsolationLevel: c.IsolationLevel, DeliverySemantics: c.DeliverySemantics,
		Share: c.Share, Consumer: c.Consumer, Batch: c.Batch, Retry: c.Retry, Breaker: c.Breaker, Isolate: c.Isolate,
		DeadLetterQueue: c.DeadLetterQueue, Errors: c.Errors,
		Key: c.Key.Name, Value: c.Value.Name, Header: c.Header.Name, Config: c.Config, Usable: c.Usable,
	}
	if c.AutoOffsetReset == ResetByDuration {
		out.AutoOffsetBack = c.AutoOffsetBack.String()
	}
	return json.Marshal(out)
}
