package kafkatest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Version is the release of Apache Kafka the harness runs; Old is the oldest that share groups are tried with.
const (
	Version = "4.4.0"
	Old     = "4.2.0"
)

// Options say what cluster [New] makes. The zero value is one broker with a plaintext listener.
type Options struct {
	// Brokers is their number, 1 (also for 0) to 5. All of them are controllers too. With three or more, replication factors
	// of internal topics are 3 and the least number of in-sync replicas 2.
	Brokers int

	// Properties are added to every broker's server.properties and win over what the harness sets.
	Properties map[string]string

	// Listeners are added to the plaintext one, which always exists (the brokers and the harness use it).
	Listeners []Listener

	// Users are names and passwords for the SASL mechanisms of Listeners: SCRAM and PLAIN know the same users.
	Users map[string]string

	// Version is the release to run: [Version] if empty, or [Old].
	Version string

	// Features are the feature levels the storage is formatted with; those not named are share.version=2 (1 with Old) and
	// transaction.version=2. A level of 0 disables the feature.
	Features map[string]int

	// HeapMB is the heap of each broker in MiB; 0 means 768 for one broker and 512 for several.
	HeapMB int

	// JVMFlags are put after the harness's own flags, which favour a quick start over throughput. Benchmarks give
	// "-XX:TieredStopAtLevel=4" here, which gives the optimising compiler back.
	JVMFlags []string

	training bool // the run that writes the class archive: uses none, and waits for no slot
}

// Listener is one more way into each broker of a cluster.
type Listener struct {
	// Name is the listener's, upper case, such as "SECURE"; [Cluster.BootstrapOf] takes it. Not PLAINTEXT, not CONTROLLER.
	Name string

	// TLS asks for encryption, with a certificate for 127.0.0.1 and localhost signed by the CA of [Cluster.Certificates].
	TLS bool

	// ClientAuth demands a certificate of the client, signed by the same CA. Needs TLS.
	ClientAuth bool

	// Mechanisms are the SASL mechanisms offered: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER (unsecured tokens, with
	// algorithm "none"). Empty: no SASL.
	Mechanisms []string

	// Advertised are the addresses, host:port by broker, that brokers tell clients of this listener to use, for tests with a
	// proxy in between; [Cluster.BootstrapOf] still gives the brokers' own. Nil: the brokers' own.
	Advertised []string
}

// protocol is Kafka's name of the listener's security protocol.
func (l Listener) protocol() string {
	switch {
	case l.TLS && len(l.Mechanisms) > 0:
		return "SASL_SSL"
	case l.TLS:
		return "SSL"
	case len(l.Mechanisms) > 0:
		return "SASL_PLAINTEXT"
	default:
		return "PLAINTEXT"
	}
}

// validate reports the first mistake in the options.
func (o Options) validate() error {
	if o.Brokers < 0 || o.Brokers > 5 {
		return fmt.Errorf("brokers is %d, must be 1 to 5", o.Brokers)
	}
	for _, l := range o.Listeners {
		if l.Name == "" || l.Name == plaintext || l.Name == controller || strings.ToUpper(l.Name) != l.Name {
			return fmt.Errorf("listener %q: the name must be upper case and neither empty, %s nor %s", l.Name, plaintext, controller)
		}
		if l.ClientAuth && !l.TLS {
			return fmt.Errorf("listener %s: client certificates need TLS", l.Name)
		}
		if l.Advertised != nil && len(l.Advertised) != o.brokers() {
			return fmt.Errorf("listener %s: %d advertised addresses for %d brokers", l.Name, len(l.Advertised), o.brokers())
		}
	}
	return nil
}

func (o Options) brokers() int { return cmp.Or(o.Brokers, 1) }

func (o Options) heapMB() int {
	if o.brokers() > 1 {
		return cmp.Or(o.HeapMB, 512)
	}
	return cmp.Or(o.HeapMB, 768)
}

// features are the levels to format with, as arguments of Kafka's storage tool.
func (o Options) features() []string {
	levels := map[string]int{"share.version": 2, "transaction.version": 2}
	if o.Version == Old {
		levels["share.version"] = 1
	}
	maps.Copy(levels, o.Features)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		args = append(args, "--feature", fmt.Sprintf("%s=%d", name, levels[name]))
	}
	return args
}
