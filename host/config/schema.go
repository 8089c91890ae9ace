package config

import "time"

// What a diagnostic says of a setting whose feature is not there yet.
const notYet = "This version of Sluice does not have it yet."

// rootSpec describes a whole file. It is the one place that knows every
// setting of the host: the decoder, the defaults, the Kafka Connect names and
// docs/config.md all come from it.
func rootSpec() *blockSpec {
	return &blockSpec{
		blocks: []blockSpec{
			workerSpec(), kafkaSpec(), pluginSpec(),
			{name: "locals", many: true, open: true, help: "Names for values, used elsewhere as `local.NAME`."},
			connectorSpec(),
			{
				name: "store", label: "kind", many: true, open: true, refuse: notYet + " Definitions come from files; remove the block.",
				help: "Keeps definitions in Kafka.",
			},
			{
				name: "auth", many: true, open: true, refuse: notYet + " Keep listen on a loopback address; remove the block.",
				help: "Controls access to the REST API.",
			},
		},
	}
}

func workerSpec() blockSpec {
	return blockSpec{
		name: "worker", help: "The process. At most one in all files together.",
		settings: []setting{
			{name: "id", kind: kindString, defText: "the host's name", help: "Names the worker in status, logs and metrics."},
			{name: "group_protocol", kind: kindString, def: GroupConsumer, allowed: []string{GroupConsumer, GroupShare}, help: "For connectors that do not say: a classic consumer group, or a share group."},
			{name: "plugin_path", kind: kindStrings, path: true, help: "Directories to find plugins in."},
			{name: "listen", kind: kindString, def: "127.0.0.1:8083", help: "Address of the REST API and metrics, host and port."},
			{name: "insecure_listen", kind: kindBool, def: false, help: "Lets `listen` name an address other machines can reach, though nothing checks who calls."},
			{name: "state_dir", kind: kindString, path: true, def: "state", help: "Directory for compiled modules, the member ids of share groups and what the REST API makes. The default is taken from where the worker was started."},
			{name: "memory", kind: kindSize, min: limit(16 << 20), defText: "half of GOMEMLIMIT, else \"1GiB\"", help: "Bound on all records in flight."},
			{name: "stop_timeout", kind: kindDuration, def: 25 * time.Second, min: limitDuration(time.Second), max: limitDuration(time.Hour), help: "Bound on an ordered stop. Puts in flight are cancelled 5s before its end."},
		},
		blocks: converterSpecs("For connectors that do not say"),
	}
}

func kafkaSpec() blockSpec {
	return blockSpec{
		name: "kafka", label: "name", many: true, help: "A connection to a Kafka cluster.",
		settings: []setting{
			{name: "bootstrap", kind: kindStrings, required: true, help: "Addresses to begin with, `host:port` each.", properties: nil},
			{name: "client_id", kind: kindString, def: "sluice", help: "Names the worker in the brokers' logs and quotas."},
			{name: "dial_timeout", kind: kindDuration, def: 10 * time.Second, min: limitDuration(100 * time.Millisecond), max: limitDuration(10 * time.Minute), help: "Bound on making a connection, TLS and login included."},
			{name: "request_timeout", kind: kindDuration, def: 90 * time.Second, min: limitDuration(time.Second), max: limitDuration(10 * time.Minute), help: "Bound on a request beyond what it asks the broker to wait. Long, because an acknowledgement waits while the share coordinator fails over."},
		},
		blocks: []blockSpec{
			{name: "tls", help: "Encrypts the connection; an empty block checks the brokers against the system's roots.", settings: []setting{
				{name: "ca_file", kind: kindString, path: true, help: "PEM file of the authorities to check the brokers against.", defText: "the system's roots"},
				{name: "cert_file", kind: kindString, path: true, help: "PEM file of our certificate, for mutual TLS. Needs `key_file`."},
				{name: "key_file", kind: kindString, path: true, help: "PEM file of its key."},
				{name: "server_name", kind: kindString, defText: "the broker's host", help: "Name to expect in the brokers' certificates."},
			}},
			{name: "sasl", help: "Logs in.", settings: []setting{
				{name: "mechanism", kind: kindString, required: true, allowed: []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}, help: "The SASL mechanism.", refuseValue: map[string]string{
					"GSSAPI": "Sluice does not do Kerberos. Use SCRAM-SHA-512, PLAIN, OAUTHBEARER, or mutual TLS.",
				}},
				{name: "username", kind: kindSecret, help: "The user, for PLAIN and SCRAM."},
				{name: "password", kind: kindSecret, help: "The password, for PLAIN and SCRAM."},
				{name: "token", kind: kindSecret, help: "The token, for OAUTHBEARER."},
			}},
		},
	}
}

