package config

import (
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
)

const nameRule = "A name has 1 to 200 letters, digits, dots, dashes and underscores, and does not begin with a dot."

// connectorName is what every client of Kafka Connect's REST API can put into
// a path without escaping, and what fits into a group id and a file name.
var connectorName = once(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$`)

var pluginName = once(`^[a-z][a-z0-9_-]{0,62}$`)

// topicName is Kafka's rule.
var topicName = once(`^[A-Za-z0-9._-]{1,249}$`)

// once compiles an expression when it is first used.
func once(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

const topicRule = "A topic name has 1 to 249 letters, digits, dots, dashes and underscores."

func validTopic(t string) bool { return topicName().MatchString(t) && t != "." && t != ".." }

func (l *loader) checkWorker(w *Worker) bool {
	at := w.Ranges.At("listen")
	host, port, err := net.SplitHostPort(w.Listen)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || (n == 0 && port != "0") {
		l.report(errorAt(at, "Wrong value", "worker.listen is %q; write host and port, such as \"127.0.0.1:8083\".", w.Listen))
		return false
	}
	if isLoopback(host) || w.InsecureListen {
		return true
	}
	l.report(errorAt(at, "Listener open to other machines",
		"worker.listen = %q can be reached from other machines, and nothing checks who calls. Use a loopback address such as 127.0.0.1, or write insecure_listen = true if the network keeps others out.", w.Listen))
	return false
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// checkKafka reports what is wrong with a connection. clean says that its
// block had no error so far; what is missing is then worth a word.
func (l *loader) checkKafka(k *Kafka, clean bool) bool {
	before := errorCount(l.diags)
	at := k.Ranges.At("bootstrap")
	if k.Ranges.Written("bootstrap") && len(k.Bootstrap) == 0 {
		l.report(errorAt(at, "Wrong value", "bootstrap of kafka %q is empty; name at least one broker, such as [\"127.0.0.1:9092\"].", k.Name))
	}
	for _, b := range k.Bootstrap {
		host, port, err := net.SplitHostPort(b)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
			hint := "write host and port, such as \"" + strings.TrimSuffix(b, ":") + ":9092\""
			if err == nil && host != "" {
				hint = "its port must be a number from 1 to 65535"
			}
			if strings.Contains(b, "://") || strings.Contains(b, ",") {
				hint = "write each broker as \"host:port\", without a scheme, as an element of the list"
			}
			l.report(errorAt(at, "Wrong value", "bootstrap of kafka %q has %q; %s.", k.Name, b, hint))
		}
	}
	if t := k.TLS; t != nil && (t.CertFile == "") != (t.KeyFile == "") {
		l.report(errorAt(k.Ranges.At("tls"), "Missing setting", "cert_file and key_file belong together: write both, or neither."))
	}
	if k.SASL != nil && clean {
		l.checkSASL(k)
	}
	return errorCount(l.diags) == before
}

func (l *loader) checkSASL(k *Kafka) {
	at := k.Ranges.At("sasl")
	need := map[string]Secret{"username": k.SASL.Username, "password": k.SASL.Password}
	useless := map[string]Secret{"token": k.SASL.Token}
	if k.SASL.Mechanism == "OAUTHBEARER" {
		need, useless = useless, need
	}
	for _, name := range []string{"username", "password", "token"} {
		if s, needed := need[name]; needed && s.IsZero() {
			l.report(errorAt(at, "Missing setting", "%s needs sasl.%s, which is not written or empty.", k.SASL.Mechanism, name))
		}
		if s, is := useless[name]; is && !s.IsZero() {
			l.report(errorAt(k.Ranges.At("sasl."+name), "Setting without effect", "sasl.%s has no use with %s. Remove it.", name, k.SASL.Mechanism))
		}
	}
	if k.SASL.Mechanism == "PLAIN" && k.TLS == nil {
		l.report(warnAt(k.Ranges.At("sasl.mechanism"), "Password travels in the clear", "PLAIN without TLS shows the password to the network. Add a block tls { }, or use SCRAM-SHA-512."))
	}
}

func (l *loader) checkPlugin(p *PluginPin) bool {
	before := errorCount(l.diags)
	if !pluginName().MatchString(p.Name) {
		l.report(errorAt(p.Ranges.At(""), "Wrong name", "%q cannot be a plugin's name: it has lower-case letters, digits, dashes and underscores, begins with a letter, and names the plugin without a form.", p.Name))
	}
	if p.Version != "" {
		if _, err := version.NewConstraint(p.Version); err != nil {
			l.report(errorAt(p.Ranges.At("version"), "Wrong value", "version = %q is not a version constraint; write such as \"~> 1.2\", \"1.2.3\" or \">= 1.0, < 2.0\".", p.Version))
		}
	}
	if p.SHA256 != "" && !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(p.SHA256) {
		l.report(errorAt(p.Ranges.At("sha256"), "Wrong value", "sha256 has 64 hexadecimal digits, as `sha256sum FILE` prints them; this has %d characters.", len(p.SHA256)))
	}
	for name := range p.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			l.report(errorAt(p.Ranges.At("env"), "Wrong value", "%q cannot be the name of an environment variable.", name))
		}
	}
	for _, glob := range p.InheritEnv {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			l.report(errorAt(p.Ranges.At("inherit_env"), "Wrong value", "inherit_env has %q, which is not a name with * for any letters.", glob))
		}
	}
	for _, h := range p.Sandbox.AllowHosts {
		if _, port, err := net.SplitHostPort(h); err != nil || port == "" {
			l.report(errorAt(p.Ranges.At("sandbox.allow_hosts"), "Wrong value", "allow_hosts has %q; write host and port, such as \"api.example.com:443\".", h))
		}
	}
	return errorCount(l.diags) == before
}

// checkConnector reports what is wrong with one connector by itself.
func (l *loader) checkConnector(c *Connector, n *node, cfg *Config) {
	if !connectorName().MatchString(c.Name) {
		l.report(errorAt(c.DefRange, "Wrong name", "%q cannot be a connector's name. %s", head(c.Name, 60), nameRule))
	}
	if c.Ranges.Written("sink") && !pluginName().MatchString(c.Sink.Name) {
		l.report(errorAt(c.Ranges.At("sink"), "Wrong value", "sink = %q: write a plugin's name such as \"file\", or a form and a name such as \"process:file\" (forms: %s).", c.Sink.String(), strings.Join(sinkForms(), ", ")))
	}
	l.checkKafkaRef(c, n, cfg)
	l.checkTopics(c, n)
	l.checkGroup(c, n)
	l.checkDeadLetterQueue(c, n)
	l.checkRetryTopic(c)
	l.checkExactlyOnce(c)
	l.checkTimes(c)
}

// checkKafkaRef finds the connector's cluster.
func (l *loader) checkKafkaRef(c *Connector, n *node, cfg *Config) {
	if l.env.Dev {
		// Whatever cluster the definition names stays untouched.
		defer func() { c.Kafka = "" }()
	}
	if c.Kafka != "" {
		if cfg.Kafka[c.Kafka] == nil {
			names := make([]string, 0, len(cfg.Kafka))
			for name := range cfg.Kafka {
				names = append(names, name)
			}
			l.report(errorAt(c.Ranges.At("kafka"), "Unknown name", "There is no block kafka %q.%s", c.Kafka, didYouMean(c.Kafka, names)))
		}
		return
	}
	if slices.Contains(n.failed, "kafka") {
		return // Its value has an error of its own.
	}
	switch {
	case l.broken[c.DefRange.Filename]:
	case len(cfg.Kafka) == 1:
		for name := range cfg.Kafka {
			c.Kafka = name
		}
	case len(cfg.Kafka) == 0 && !l.env.Dev:
		l.report(errorAt(c.DefRange, "No connection", "Connector %q needs a Kafka cluster: add a block kafka \"main\" { bootstrap = [\"HOST:9092\"] }.", c.Name))
	case len(cfg.Kafka) > 1 && !l.env.Dev:
		names := make([]string, 0, len(cfg.Kafka))
		for name := range cfg.Kafka {
			names = append(names, "kafka."+name)
		}
		slices.Sort(names)
		l.report(errorAt(c.DefRange, "No connection", "There are several kafka blocks, so connector %q must name one: kafka = %s.", c.Name, strings.Join(names, " or ")))
	}
}

func (l *loader) checkTopics(c *Connector, n *node) {
	list, pattern := c.Ranges.Written("topics"), c.Ranges.Written("topics_regex")
	switch {
	case l.broken[c.DefRange.Filename] && !list && !pattern: // They may stand where the syntax is wrong.
	case list && pattern:
		l.report(errorAt(c.Ranges.At("topics_regex"), "Written twice", "Connector %q has topics at %s and topics_regex here. Keep one of them.", c.Name, place(c.Ranges.At("topics"))))
	case !list && !pattern && !slices.Contains(n.failed, "topics") && !slices.Contains(n.failed, "topics_regex"):
		l.report(errorAt(c.DefRange, "Missing setting", "Connector %q reads nothing: write topics = [\"…\"] or topics_regex = \"…\".", c.Name))
	case list && len(c.Topics) == 0:
		l.report(errorAt(c.Ranges.At("topics"), "Wrong value", "topics is empty; name at least one topic."))
	}
	seen := map[string]bool{}
	for _, t := range c.Topics {
		switch {
		case !validTopic(t):
			l.report(errorAt(c.Ranges.At("topics"), "Wrong value", "%q cannot be a topic. %s%s", t, topicRule, patternHint(t)))
		case seen[t]:
			l.report(errorAt(c.Ranges.At("topics"), "Wrong value", "topics has %q twice. Remove one.", t))
		}
		seen[t] = true
	}
	if !pattern {
		return
	}
	at := c.Ranges.At("topics_regex")
	if c.TopicsRegex == "" {
		l.report(errorAt(at, "Wrong value", "topics_regex is empty; it would match no topic."))
		return
	}
	re, err := regexp.Compile(c.TopicPattern())
	if err != nil {
		l.report(errorAt(at, "Wrong pattern", "topics_regex = %q: %s.%s", c.TopicsRegex, regexProblem(err), regexHint(c.TopicsRegex)))
		return
	}
	c.topics = re
}

func patternHint(topic string) string {
	if strings.ContainsAny(topic, "*+?[]()|\\^$") {
		return " For a pattern write topics_regex."
	}
	if strings.Contains(topic, ",") {
		return " Write each topic as an element of the list."
	}
	return ""
}

// regexProblem is the compiler's complaint without the anchors we added.
func regexProblem(err error) string {
	text := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	text = strings.ReplaceAll(text, "^(?:", "")
	return strings.ReplaceAll(text, ")$`", "`")
}

// regexHint names what Java's patterns have and RE2 has not.
func regexHint(pattern string) string {
	for _, look := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
		if strings.Contains(pattern, look) {
			return " Patterns are RE2, which has no lookarounds (" + look + "…)): list the topics, or match more and leave topics out by another name."
		}
	}
	if regexp.MustCompile(`\\[1-9]`).MatchString(pattern) {
		return ` Patterns are RE2, which has no backreferences (\1).`
	}
	if regexp.MustCompile(`[*+?}]\+`).MatchString(pattern) {
		return " Patterns are RE2, which has no possessive quantifiers (*+)."
	}
	return " Patterns are RE2, for the whole name of a topic."
}

func (l *loader) checkGroup(c *Connector, n *node) {
	if !c.Ranges.Written("group_id") {
		// It is made of the connector's name, which was checked.
	} else if len(c.GroupID) > 249 || strings.TrimSpace(c.GroupID) != c.GroupID || strings.ContainsAny(c.GroupID, "\n\r\t\x00") {
		l.report(errorAt(c.Ranges.At("group_id"), "Wrong value", "group_id = %q: write at most 249 characters, without blanks at its ends and without control characters.", c.GroupID))
	}
	at := c.Ranges.At("auto_offset_reset")
	switch c.AutoOffsetReset {
	case ResetEarliest, ResetLatest:
	case ResetByDuration:
		if !c.Ranges.Written("auto_offset_reset") || c.AutoOffsetBack <= 0 {
			l.report(errorAt(at, "Wrong value", `auto_offset_reset: write "earliest", "latest", or how far back, such as "24h" or "7d".`))
		} else if c.GroupProtocol == GroupConsumer {
			l.report(errorAt(at, "Not supported by this version", `auto_offset_reset as a duration works in share groups only. Write "earliest" or "latest".`))
		}
	default:
		l.report(errorAt(at, "Wrong value", "auto_offset_reset cannot be %q.%s", c.AutoOffsetReset,
			resetHint(c.AutoOffsetReset)))
	}
	for block, protocol := range map[string]string{"share": GroupShare, "consumer": GroupConsumer} {
		if c.Ranges.Written(block) && c.GroupProtocol != protocol && !slices.Contains(n.failed, "group_protocol") {
			l.report(warnAt(c.Ranges.At(block), "Block without effect", "Connector %q uses the group protocol %q, so its block %s has no effect. Set group_protocol = %q, or remove the block.", c.Name, c.GroupProtocol, block, protocol))
		}
	}
}

func resetHint(given string) string {
	if near := nearest(given, []string{ResetEarliest, ResetLatest}); near != "" {
		return ` Did you mean "` + near + `"?`
	}
	return ` Write "earliest", "latest", or how far back, such as "24h" or "7d".`
}

func (l *loader) checkDeadLetterQueue(c *Connector, n *node) {
	q := c.DeadLetterQueue
	if q == nil {
		if c.GroupProtocol == GroupShare {
			l.report(warnAt(c.DefRange, "No dead letter queue", "Connector %q has no dead_letter_queue. %s The broker drops a record without a word after its last delivery. Add dead_letter_queue { topic = \"dlq.%s\" }.",
				c.Name, withoutQueue(c.Errors.Tolerance), c.Name))
		}
		return
	}
	at := c.Ranges.At("dead_letter_queue.topic")
	switch {
	case !c.Ranges.Written("dead_letter_queue.topic"): // Reported as missing.
	case !validTopic(q.Topic):
		l.report(errorAt(at, "Wrong value", "%q cannot be a topic. %s", q.Topic, topicRule))
	case c.names(q.Topic):
		l.report(errorAt(at, "Dead letters would be read again", "Connector %q reads the topic %q itself (%s), so each dead letter would come back and be dead-lettered again. Choose another topic, or a pattern that leaves it out.", c.Name, q.Topic, place(c.topicsRange())))
	case strings.HasPrefix(q.Topic, "__"):
		l.report(errorAt(at, "Wrong value", "%q begins with two underscores, which Kafka keeps for its own topics. Choose another name.", q.Topic))
	}
	if q.ReplicationFactor == 0 {
		l.report(errorAt(c.Ranges.At("dead_letter_queue.replication_factor"), "Value out of range", "dead_letter_queue.replication_factor is 0; write 1 or more, or -1 for the broker's default."))
	}
	at = c.Ranges.At("dead_letter_queue.broker")
	switch {
	case !q.Broker || slices.Contains(n.failed, "group_protocol"):
	case c.GroupProtocol != GroupShare:
		l.report(errorAt(at, "Values do not fit", "Connector %q uses the group protocol %q, and brokers write dead letters of share groups only. Remove dead_letter_queue.broker: the host writes them itself.", c.Name, c.GroupProtocol))
	case !q.Net:
		l.report(errorAt(at, "Values do not fit", "dead_letter_queue.broker leaves dead letters to the broker, and dead_letter_queue.net = false at %s takes the topic away from it. Remove one of the two.", place(c.Ranges.At("dead_letter_queue.net"))))
	}
}

func (l *loader) checkRetryTopic(c *Connector) {
	topic, after := c.Ranges.Written("retry.topic"), c.Ranges.Written("retry.park_after")
	at := c.Ranges.At("retry.topic")
	switch {
	case !topic && !after:
	case !topic:
		l.report(errorAt(c.Ranges.At("retry.park_after"), "Missing setting", "retry.park_after needs retry.topic, such as topic = \"retry.%s\": the topic in which records wait.", c.Name))
	case !after:
		l.report(errorAt(at, "Missing setting", "retry.topic needs retry.park_after, such as park_after = \"10s\": how long a record waits in its place before it goes there."))
	case c.GroupProtocol != GroupShare:
		l.report(errorAt(at, "Values do not fit", "Connector %q uses the group protocol %q, which keeps the order of its partitions: a record cannot be parked there. Set group_protocol = %q, or remove retry.topic and retry.park_after.", c.Name, c.GroupProtocol, GroupShare))
	case !validTopic(c.Retry.Topic):
		l.report(errorAt(at, "Wrong value", "%q cannot be a topic. %s", c.Retry.Topic, topicRule))
	case c.names(c.Retry.Topic):
		l.report(errorAt(at, "Parked records would be read at once", "Connector %q reads the topic %q itself (%s). Choose another topic, or a pattern that leaves it out.", c.Name, c.Retry.Topic, place(c.topicsRange())))
	case c.DeadLetterQueue != nil && c.DeadLetterQueue.Topic == c.Retry.Topic:
		l.report(errorAt(at, "Values do not fit", "%q is the dead letter topic too, whose records would be put again. Choose another topic.", c.Retry.Topic))
	case strings.HasPrefix(c.Retry.Topic, "__"):
		l.report(errorAt(at, "Wrong value", "%q begins with two underscores, which Kafka keeps for its own topics. Choose another name.", c.Retry.Topic))
	}
}

// checkExactlyOnce reports what the promise of exactly-once does not go with.
func (l *loader) checkExactlyOnce(c *Connector) {
	if c.DeliverySemantics != ExactlyOnce {
		return
	}
	at := c.Ranges.At("delivery_semantics")
	if c.Ranges.Written("isolation_level") && c.IsolationLevel != readCommitted {
		l.report(errorAt(c.Ranges.At("isolation_level"), "Values do not fit", "isolation_level = %q reads records of transactions that may be aborted, and delivery_semantics at %s promises that each record is written exactly once. Remove isolation_level: it is read_committed then.", c.IsolationLevel, place(at)))
	}
	c.IsolationLevel = readCommitted
	if q := c.DeadLetterQueue; q != nil && q.Broker {
		l.report(errorAt(c.Ranges.At("dead_letter_queue.broker"), "Values do not fit", "dead_letter_queue.broker leaves dead letters to the broker, which writes them without a transaction, and delivery_semantics at %s promises that each is written exactly once. Remove dead_letter_queue.broker.", place(at)))
	}
	switch ledger := c.LedgerTopic(); {
	case !validTopic(ledger):
		l.report(errorAt(at, "Values do not fit", "Exactly-once keeps a ledger in the topic GROUP_ID.ledger, and %q cannot be a topic. %s Choose another group_id.", ledger, topicRule))
	case slices.Contains(c.Topics, ledger):
		l.report(errorAt(c.topicsRange(), "Values do not fit", "Connector %q reads the topic %q, which is the ledger of its own group. Leave it out.", c.Name, ledger))
	}
}

func withoutQueue(tolerance string) string {
	if tolerance == "all" {
		return "With errors.tolerance = \"all\" a record that cannot be written is logged and gone."
	}
	return "The first record that cannot be written stops its task."
}

// topicsRange is where the topics stand.
func (c *Connector) topicsRange() hcl.Range {
	if c.Ranges.Written("topics") {
		return c.Ranges.At("topics")
	}
	return c.Ranges.At("topics_regex")
}

func (l *loader) checkTimes(c *Connector) {
	if c.Retry.Max < c.Retry.Initial {
		l.report(errorAt(c.Ranges.At("retry"), "Values do not fit", "retry.initial is %s and retry.max is %s; the first wait cannot be longer than the longest.", durationText(c.Retry.Initial), durationText(c.Retry.Max)))
	}
	if lock := c.Share.AcquisitionLockTimeout; c.GroupProtocol == GroupShare && (lock < 15*time.Second || lock > time.Minute) {
		l.report(warnAt(c.Ranges.At("share.acquisition_lock_timeout"), "Brokers may refuse this lock", "share.acquisition_lock_timeout is %s; brokers take 15s to 60s unless group.share.min.record.lock.duration.ms and group.share.max.record.lock.duration.ms say otherwise.", durationText(lock)))
	}
	if c.GroupProtocol == GroupShare && c.Share.MaxRecordLocks > 4000 {
		l.report(warnAt(c.Ranges.At("share.max_record_locks"), "Brokers may refuse this limit", "share.max_record_locks is %d; brokers take at most 4000 unless they are told otherwise.", c.Share.MaxRecordLocks))
	}
	if c.GroupProtocol == GroupConsumer && c.Consumer.RebalanceTimeout < c.PutTimeout {
		l.report(warnAt(c.Ranges.At("consumer.rebalance_timeout"), "Rebalance may cut puts short", "consumer.rebalance_timeout is %s and put_timeout %s: a put that takes longer than the rebalance is cancelled and written again elsewhere.", durationText(c.Consumer.RebalanceTimeout), durationText(c.PutTimeout)))
	}
}
