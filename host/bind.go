package host

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/sluicehq/sluice/convert"
	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/loader"
	"github.com/sluicehq/sluice/pluginapi"
)

// Bound is a connector definition together with the plugin it names, the
// plugin's settings checked, and its converters built. It can be run.
type Bound struct {
	def    *config.Connector
	plugin *loader.Plugin
	pin    *config.PluginPin // Nil without a plugin block.
	values map[string]any
	chain  *convert.Chain // Nil leaves records as bytes.
	kafka  kafka.Connection
	dev    bool // kafka is the embedded broker.
}

// Name returns the connector's name.
func (b *Bound) Name() string { return b.def.Name }

// Topics returns the topics the connector lists; none with a pattern.
func (b *Bound) Topics() []string { return b.def.Topics }

// Bind finds the plugin of each connector and checks the connector's settings
// against the plugin's description, also where the definition has other errors,
// so that all of them show at once. It opens nothing. A connector with an error
// is left out and blocks no other. dev, if not empty, is the
// embedded broker's bootstrap, which then stands in for every kafka block.
func Bind(ctx context.Context, cfg *config.Config, catalog *loader.Catalog, dev []string) ([]*Bound, hcl.Diagnostics) {
	var out []*Bound
	var diags hcl.Diagnostics
	for _, def := range cfg.Connectors {
		if pin := cfg.Plugins[def.Sink.Name]; def.Sink.Name == "" || pin != nil && !pin.Usable {
			continue // There is nothing to look for.
		}
		b, d := bind(ctx, cfg, catalog, def, dev)
		diags = append(diags, d...)
		if def.Usable && !d.HasErrors() {
			out = append(out, b)
		}
	}
	return out, diags
}

func bind(ctx context.Context, cfg *config.Config, catalog *loader.Catalog, def *config.Connector, dev []string) (*Bound, hcl.Diagnostics) {
	b := &Bound{def: def, pin: cfg.Plugins[def.Sink.Name]}
	plugin, err := catalog.Resolve(ctx, def.Sink.String(), pin(b.pin))
	if err != nil {
		at := def.Ranges.At("sink")
		return nil, hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Sink not found", Detail: sentence(err), Subject: &at,
		}}
	}
	b.plugin = plugin
	values, diags := def.CheckSettings(&plugin.Description)
	b.values = values

	chain, d := converters(def, &plugin.Description)
	diags = append(diags, d...)
	b.chain = chain

	if at := def.Ranges.At("delivery_semantics"); def.DeliverySemantics == config.ExactlyOnce && !plugin.Description.Can(pluginapi.CanEmit) {
		diags = append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Values do not fit", Subject: &at,
			Detail: fmt.Sprintf("Exactly-once is for sinks that emit records for the host to produce, such as \"kafka\", since these and the progress are written "+
				"in one transaction. The sink %q writes to a target of its own. Write delivery_semantics = %q or leave it out.", plugin.Name, config.AtLeastOnce),
		})
	}

	if len(dev) > 0 { // The embedded broker stands in for whatever the definition names.
		b.dev, b.kafka = true, kafka.Connection{Name: "embedded", Bootstrap: dev}
	} else if k := cfg.Kafka[def.Kafka]; k != nil {
		b.kafka = connection(k)
	}
	return b, diags
}

// PluginProblems makes warnings of plugin files that cannot be used: they block
// nothing but the connectors that need them.
func PluginProblems(cfg *config.Config, problems []loader.Problem) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, p := range problems {
		d := &hcl.Diagnostic{
			Severity: hcl.DiagWarning, Summary: "Plugin file cannot be used",
			Detail: fmt.Sprintf("%s: %v. Connectors that do not need it are not affected.", p.Path, p.Err),
		}
		if at := cfg.Worker.Ranges.At("plugin_path"); at.Filename != "" {
			d.Subject = &at
		}
		diags = append(diags, d)
	}
	return diags
}

// pin maps a plugin block to what the catalog wants of the file.
func pin(p *config.PluginPin) loader.Pin {
	if p == nil {
		return loader.Pin{}
	}
	return loader.Pin{Version: p.Version, SHA256: p.SHA256}
}

// connection maps a kafka block.
func connection(k *config.Kafka) kafka.Connection {
	c := kafka.Connection{
		Name: k.Name, Bootstrap: k.Bootstrap, ClientID: k.ClientID,
		DialTimeout: k.DialTimeout, RequestTimeout: k.RequestTimeout,
	}
	if k.TLS != nil {
		c.TLS = &kafka.TLS{CAFile: k.TLS.CAFile, CertFile: k.TLS.CertFile, KeyFile: k.TLS.KeyFile, ServerName: k.TLS.ServerName}
	}
	if k.SASL != nil {
		c.SASL = &kafka.SASL{
			Mechanism: k.SASL.Mechanism, Username: k.SASL.Username.Reveal(),
			Password: kafka.Secret(k.SASL.Password.Reveal()), Token: kafka.Secret(k.SASL.Token.Reveal()),
		}
	}
	return c
}

// sentence makes an error's text a diagnostic's detail.
func sentence(err error) string {
	text := err.Error()
	if text == "" {
		return text
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") {
		text += "."
	}
	return text
}

// version returns the plugin's version.
func (b *Bound) version() string { return b.plugin.Description.Version }

// properties returns the definition as the flat map Kafka Connect's clients
// expect, secrets blotted out.
func (b *Bound) properties() map[string]string {
	d := b.def
	out := map[string]string{
		"name": d.Name, "connector.class": d.Sink.String(), "tasks.max": strconv.Itoa(d.Tasks),
		"consumer.override.group.protocol": d.GroupProtocol, "consumer.override.group.id": d.GroupID,
		"errors.tolerance": d.Errors.Tolerance,
		"key.converter":    d.Key.Name, "value.converter": d.Value.Name,
	}
	if len(d.Topics) > 0 {
		out["topics"] = strings.Join(d.Topics, ",")
	} else {
		out["topics.regex"] = d.TopicsRegex
	}
	if d.DeadLetterQueue != nil {
		out["errors.deadletterqueue.topic.name"] = d.DeadLetterQueue.Topic
	}
	for name, v := range d.ShownSettings(&b.plugin.Description, b.values) {
		out[name] = fmt.Sprint(v)
	}
	return out
}

// Shown returns a string setting of the plugin as it may be printed, secrets
// blotted out; "" where it is not written.
func (b *Bound) Shown(name string) string {
	s, _ := b.def.ShownSettings(&b.plugin.Description, b.values)[name].(string)
	return s
}

// Sink returns the name and form of the plugin, such as "jdbc (builtin)".
func (b *Bound) Sink() string { return fmt.Sprintf("%s (%s)", b.plugin.Name, b.plugin.Form) }

// Setting returns a string setting of the plugin, "" where it is not written.
func (b *Bound) Setting(name string) string {
	s, _ := b.values[name].(string)
	return s
}