func pluginSpec() blockSpec {
	return blockSpec{
		name: "plugin", label: "name", many: true, help: "Pins, configures and sandboxes a plugin. Not needed to use one.",
		settings: []setting{
			{name: "version", kind: kindString, help: "Versions to choose from, such as `\"~> 1.2\"` or `\">= 1.0, < 2.0\"`.", defText: "the highest"},
			{name: "sha256", kind: kindString, help: "Checksum of the file, verified before a byte of it runs."},
			{name: "env", kind: kindStringMap, help: "Variables for a plugin process, besides PATH, HOME, TMPDIR, LANG and TZ."},
			{name: "inherit_env", kind: kindStrings, help: "Names of the worker's own variables to hand on; `*` stands for any letters."},
			{name: "processes", kind: kindInt, def: int64(1), min: limit(1), max: limit(64), help: "Processes a connector's instances are spread over, in each worker."},
		},
		blocks: []blockSpec{
			{name: "sandbox", help: "Limits a WASM plugin.", settings: []setting{
				{name: "memory", kind: kindSize, def: int64(64 << 20), min: limit(1 << 20), max: limit(4 << 30), help: "Memory of one instance."},
				{name: "allow_hosts", kind: kindStrings, help: "Where it may send HTTP requests, `host:port` each. Private and loopback addresses too must be listed."},
			}},
		},
	}
}

func converterSpecs(whose string) []blockSpec {
	spec := func(name, what string, props ...property) blockSpec {
		return blockSpec{
			name: name, open: true, help: whose + ": how " + what + " become data. Options of the converter stand beside its name.",
			settings: []setting{{name: "converter", kind: kindString, required: true, def: "bytes", help: "The converter: `bytes`, `string` or `json`.", properties: props}},
		}
	}
	if whose == "For connectors that do not say" {
		return []blockSpec{spec("key", "keys"), spec("value", "values"), spec("header", "header values")}
	}
	return []blockSpec{
		spec("key", "keys", property{name: "key.converter", convert: fromConverterClass}),
		spec("value", "values", property{name: "value.converter", convert: fromConverterClass}),
		spec("header", "header values", property{name: "header.converter", convert: fromConverterClass}),
	}
}

func connectorSpec() blockSpec {
	return blockSpec{
		name: "connector", label: "name", many: true, help: "Takes records from topics and writes them by a sink. Its name has letters, digits, dots, dashes and underscores, at most 200.",
		settings: []setting{
			{name: "sink", kind: kindString, required: true, help: "The plugin, builtin or found in `plugin_path`. `process:x`, `wasm:x` and `builtin:x` force a form."},
			{name: "kafka", kind: kindKafka, help: "The cluster. May be left out when there is one.", defText: "the only kafka block"},
			{name: "topics", kind: kindStrings, help: "Topics to read. Either this or `topics_regex`.", properties: []property{{name: "topics", convert: fromList}}},
			{name: "topics_regex", kind: kindString, help: "RE2 pattern for whole topic names: no lookarounds, no backreferences.", properties: []property{{name: "topics.regex"}}},
			{name: "tasks", kind: kindInt, def: int64(1), min: limit(1), max: limit(200), help: "Tasks in this worker. In a consumer group each is a member; in a share group they are sets of writers of one member.", properties: []property{{name: "tasks.max", convert: fromTasksMax}}},
			{name: "parallelism", kind: kindInt, def: int64(1), min: limit(1), max: limit(256), help: "Sink instances per task."},
			{name: "put_timeout", kind: kindDuration, def: 60 * time.Second, defText: `"60s"; without lock renewal: the lock minus 5s`, min: limitDuration(100 * time.Millisecond), max: limitDuration(24 * time.Hour), help: "Bound on one put. Locks are renewed meanwhile."},
			{name: "group_protocol", kind: kindString, allowed: []string{GroupConsumer, GroupShare}, defText: "the worker's", help: "A share group, or a classic consumer group.", properties: []property{
				{name: "consumer.group.protocol", convert: fromGroupProtocol}, {name: "consumer.override.group.protocol", convert: fromGroupProtocol},
			}},
			{name: "group_id", kind: kindString, defText: `"connect-NAME"`, help: "The group.", properties: []property{{name: "share.group.id"}, {name: "consumer.override.group.id"}}},
			{name: "auto_offset_reset", kind: kindString, def: ResetEarliest, help: "Where a new group begins: `earliest`, `latest`, or, in a share group, a duration back such as `\"24h\"`.", properties: []property{{name: "consumer.override.auto.offset.reset", convert: fromOffsetReset}}},
			{name: "isolation_level", kind: kindString, def: "read_uncommitted", allowed: []string{"read_uncommitted", "read_committed"}, help: "Whether records of open and aborted transactions are read.", properties: []property{{name: "consumer.override.isolation.level"}}},
			{name: "delivery_semantics", kind: kindString, def: AtLeastOnce, allowed: []string{AtLeastOnce, ExactlyOnce}, help: "What is promised. `exactly-once` is for sinks that emit records, such as `kafka`, and makes a topic `GROUP_ID.ledger`; its isolation level is `read_committed`.", properties: []property{{name: "share.delivery.semantics"}}},
			{name: "properties", kind: kindProps, help: "Settings by their Kafka Connect names, instead of ours."},
			{name: "for_each", kind: kindForEach, help: "Makes one connector, named NAME-KEY, for each text of a list or key of a map. `each.key` and `each.value` stand for it."},
		},
		blocks: append([]blockSpec{
			shareSpec(), consumerSpec(), batchSpec(), retrySpec(),
			breakerSpec(),
			isolateSpec(),
			deadLetterQueueSpec(),
			{name: "errors", help: "What happens to a record that cannot be written.", settings: []setting{
				{name: "tolerance", kind: kindString, allowed: []string{"all", "none"}, defText: `"all" with a dead letter queue, else "none"`, help: "`all` goes on after such a record, `none` fails the task.", properties: []property{{name: "errors.tolerance"}}},
				{name: "log", kind: kindBool, def: true, help: "Log each such record's coordinates and cause.", properties: []property{{name: "errors.log.enable"}}},
			}},
			{name: "transform", label: "name", many: true, open: true, help: "Changes each record.", refuse: notYet + " Remove the block, or transform the records before they reach the topic."},
			{name: "config", open: true, help: "The plugin's own settings: `sluice plugin describe NAME` shows them."},
		}, converterSpecs("")...),
	}
}

