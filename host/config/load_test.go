package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/sluicehq/sluice/host/config"
)

// load reads files given by name and content, and fails on an error.
func load(t *testing.T, files map[string]string) *config.Config {
	t.Helper()
	cfg, diags := loadFiles(t, files)
	if diags.HasErrors() {
		t.Fatalf("got errors:\n%s", describe(diags))
	}
	return cfg
}

func loadFiles(t *testing.T, files map[string]string) (*config.Config, hcl.Diagnostics) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config.Load([]string{dir}, testEnv(corpusVars()))
}

const mainKafka = "kafka \"main\" {\n  bootstrap = [\"127.0.0.1:9092\"]\n}\n"

// TestFull compares a whole configuration, as it is shown, with the file
// beside it.
func TestFull(t *testing.T) {
	const file = "testdata/full.good.hcl"
	cfg, diags := config.Load([]string{file}, testEnv(corpusVars()))
	if len(diags) != 0 {
		t.Fatalf("got diagnostics:\n%s", describe(diags))
	}
	text, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, file+".shown", string(text)+"\n")
	everything := string(text) + fmt.Sprintf("%v %+v %#v %s", cfg.Kafka["main"].SASL, cfg.Plugins["acme"].Env, cfg.Connectors[0].Config, cfg.Connectors[0].Config)
	if strings.Contains(everything, "canary") {
		t.Errorf("a secret is shown:\n%s", everything)
	}
}

func TestDefaults(t *testing.T) {
	cfg := load(t, map[string]string{"a.hcl": mainKafka + `connector "a" {
  sink   = "drop"
  topics = ["t"]
}`})
	c := cfg.Connectors[0]
	if c.GroupID != "connect-a" || c.GroupProtocol != config.GroupConsumer || c.Kafka != "main" || !c.Usable {
		t.Errorf("got group %q, protocol %q, kafka %q, usable %v", c.GroupID, c.GroupProtocol, c.Kafka, c.Usable)
	}
	if c.PutTimeout != time.Minute || c.Consumer.RebalanceTimeout != 90*time.Second || c.Errors.Tolerance != "none" {
		t.Errorf("got put_timeout %s, rebalance_timeout %s, tolerance %q", c.PutTimeout, c.Consumer.RebalanceTimeout, c.Errors.Tolerance)
	}
	if c.Batch.MaxRecords != 500 || c.Batch.MaxBytes != 8<<20 || c.Share.MaxDeliveryCount != 5 || c.Value.Name != "bytes" {
		t.Errorf("got %+v, %+v, converter %q", c.Batch, c.Share, c.Value.Name)
	}
	if c.Ranges.Written("batch.max_records") {
		t.Error("a default counts as written")
	}
	if cfg.Worker.ID != "test-host" || cfg.Worker.Listen != "127.0.0.1:8083" || !cfg.Worker.Usable || cfg.Worker.MemoryBytes < 1 {
		t.Errorf("got worker %+v", cfg.Worker)
	}
}

// TestSecretVerbatim is a password that looks like a template: it came to be
// another one when values of variables were parsed again.
func TestSecretVerbatim(t *testing.T) {
	cfg, diags := config.Load([]string{"testdata/dollar.good.hcl"}, testEnv(corpusVars()))
	if len(diags) != 0 {
		t.Fatalf("got diagnostics:\n%s", describe(diags))
	}
	s := cfg.Kafka["main"].SASL
	if got, want := s.Password.Reveal(), `p@$$w${x}rd"\ #`; got != want {
		t.Errorf("password: got %q, want %q", got, want)
	}
	if got, want := s.Username.Reveal(), "c8@i9$CWx"; got != want {
		t.Errorf("username: got %q, want %q", got, want)
	}
}

// TestSecretIsNeverPrinted tries the ways of printing a value.
func TestSecretIsNeverPrinted(t *testing.T) {
	s := config.NewSecret("s3cr3t-canary")
	holder := struct {
		S *config.SASL
		M map[string]config.Secret
	}{&config.SASL{Password: s}, map[string]config.Secret{"a": s}}
	text, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "s", s, "h", holder)
	all := string(text) + log.String() + fmt.Sprint(s) + fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s, s) +
		fmt.Sprintf("%v %+v %#v", holder.M, *holder.S, *holder.S)
	if strings.Contains(all, "canary") || strings.Contains(all, "6361") {
		t.Errorf("the secret is shown: %s", all)
	}
}

