package config

import (
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// get returns a setting's value: what was written, its default, or the zero
// value. It is the one place where defaults are filled in.
func get[T any](n *node, block, name string) T {
	var zero T
	spec := n.spec
	if block != "" {
		spec = n.spec.block(block)
		n = n.blocks[block]
	}
	if n != nil {
		if w, ok := n.values[name]; ok {
			v, _ := w.v.(T)
			return v
		}
	}
	if set := spec.setting(name); set != nil && set.def != nil {
		v, _ := set.def.(T)
		return v
	}
	return zero
}

// ranges gathers where the node's settings stand.
func (n *node) ranges() Ranges {
	out := Ranges{"": n.def}
	n.gather(out, "")
	return out
}

func (n *node) gather(out Ranges, path string) {
	for name, v := range n.values {
		out[join(path, name)] = v.at
	}
	for name, b := range n.blocks {
		out[join(path, name)] = b.def
		b.gather(out, join(path, name))
	}
}

// requireAll reports required settings that were not written, in n and in the
// blocks in it.
func (l *loader) requireAll(n *node, path string) {
	if l.broken[n.def.Filename] {
		return // They may stand where the syntax is wrong.
	}
	for i := range n.spec.settings {
		set := &n.spec.settings[i]
		if _, ok := n.values[set.name]; !set.required || ok || slices.Contains(n.failed, set.name) {
			continue
		}
		l.report(errorAt(n.def, "Missing setting", "%s is needed here: write %s = … with %s.", join(path, set.name), set.name, set.kind.describe()))
	}
	for name, b := range n.blocks {
		l.requireAll(b, join(path, name))
	}
}

// finish checks a decoded block for what is missing and says whether it is
// without error, and its file too.
func (l *loader) finish(n *node, before int) bool {
	l.requireAll(n, "")
	return !n.bad && errorCount(l.diags) == before && !l.broken[n.def.Filename]
}

func (l *loader) worker(written []*rawBlock, spec *blockSpec) Worker {
	before := errorCount(l.diags)
	n := newNode(spec, hcl.Range{})
	usable := true
	for i, b := range written {
		if i > 0 {
			l.report(errorAt(b.def, "Written twice", "The worker block already stands at %s. There is one for all files.", place(written[0].def)))
			usable = false
			continue
		}
		n = l.decode(b, spec, l.fullScope(b.def.Filename), "worker")
	}
	w := Worker{
		ID:             get[string](n, "", "id"),
		GroupProtocol:  get[string](n, "", "group_protocol"),
		PluginPath:     get[[]string](n, "", "plugin_path"),
		Listen:         get[string](n, "", "listen"),
		InsecureListen: get[bool](n, "", "insecure_listen"),
		StateDir:       get[string](n, "", "state_dir"),
		MemoryBytes:    get[int64](n, "", "memory"),
		StopTimeout:    get[time.Duration](n, "", "stop_timeout"),
		Key:            l.converter(n, "key", Converter{Name: "bytes"}),
		Value:          l.converter(n, "value", Converter{Name: "bytes"}),
		Header:         l.converter(n, "header", Converter{Name: "bytes"}),
		Ranges:         n.ranges(),
	}
	if w.ID == "" {
		w.ID = "sluice"
		if name, err := l.env.Hostname(); err == nil && name != "" {
			w.ID = name
		}
	}
	if w.MemoryBytes == 0 {
		w.MemoryBytes = 1 << 30
		if set := debug.SetMemoryLimit(-1); set != math.MaxInt64 {
			w.MemoryBytes = set / 2
		}
	}
	clean := l.finish(n, before)
	w.Usable = l.checkWorker(&w) && clean && usable
	return w
}

// converter reads the block of a converter, or takes what is used otherwise.
func (l *loader) converter(n *node, role string, otherwise Converter) Converter {
	b := n.blocks[role]
	if b == nil {
		otherwise.sources = l.sources
		return otherwise
	}
	return Converter{Name: get[string](n, role, "converter"), Options: b.tree, sources: l.sources}
}

func (l *loader) kafka(b *rawBlock, spec *blockSpec) *Kafka {
	before := errorCount(l.diags)
	n := l.decode(b, spec, l.fullScope(b.def.Filename), "")
	k := &Kafka{
		Name:           b.labels[0],
		Bootstrap:      get[[]string](n, "", "bootstrap"),
		ClientID:       get[string](n, "", "client_id"),
		DialTimeout:    get[time.Duration](n, "", "dial_timeout"),
		RequestTimeout: get[time.Duration](n, "", "request_timeout"),
		Ranges:         n.ranges(),
	}
	if n.blocks["tls"] != nil {
		k.TLS = &TLS{
			CAFile:     get[string](n, "tls", "ca_file"),
			CertFile:   get[string](n, "tls", "cert_file"),
			KeyFile:    get[string](n, "tls", "key_file"),
			ServerName: get[string](n, "tls", "server_name"),
		}
	}
	if n.blocks["sasl"] != nil {
		k.SASL = &SASL{
			Mechanism: get[string](n, "sasl", "mechanism"),
			Username:  get[Secret](n, "sasl", "username"),
			Password:  get[Secret](n, "sasl", "password"),
			Token:     get[Secret](n, "sasl", "token"),
		}
	}
	clean := l.finish(n, before)
	k.Usable = l.checkKafka(k, !n.bad) && clean
	return k
}

func (l *loader) pluginPin(b *rawBlock, spec *blockSpec) *PluginPin {
	before := errorCount(l.diags)
	n := l.decode(b, spec, l.fullScope(b.def.Filename), "")
	p := &PluginPin{
		Name:       b.labels[0],
		Version:    get[string](n, "", "version"),
		SHA256:     strings.ToLower(get[string](n, "", "sha256")),
		Env:        get[map[string]Secret](n, "", "env"),
		InheritEnv: get[[]string](n, "", "inherit_env"),
		Processes:  int(get[int64](n, "", "processes")),
		Sandbox: Sandbox{
			MemoryBytes: get[int64](n, "sandbox", "memory"),
			AllowHosts:  get[[]string](n, "sandbox", "allow_hosts"),
		},
		Ranges: n.ranges(),
	}
	clean := l.finish(n, before)
	p.Usable = l.checkPlugin(p) && clean
	return p
}

func (l *loader) connector(b *rawBlock, name string, spec *blockSpec, s *scope, cfg *Config) *Connector {
	before := errorCount(l.diags)
	n := l.decode(b, spec, s, "")
	l.applyProperties(n, s.dir)
	c := &Connector{
		Name:              name,
		Sink:              sinkRef(get[string](n, "", "sink")),
		Kafka:             strings.TrimPrefix(get[string](n, "", "kafka"), "kafka."),
		Topics:            get[[]string](n, "", "topics"),
		TopicsRegex:       get[string](n, "", "topics_regex"),
		Tasks:             int(get[int64](n, "", "tasks")),
		Parallelism:       int(get[int64](n, "", "parallelism")),
		PutTimeout:        get[time.Duration](n, "", "put_timeout"),
		GroupProtocol:     get[string](n, "", "group_protocol"),
		GroupID:           get[string](n, "", "group_id"),
		AutoOffsetReset:   get[string](n, "", "auto_offset_reset"),
		IsolationLevel:    get[string](n, "", "isolation_level"),
		DeliverySemantics: get[string](n, "", "delivery_semantics"),
		Share: Share{
			AcknowledgementMode:    get[string](n, "share", "acknowledgement_mode"),
			AcquisitionLockTimeout: get[time.Duration](n, "share", "acquisition_lock_timeout"),
			MaxDeliveryCount:       int(get[int64](n, "share", "max_delivery_count")),
			MaxRecordLocks:         int(get[int64](n, "share", "max_record_locks")),
			HoldTimeout:            get[time.Duration](n, "share", "hold_timeout"),
		},
		Consumer: Consumer{
			SessionTimeout:   get[time.Duration](n, "consumer", "session_timeout"),
			RebalanceTimeout: get[time.Duration](n, "consumer", "rebalance_timeout"),
			CommitInterval:   get[time.Duration](n, "consumer", "commit_interval"),
		},
		Batch: Batch{
			MaxRecords: int(get[int64](n, "batch", "max_records")),
			MaxBytes:   get[int64](n, "batch", "max_bytes"),
			MaxWait:    get[time.Duration](n, "batch", "max_wait"),
		},
		Retry: Retry{
			Initial:    get[time.Duration](n, "retry", "initial"),
			Max:        get[time.Duration](n, "retry", "max"),
			MaxElapsed: get[time.Duration](n, "retry", "max_elapsed"),
			ParkAfter:  get[time.Duration](n, "retry", "park_after"),
			Topic:      get[string](n, "retry", "topic"),
		},
		Breaker: Breaker{
			Failures: int(get[int64](n, "breaker", "failures")),
			Max:      get[time.Duration](n, "breaker", "max"),
		},
		Isolate: Isolate{Attempts: int(get[int64](n, "isolate", "attempts"))},
		Errors: Errors{
			Tolerance: get[string](n, "errors", "tolerance"),
			Log:       get[bool](n, "errors", "log"),
		},
		Key:      l.converter(n, "key", cfg.Worker.Key),
		Value:    l.converter(n, "value", cfg.Worker.Value),
		Header:   l.converter(n, "header", cfg.Worker.Header),
		Ranges:   n.ranges(),
		DefRange: b.def,
		sources:  l.sources,
	}
	c.Config = newTree(b.def)
	if own := n.blocks["config"]; own != nil {
		c.Config = own.tree
	}
	c.Config.secrets = l.secrets
	if n.blocks["dead_letter_queue"] != nil {
		c.DeadLetterQueue = &DeadLetterQueue{
			Topic:             get[string](n, "dead_letter_queue", "topic"),
			Partitions:        int(get[int64](n, "dead_letter_queue", "partitions")),
			ReplicationFactor: int(get[int64](n, "dead_letter_queue", "replication_factor")),
			MaxRatio:          get[float64](n, "dead_letter_queue", "max_ratio"),
			Net:               get[bool](n, "dead_letter_queue", "net"),
			Broker:            get[bool](n, "dead_letter_queue", "broker"),
		}
	}
	c.fillDependent(&cfg.Worker)
	clean := l.finish(n, before)
	l.checkConnector(c, n, cfg)
	c.Usable = clean && errorCount(l.diags) == before && l.dependenciesUsable(c, cfg)
	return c
}

// fillDependent fills in defaults that depend on other settings.
func (c *Connector) fillDependent(w *Worker) {
	if c.GroupProtocol == "" {
		c.GroupProtocol = w.GroupProtocol
	}
	if c.GroupID == "" {
		c.GroupID = "connect-" + c.Name
	}
	if c.Consumer.RebalanceTimeout == 0 {
		c.Consumer.RebalanceTimeout = c.PutTimeout + 30*time.Second
	}
	if c.Errors.Tolerance == "" {
		c.Errors.Tolerance = "none"
		if c.DeadLetterQueue != nil {
			c.Errors.Tolerance = "all"
		}
	}
	if back, err := parseDuration(c.AutoOffsetReset); err == nil {
		c.AutoOffsetReset, c.AutoOffsetBack = ResetByDuration, back
	}
}

// dependenciesUsable reports whether what the connector is built on has no
// error of its own.
func (l *loader) dependenciesUsable(c *Connector, cfg *Config) bool {
	if k := cfg.Kafka[c.Kafka]; k != nil && !k.Usable { // Never with Env.Dev.
		return false
	}
	if p := cfg.Plugins[c.Sink.Name]; p != nil && !p.Usable {
		return false
	}
	return true
}

// sinkRef takes "form:name" apart.
func sinkRef(text string) SinkRef {
	if form, name, ok := strings.Cut(text, ":"); ok && slices.Contains(sinkForms(), form) {
		return SinkRef{Form: form, Name: name}
	}
	return SinkRef{Name: text}
}

func sinkForms() []string { return []string{"builtin", "process", "wasm"} }
