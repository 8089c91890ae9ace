package config_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/pluginapi"
)

// statFile says of any path that it is a file.
func statFile(string) (fs.FileInfo, error) { return os.Stat("settings_test.go") }

func testPlugin() *pluginapi.Description {
	p := &pluginapi.Plugin{
		Name: "test", Version: "1.0.0",
		Settings: []pluginapi.Setting{
			{Name: "dsn", Type: pluginapi.String, Required: true, Secret: true, Help: "Address of the database."},
			{Name: "table", Type: pluginapi.String, Template: true},
			{Name: "mode", Type: pluginapi.String, Default: "insert", Allowed: []string{"insert", "upsert"}},
			{Name: "version", Type: pluginapi.String},
			{Name: "pk", Type: pluginapi.Object, Fields: []pluginapi.Setting{
				{Name: "source", Type: pluginapi.String, Required: true, Allowed: []string{"key", "value"}},
				{Name: "fields", Type: pluginapi.List},
			}},
			{Name: "rows", Type: pluginapi.Int, Min: pluginapi.Limit(1), Max: pluginapi.Limit(10)},
			{Name: "wait", Type: pluginapi.Duration, Default: time.Second},
			{Name: "size", Type: pluginapi.Bytes},
			{Name: "headers", Type: pluginapi.Map},
			{Name: "targets", Type: pluginapi.List, Elem: pluginapi.Object, Fields: []pluginapi.Setting{{Name: "host", Type: pluginapi.String}}},
			{Name: "old", Type: pluginapi.Bool, Deprecated: "use mode"},
		},
		New: func() pluginapi.Sink { return nil },
	}
	d := p.Describe()
	return &d
}

func connectorWith(t *testing.T, extra, settings string) (*config.Config, *config.Connector) {
	t.Helper()
	cfg := load(t, map[string]string{"a.hcl": mainKafka + "connector \"a\" {\n  sink   = \"test\"\n  topics = [\"t\"]\n" + extra +
		"  config {\n" + settings + "  }\n}\n"})
	return cfg, cfg.Connectors[0]
}