// TestPathsAreTheFiles keeps relative paths with the file they stand in.
func TestPathsAreTheFiles(t *testing.T) {
	cfg := load(t, map[string]string{"a.hcl": `worker {
  plugin_path = ["plugins", "/opt/plugins"]
}
kafka "main" {
  bootstrap = [trimspace(file("broker.txt"))]
  tls {
    ca_file = "ca.pem"
  }
}
connector "a" {
  sink   = "file"
  topics = ["t"]
  config {
    here  = "${path.module}/x"
    plain = "x"
  }
}`, "broker.txt": "b:9092\n"})
	dir := filepath.Dir(cfg.Connectors[0].DefRange.Filename)
	if got, want := cfg.Worker.PluginPath, []string{filepath.Join(dir, "plugins"), "/opt/plugins"}; got[0] != want[0] || got[1] != want[1] {
		t.Errorf("plugin_path: got %v, want %v", got, want)
	}
	if got, want := cfg.Kafka["main"].TLS.CAFile, filepath.Join(dir, "ca.pem"); got != want {
		t.Errorf("ca_file: got %q, want %q", got, want)
	}
	if got := cfg.Kafka["main"].Bootstrap[0]; got != "b:9092" {
		t.Errorf("bootstrap from a file: got %q", got)
	}
	if got, want := cfg.Connectors[0].Config.String(), fmt.Sprintf(`{"here":"%s/x","plain":"x"}`, dir); got != want {
		t.Errorf("config: got %s, want %s", got, want)
	}
}

func TestHeredoc(t *testing.T) {
	for file, want := range map[string]string{
		"testdata/heredoc.good.hcl": `{"query":"SELECT 1\n\nFROM t\n"}`,
		"testdata/crlf.good.hcl":    `{"query":"SELECT 1\r\n\r\nFROM t\r\n"}`,
	} {
		cfg, diags := config.Load([]string{file}, testEnv(nil))
		if len(diags) != 0 {
			t.Fatalf("got diagnostics:\n%s", describe(diags))
		}
		if got := cfg.Connectors[0].Config.String(); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}

// TestBothSyntaxes reads the same definition in both forms: what is evaluated
// when the file is read, and what is left to templates of sinks, is the same.
func TestBothSyntaxes(t *testing.T) {
	native := load(t, map[string]string{"a.hcl": mainKafka + `connector "a" {
  sink   = "http"
  topics = ["t"]
  batch {
    max_records = 7
  }
  config {
    url  = "http://x/{key}"
    path = "year=%%{yyyy}"
    pw   = "a$${b}c"
    pk   = { source = "key", fields = ["id"] }
  }
}`})
	js := load(t, map[string]string{"a.hcl.json": `{
  "//": "note",
  "kafka": {"main": {"bootstrap": ["127.0.0.1:9092"]}},
  "connector": {"a": {
    "//": "note", "sink": "http", "topics": ["t"], "batch": {"max_records": 7},
    "config": {"url": "http://x/{key}", "path": "year=%%{yyyy}", "pw": "a$${b}c", "pk": {"source": "key", "fields": ["id"]}}
  }}
}`})
	a, err := json.Marshal(native.Connectors)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(js.Connectors)
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("the two forms differ\nHCL:  %s\nJSON: %s", a, b)
	}
	if !strings.Contains(string(a), `"pw":"a${b}c"`) {
		t.Errorf("an escaped template is not literal: %s", a)
	}
}

func TestProperties(t *testing.T) {
	cfg, diags := config.Load([]string{"testdata/properties.good.hcl"}, testEnv(nil))
	if diags.HasErrors() {
		t.Fatalf("got errors:\n%s", describe(diags))
	}
	c := cfg.Connectors[0]
	if c.Tasks != 3 || c.GroupProtocol != config.GroupShare || c.Share.AcquisitionLockTimeout != 45*time.Second {
		t.Errorf("got tasks %d, protocol %q, lock %s", c.Tasks, c.GroupProtocol, c.Share.AcquisitionLockTimeout)
	}
	if c.DeadLetterQueue == nil || c.DeadLetterQueue.Topic != "dlq.orders" || c.Errors.Tolerance != "all" {
		t.Errorf("got dead letter queue %+v, tolerance %q", c.DeadLetterQueue, c.Errors.Tolerance)
	}
	if c.AutoOffsetReset != config.ResetByDuration || c.AutoOffsetBack != 36*time.Hour {
		t.Errorf("got reset %q, %s", c.AutoOffsetReset, c.AutoOffsetBack)
	}
	if c.Value.Name != "json" || c.Value.Options.String() != `{"schemas_enable":false}` {
		t.Errorf("got value converter %q with %s", c.Value.Name, c.Value.Options)
	}
	if got := c.Ranges.At("share.acquisition_lock_timeout").Start.Line; got != 11 {
		t.Errorf("a property's setting stands at line %d, want 11", got)
	}
}