func shareSpec() blockSpec {
	return blockSpec{name: "share", help: "Used when the group protocol is `share`.", settings: []setting{
		{name: "acknowledgement_mode", kind: kindString, def: AcknowledgeExplicit, allowed: []string{AcknowledgeExplicit, AcknowledgeImplicit}, help: "When accepts are sent: `explicit`, at once, or a tenth of a second later where the rest of what was delivered together may be decided by then; `implicit`, those of what was delivered together with the next fetch after all of it is decided. After a crash of the worker `implicit` writes more a second time.", properties: []property{{name: "share.acknowledgement.mode"}}},
		{name: "acquisition_lock_timeout", kind: kindDuration, def: 30 * time.Second, min: limitDuration(time.Second), max: limitDuration(time.Hour), help: "How long the broker locks a record for us; renewed while we hold it. Brokers take 15s to 60s unless told otherwise.", properties: []property{{name: "share.acquisition.lock.timeout.ms", convert: fromMillis}}},
		{name: "max_delivery_count", kind: kindInt, def: int64(5), min: limit(1), max: limit(8), help: "Deliveries after which a record goes to the dead letter queue. The broker's own limit, 10 by default, leaves a margin of two for crashes.", properties: []property{{name: "share.max.delivery.count"}}},
		{name: "max_record_locks", kind: kindInt, def: int64(2000), min: limit(100), max: limit(10000), help: "Records of a partition that may be open at once, for the whole group. Brokers take at most 4000 unless told otherwise."},
		{name: "hold_timeout", kind: kindDuration, def: 2 * time.Minute, min: limitDuration(time.Second), max: limitDuration(24 * time.Hour), help: "In an outage of the target: how long records on their first delivery are held before they are given back, once, for other workers to try."},
	}}
}

func consumerSpec() blockSpec {
	return blockSpec{name: "consumer", help: "Used when the group protocol is `consumer`.", settings: []setting{
		{name: "session_timeout", kind: kindDuration, def: 45 * time.Second, min: limitDuration(time.Second), max: limitDuration(30 * time.Minute), help: "Silence after which the group takes a member for dead.", properties: []property{{name: "consumer.override.session.timeout.ms", convert: fromMillis}}},
		{name: "rebalance_timeout", kind: kindDuration, defText: "`put_timeout` + 30s", min: limitDuration(time.Second), max: limitDuration(24 * time.Hour), help: "How long a rebalance waits for a member.", properties: []property{{name: "consumer.override.max.poll.interval.ms", convert: fromMillis}}},
		{name: "commit_interval", kind: kindDuration, def: time.Second, min: limitDuration(10 * time.Millisecond), max: limitDuration(time.Hour), help: "Between commits of offsets.", properties: []property{{name: "offset.flush.interval.ms", convert: fromMillis}}},
	}}
}

