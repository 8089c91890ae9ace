package kafkatest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Names of the listeners every broker has.
const (
	plaintext  = "PLAINTEXT"
	controller = "CONTROLLER"
)

// properties is the server.properties of broker i as a map. ports are those of all brokers, certs may be nil if no listener has
// TLS.
func properties(o Options, i int, ports []map[string]int, dataDir string, certs *Certificates) map[string]string {
	replicas, isr := 1, 1
	if o.brokers() >= 3 {
		replicas, isr = 3, 2
	}
	p := map[string]string{
		"process.roles":                                    "broker,controller",
		"node.id":                                          strconv.Itoa(i + 1),
		"log.dirs":                                         dataDir,
		"controller.listener.names":                        controller,
		"inter.broker.listener.name":                       plaintext,
		"auto.create.topics.enable":                        "false",
		"group.initial.rebalance.delay.ms":                 "0",
		"min.insync.replicas":                              strconv.Itoa(isr),
		"default.replication.factor":                       strconv.Itoa(replicas),
		"offsets.topic.num.partitions":                     "3",
		"offsets.topic.replication.factor":                 strconv.Itoa(replicas),
		"transaction.state.log.num.partitions":             "3",
		"transaction.state.log.replication.factor":         strconv.Itoa(replicas),
		"transaction.state.log.min.isr":                    strconv.Itoa(isr),
		"share.coordinator.state.topic.num.partitions":     "3",
		"share.coordinator.state.topic.replication.factor": strconv.Itoa(replicas),
		"share.coordinator.state.topic.min.isr":            strconv.Itoa(isr),
		// A dead broker is noticed after 6 s, not 9; less would fence living ones on a busy machine.
		"broker.session.timeout.ms":    "6000",
		"broker.heartbeat.interval.ms": "1000",
		// Each JVM of a test machine with few cores: fewer threads than a server would have.
		"num.network.threads":               "2",
		"num.io.threads":                    "4",
		"num.replica.fetchers":              "1",
		"log.cleaner.dedupe.buffer.size":    "4194304",
		"num.recovery.threads.per.data.dir": "1",
	}
	var voters []string
	for node, of := range ports {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", node+1, of[controller]))
	}
	p["controller.quorum.voters"] = strings.Join(voters, ",")

	listeners := []string{address(plaintext, ports[i])}
	advertised := []string{address(plaintext, ports[i])}
	protocols := []string{plaintext + ":PLAINTEXT", controller + ":PLAINTEXT"}
	for _, l := range o.Listeners {
		listeners = append(listeners, address(l.Name, ports[i]))
		if l.Advertised != nil {
			advertised = append(advertised, l.Name+"://"+l.Advertised[i])
		} else {
			advertised = append(advertised, address(l.Name, ports[i]))
		}
		protocols = append(protocols, l.Name+":"+l.protocol())
		maps.Copy(p, l.properties(o.Users, certs))
	}
	p["advertised.listeners"] = strings.Join(advertised, ",")
	p["listeners"] = strings.Join(append(listeners, address(controller, ports[i])), ",")
	p["listener.security.protocol.map"] = strings.Join(protocols, ",")
	maps.Copy(p, o.Properties)
	return p
}

func address(listener string, ports map[string]int) string {
	return fmt.Sprintf("%s://127.0.0.1:%d", listener, ports[listener])
}

// properties are the listener's own lines of server.properties.
func (l Listener) properties(users map[string]string, certs *Certificates) map[string]string {
	p := map[string]string{}
	prefix := "listener.name." + strings.ToLower(l.Name) + "."
	if l.TLS {
		p[prefix+"ssl.keystore.type"] = "PEM"
		p[prefix+"ssl.keystore.location"] = certs.serverStore
		p[prefix+"ssl.truststore.type"] = "PEM"
		p[prefix+"ssl.truststore.location"] = certs.CAFile
		p[prefix+"ssl.client.auth"] = "none"
		if l.ClientAuth {
			p[prefix+"ssl.client.auth"] = "required"
		}
	}
	if len(l.Mechanisms) == 0 {
		return p
	}
	p[prefix+"sasl.enabled.mechanisms"] = strings.Join(l.Mechanisms, ",")
	for _, m := range l.Mechanisms {
		p[prefix+strings.ToLower(m)+".sasl.jaas.config"] = jaas(m, users)
	}
	return p
}

// jaas is the server's login module of a SASL mechanism. SCRAM users are not in it: they are formatted into the storage.
func jaas(mechanism string, users map[string]string) string {
	switch mechanism {
	case "PLAIN":
		var b strings.Builder
		b.WriteString("org.apache.kafka.common.security.plain.PlainLoginModule required")
		for _, name := range slices.Sorted(maps.Keys(users)) {
			fmt.Fprintf(&b, " user_%s=%q", name, users[name])
		}
		return b.String() + ";"
	case "OAUTHBEARER":
		return `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`
	default:
		return "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	}
}

// scramUsers are the arguments that make Kafka's storage tool write the users' SCRAM credentials.
func (o Options) scramUsers() []string {
	var args []string
	for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		offered := slices.ContainsFunc(o.Listeners, func(l Listener) bool { return slices.Contains(l.Mechanisms, m) })
		if !offered {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(o.Users)) {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", m, name, o.Users[name]))
		}
	}
	return args
}

// encode writes the properties in the syntax of Java's property files, sorted.
func encode(p map[string]string) []byte {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", name, escape.Replace(p[name]))
	}
	return []byte(b.String())
}

// classPath lists the jars of the folder in a fixed order; the JVM's class archive is only used for the very class path it was
// made with.
func classPath(libs string) (string, error) {
	jars, err := filepath.Glob(filepath.Join(libs, "*.jar"))
	if err != nil {
		return "", fmt.Errorf("list jars of %s: %w", libs, err)
	}
	return strings.Join(jars, string(filepath.ListSeparator)), nil
}
