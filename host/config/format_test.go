package config_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/sluicehq/sluice/host/config"
)

func TestFormat(t *testing.T) {
	cfg, diags := config.Load([]string{"testdata/several.bad.hcl"}, testEnv(nil))
	var out strings.Builder
	if err := config.Format(&out, diags[:1], cfg.Sources, false); err != nil {
		t.Fatal(err)
	}
	const want = `Error: Wrong value

  on testdata/several.bad.hcl line 8, in connector "a":
   8:   tasks  = "x"

tasks wants a whole number. "x" is not a whole number.

`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
	out.Reset()
	if err := config.Format(&out, diags[:1], cfg.Sources, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "tasks  = \x1b[4m\"x\"\x1b[0m") || !strings.Contains(out.String(), "\x1b[1;31mError\x1b[0m") {
		t.Errorf("in colour: got %q", out.String())
	}
}

func TestFormatJSON(t *testing.T) {
	cfg, diags := config.Load([]string{"testdata/several.bad.hcl"}, testEnv(nil))
	var out strings.Builder
	if err := config.FormatJSON(&out, diags, cfg.Sources); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Valid       bool
		ErrorCount  int `json:"error_count"`
		Diagnostics []struct {
			Severity, Summary, Detail string
			Range                     struct {
				Filename   string
				Start, End struct{ Line, Column, Byte int }
			}
			Snippet struct{ Context, Code string }
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	d := got.Diagnostics[0]
	if got.Valid || got.ErrorCount != len(diags) || d.Severity != "error" || d.Range.Start.Line != 8 || d.Range.Start.Column != 12 ||
		d.Snippet.Context != `connector "a"` || d.Snippet.Code != `  tasks  = "x"` {
		t.Errorf("got %+v", got)
	}
}

// TestFormatIsSafe has a line as long as a file, control characters that steer
// terminals, and diagnostics without a place or for an unknown file.
func TestFormatIsSafe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.hcl")
	text := "x = [" + strings.Repeat("\"é\", ", 5000) + "\"\x1b[2J\u202e\"]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load([]string{path}, testEnv(nil))
	at := hcl.Range{Filename: "elsewhere.hcl", Start: hcl.Pos{Line: 3, Column: 1, Byte: 99}}
	control := hcl.Range{Filename: path, Start: hcl.Pos{Line: 1, Column: 1, Byte: len(text) - 12}, End: hcl.Pos{Line: 1, Column: 9, Byte: len(text) - 1}}
	beyond := hcl.Range{Filename: path, Start: hcl.Pos{Line: 9, Column: 1, Byte: len(text) + 50}, End: hcl.Pos{Line: 9, Column: 2, Byte: len(text) + 60}}
	diags = append(
		diags,
		&hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "a\x1b[31m", Detail: "b"},
		&hcl.Diagnostic{Severity: hcl.DiagError, Summary: "c", Subject: &at},
		&hcl.Diagnostic{Severity: hcl.DiagError, Summary: "d", Subject: &control},
		&hcl.Diagnostic{Severity: hcl.DiagError, Summary: "e", Subject: &beyond},
	)
	for _, sources := range []*config.Sources{cfg.Sources, nil} {
		var out strings.Builder
		if err := config.Format(&out, diags, sources, false); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String(), "\x1b\u202e") {
			t.Errorf("control characters get through: %q", out.String())
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 300 {
				t.Errorf("a line has %d bytes: %.80q…", len(line), line)
			}
		}
	}
}