func batchSpec() blockSpec {
	return blockSpec{name: "batch", help: "Bounds what the sink gets at once.", settings: []setting{
		{name: "max_records", kind: kindInt, def: int64(500), min: limit(1), max: limit(1_000_000), help: "Records.", properties: []property{{name: "consumer.override.max.poll.records"}}},
		{name: "max_bytes", kind: kindSize, def: int64(8 << 20), min: limit(1), max: limit(1 << 30), help: "Bytes of keys, values and headers; a larger record goes alone."},
		{name: "max_wait", kind: kindDuration, def: 50 * time.Millisecond, max: limitDuration(time.Hour), help: "Wait for a full batch, from its first record."},
	}}
}

func retrySpec() blockSpec {
	return blockSpec{name: "retry", help: "How a record the target did not take now is tried again: in place, or from a topic.", settings: []setting{
		{name: "initial", kind: kindDuration, def: 300 * time.Millisecond, min: limitDuration(time.Millisecond), max: limitDuration(time.Hour), help: "First wait; it doubles from there, with jitter."},
		{name: "max", kind: kindDuration, def: 60 * time.Second, min: limitDuration(time.Millisecond), max: limitDuration(24 * time.Hour), help: "Longest wait.", properties: []property{{name: "errors.retry.delay.max.ms", convert: fromMillis}}},
		{name: "max_elapsed", kind: kindDuration, def: 5 * time.Minute, min: limitDuration(time.Millisecond), max: limitDuration(30 * 24 * time.Hour), help: "After that long a record is given up while its neighbours succeed. Outages do not count.", properties: []property{{name: "errors.retry.timeout", convert: fromRetryTimeout}}},
		{name: "park_after", kind: kindDuration, defText: "off", min: limitDuration(time.Millisecond), max: limitDuration(24 * time.Hour), help: "A record that waits for longer than that, or would, while its neighbours succeed, waits in the retry topic, so that it does not hold its partition's `max_record_locks`. Share groups only."},
		{name: "topic", kind: kindString, help: "The retry topic, of this connector alone. Made if it is missing."},
	}}
}

func breakerSpec() blockSpec {
	return blockSpec{name: "breaker", help: "When an outage of the target is assumed: nothing is acquired then but a probe.", settings: []setting{
		{name: "failures", kind: kindInt, def: int64(3), min: limit(1), max: limit(1000), help: "Whole batches that fail in a row before it opens."},
		{name: "max", kind: kindDuration, def: 60 * time.Second, min: limitDuration(100 * time.Millisecond), max: limitDuration(24 * time.Hour), help: "Longest wait between probes."},
	}}
}

func isolateSpec() blockSpec {
	return blockSpec{name: "isolate", help: "How a record that kills or hangs its sink is found: what was in the put is put again by a sink in a process of its own, and split.", settings: []setting{
		{name: "attempts", kind: kindInt, def: int64(3), min: limit(1), max: limit(100), help: "Times a single record must kill its sink, alone in it, before it is given up on."},
	}}
}

func deadLetterQueueSpec() blockSpec {
	return blockSpec{name: "dead_letter_queue", help: "A topic for records that were given up on. Without it they fail the task, or with `errors.tolerance = \"all\"` are logged and gone.", settings: []setting{
		{name: "topic", kind: kindString, required: true, help: "The topic; made if missing.", properties: []property{{name: "errors.deadletterqueue.topic.name"}}},
		{name: "partitions", kind: kindInt, min: limit(1), max: limit(100_000), defText: "as the source topic", help: "Partitions of a topic that is made."},
		{name: "replication_factor", kind: kindInt, def: int64(-1), min: limit(-1), max: limit(32767), help: "Replicas of a topic that is made; -1 is the broker's default.", properties: []property{{name: "errors.deadletterqueue.topic.replication.factor"}}},
		{name: "max_ratio", kind: kindRatio, def: 0.5, help: "Share of 1,000 records given up on above which the connector fails instead of emptying its topic into the queue; 0 is off."},
		{name: "net", kind: kindBool, def: true, help: "In a share group: sets the topic as the group's own too (KIP-1191), for records the broker itself gives up on."},
		{name: "broker", kind: kindBool, def: false, help: "In a share group: leaves dead letters to the broker alone (KIP-1191), which keeps neither headers, timestamp nor cause of a record, and loses it if it cannot write it. Needs `net`."},
	}}
}