func TestForEach(t *testing.T) {
	cfg, diags := config.Load([]string{"testdata/for_each.good.hcl"}, testEnv(nil))
	if diags.HasErrors() {
		t.Fatalf("got errors:\n%s", describe(diags))
	}
	if len(cfg.Connectors) != 2 {
		t.Fatalf("got %d connectors, want 2", len(cfg.Connectors))
	}
	us := cfg.Connectors[1]
	if us.Name != "orders-us" || us.GroupID != "connect-orders-us" || us.Topics[0] != "orders.us" || us.Tasks != 2 || us.Sink.String() != "process:file" {
		t.Errorf("got %s", us.Config)
	}
}

// TestErrorsReachOnlyWhatDependsOnThem has an error in a local and one in a
// connection: connectors that use neither can be run.
func TestErrorsReachOnlyWhatDependsOnThem(t *testing.T) {
	cfg, diags := loadFiles(t, map[string]string{"a.hcl": mainKafka + `
kafka "broken" {
  bootstrap = ["nowhere"]
}
locals {
  bad = env("NOPE")
}
connector "good" {
  sink   = "drop"
  kafka  = kafka.main
  topics = ["t"]
}
connector "by-local" {
  sink   = "drop"
  kafka  = kafka.main
  topics = ["t"]
  config {
    x = { y = local.bad }
  }
}
connector "by-kafka" {
  sink   = "drop"
  kafka  = kafka.broken
  topics = ["t"]
}`})
	if len(diags) != 2 {
		t.Errorf("got %d diagnostics, want one for each cause:\n%s", len(diags), describe(diags))
	}
	usable := cfg.Usable()
	if len(usable) != 1 || usable[0].Name != "good" {
		t.Errorf("usable: got %d connectors, want only good", len(usable))
	}
}

// TestDev has no kafka block, one, and two: with the embedded broker a
// connector uses none of them.
func TestDev(t *testing.T) {
	const connector = "connector \"a\" {\n  sink   = \"drop\"\n  topics = [\"t\"]\n}\n"
	for name, text := range map[string]string{
		"none": connector,
		"one":  mainKafka + connector,
		"two":  mainKafka + "kafka \"b\" {\n  bootstrap = [\"b:1\"]\n}\n" + connector,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.hcl")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			env := testEnv(nil)
			env.Dev = true
			cfg, diags := config.Load([]string{path}, env)
			if len(diags) != 0 || len(cfg.Usable()) != 1 || cfg.Connectors[0].Kafka != "" {
				t.Errorf("got %d usable connectors, kafka %q and diagnostics:\n%s", len(cfg.Usable()), cfg.Connectors[0].Kafka, describe(diags))
			}
		})
	}
}

// TestReads has topics by pattern: it matches whole names, and never the
// connector's own dead letters.
func TestReads(t *testing.T) {
	cfg := load(t, map[string]string{"a.hcl": mainKafka + `connector "a" {
  sink         = "drop"
  topics_regex = "orders\\..*|payments"
}`})
	for topic, want := range map[string]bool{"orders.eu": true, "payments": true, "xpayments": false, "my-orders.eu": false} {
		if got := cfg.Connectors[0].Reads(topic); got != want {
			t.Errorf("reads %q: got %v, want %v", topic, got, want)
		}
	}
}

// A block with for_each has one problem a thousand times: it is told ten times.
func TestProblemsAlikeAreFew(t *testing.T) {
	_, diags := loadFiles(t, map[string]string{"a.hcl": `
kafka "k" {
  bootstrap = ["127.0.0.1:9092"]
}
connector "c" {
  for_each       = [for i in range(1000) : format("%04d", i)]
  sink           = "drop"
  topics         = ["t"]
  group_protocol = "share"
}
`})
	errors, warnings := config.Count(diags)
	if errors != 0 || warnings != 10 || !strings.HasSuffix(diags[9].Detail, " And 990 more like this.") {
		t.Errorf("got %d errors, %d warnings, the last: %s", errors, warnings, diags[len(diags)-1].Detail)
	}
}