func TestCheckSettingsGood(t *testing.T) {
	_, c := connectorWith(t, "", `    dsn   = "postgres://u:s3cr3t-canary@h/db"
    table = "{topic}"
    pk    = { source = "key", fields = ["id"] }
    rows  = 10
    size  = "8MiB"
    headers = {
      "a.b"         = "c"
      Authorization = secret("Bearer other-canary")
    }
    targets {
      host = "h1"
    }
`)
	values, diags := c.CheckSettings(testPlugin())
	if len(diags) != 0 {
		t.Fatalf("got diagnostics:\n%s", describe(diags))
	}
	got, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"dsn":"postgres://u:s3cr3t-canary@h/db","headers":{"Authorization":"Bearer other-canary","a.b":"c"},"mode":"insert",` +
		`"pk":{"fields":["id"],"source":"key"},"rows":10,"size":8388608,"table":"{topic}","targets":[{"host":"h1"}],"wait":1000000000}`
	if string(got) != want {
		t.Errorf("values:\ngot  %s\nwant %s", got, want)
	}
	shown := fmt.Sprint(c.ShownSettings(testPlugin(), values), c.Config)
	if strings.Contains(shown, "canary") || !strings.Contains(shown, "a.b:c") {
		t.Errorf("shown: %s", shown)
	}
}

func TestCheckSettingsBad(t *testing.T) {
	for _, tc := range []struct {
		name, extra, settings string
		want                  []string // "line:column summary: part of the detail"
	}{
		{"required", "", "    table = \"t\"\n", []string{`7:3 Missing setting: dsn of the plugin "test" is required. Write dsn = …: address of the database.`}},
		{"unknown", "", "    dsn  = \"x\"\n    tabel = \"t\"\n", []string{`9:5 Unknown setting: "tabel" is not a setting of the plugin "test". Did you mean "table"?`}},
		{"unknown without a near name", "", "    dsn  = \"x\"\n    qqqqq = \"t\"\n", []string{`9:5 Unknown setting: Possible: `}},
		{"unknown in an object", "", "    dsn = \"x\"\n    pk  = { source = \"key\", field = [\"a\"] }\n", []string{`9:29 Unknown setting: Did you mean "fields"?`}},
		{"unknown in a block", "", "    dsn = \"x\"\n    pk {\n      source = \"key\"\n      field  = [\"a\"]\n    }\n", []string{`11:7 Unknown setting: Did you mean "fields"?`}},
		{"required in an object", "", "    dsn = \"x\"\n    pk  = { fields = [\"a\"] }\n", []string{`9:11 Missing setting: pk.source of the plugin`}},
		{"element", "", "    dsn = \"x\"\n    pk  = { source = \"key\", fields = [\"a\", 5] }\n", []string{`9:44 Wrong value: pk.fields.1 is`}},
		{"element of a repeated block", "", "    dsn = \"x\"\n    targets {\n      host = \"a\"\n    }\n    targets {\n      host = 5\n    }\n", []string{`13:14 Wrong value: targets.1.host is`}},
		{"single block of a list", "", "    dsn = \"x\"\n    targets {\n      host = 5\n    }\n", []string{`10:14 Wrong value: targets.0.host is`}},
		{"key with dots", "", "    dsn = \"x\"\n    headers = { \"a.b\" = 5 }\n", []string{`9:25 Wrong value: headers.a.b is`}},
		{"template", "", "    dsn   = \"x\"\n    table = \"{topicc}\"\n", []string{`9:13 Wrong value: table is not a template`}},
		{"range and unit", "", "    dsn  = \"x\"\n    rows = 11\n    wait = 5\n    size = \"8\"\n", []string{`9:12 Wrong value: rows is 11`, `10:12 Wrong value: wait`, `11:12 Wrong value: size`}},
		{"text for a number", "", "    dsn  = \"x\"\n    rows = \"5\"\n", []string{`9:12 Wrong value: tonumber(…)`}},
		{"choice", "", "    dsn  = \"x\"\n    mode = \"upsrt\"\n", []string{`9:12 Wrong value: did you mean "upsert"?`}},
		{"deprecated", "", "    dsn = \"x\"\n    old = true\n", []string{`9:11 Deprecated setting: use mode`}},
		{"secret of another type", "", "    dsn = 123456\n", []string{`8:11 Wrong value: dsn is`}},
		{
			"upsert without version", "  group_protocol = \"share\"\n  dead_letter_queue {\n    topic = \"d\"\n  }\n", "    dsn  = \"x\"\n    mode = \"upsert\"\n",
			[]string{`13:12 Older rows may overwrite newer ones: Set version`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, c := connectorWith(t, tc.extra, tc.settings)
			_, diags := c.CheckSettings(testPlugin())
			if len(diags) != len(tc.want) {
				t.Fatalf("got %d diagnostics, want %d:\n%s", len(diags), len(tc.want), describe(diags))
			}
			for i, want := range tc.want {
				head, part, _ := strings.Cut(want, ": ")
				got := fmt.Sprintf("%d:%d %s", diags[i].Subject.Start.Line, diags[i].Subject.Start.Column, diags[i].Summary)
				if got != head || !strings.Contains(diags[i].Detail, part) {
					t.Errorf("got  %s: %s\nwant %s", got, diags[i].Detail, want)
				}
			}
		})
	}
}

// TestSecretInDiagnosticsOfSettings has a secret setting with a wrong value:
// neither the message nor the source line shows it.
func TestSecretInDiagnosticsOfSettings(t *testing.T) {
	cfg, c := connectorWith(t, "", "    dsn = [\"s3cr3t-canary\"] // s3cr3t-canary\n    mode = secret(\"hidden-canary\")\n")
	desc := testPlugin()
	_, diags := c.CheckSettings(desc)
	if !diags.HasErrors() {
		t.Fatal("got no error")
	}
	var out strings.Builder
	if err := config.Format(&out, diags, cfg.Sources, true); err != nil {
		t.Fatal(err)
	}
	if err := config.FormatJSON(&out, diags, cfg.Sources); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "canary") {
		t.Errorf("a secret is shown:\n%s", out.String())
	}
}

func TestCheckOptions(t *testing.T) {
	cfg := load(t, map[string]string{"a.hcl": mainKafka + "connector \"a\" {\n  sink   = \"test\"\n  topics = [\"t\"]\n  value {\n    converter = \"json\"\n    schemas   = 5\n    shcemas   = true\n  }\n}\n"})
	options := []pluginapi.Setting{{Name: "schemas", Type: pluginapi.Bool, Default: true}}
	_, diags := cfg.Connectors[0].Value.CheckOptions(options)
	want := "error 9:17-9:18 Wrong value: schemas is a number, want a bool.\n" +
		"error 10:5-10:12 Unknown setting: \"shcemas\" is not a setting of the converter \"json\". Did you mean \"schemas\"?\n"
	if got := describe(diags); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	values, diags := cfg.Connectors[0].Key.CheckOptions(options)
	if len(diags) != 0 || values["schemas"] != true {
		t.Errorf("without options: got %v and\n%s", values, describe(diags))
	}
}
