package config_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/sluicehq/sluice/host/config"
)

// update rewrites expectations. Read the difference before committing it.
var update = flag.Bool("update", false, "rewrite the expected results in testdata and docs")

// testEnv is a world that depends on nothing of the machine but testdata.
func testEnv(vars map[string]string) config.Env {
	return config.Env{
		Lookup: func(name string) (string, bool) {
			v, ok := vars[name]
			return v, ok
		},
		Hostname: func() (string, error) { return "test-host", nil },
	}
}

func corpusVars() map[string]string {
	return map[string]string{
		"DBPW":           `p@$$w${x}rd"\ #`,
		"DECOMPOSED":     "cafe\u0301",
		"ORDERS_DSN":     "postgres://orders:s3cr3t-canary@127.0.0.1/orders",
		"KAFKA_PASSWORD": "s3cr3t-canary",
	}
}

// describe writes one diagnostic per line: severity, range, summary, detail.
func describe(diags hcl.Diagnostics) string {
	var out strings.Builder
	for _, d := range diags {
		severity := "error"
		if d.Severity == hcl.DiagWarning {
			severity = "warning"
		}
		at := "nowhere"
		if s := d.Subject; s != nil {
			at = fmt.Sprintf("%d:%d-%d:%d", s.Start.Line, s.Start.Column, s.End.Line, s.End.Column)
		}
		fmt.Fprintf(&out, "%s %s %s: %s\n", severity, at, d.Summary, strings.ReplaceAll(d.Detail, "\n", " "))
	}
	return out.String()
}

// TestCorpus reads each file in testdata and compares its diagnostics with the
// file beside it that ends in .want. A .good file has no errors, a .bad file
// has some, and each points at a line.
func TestCorpus(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/*.good.hcl", "testdata/*.bad.hcl", "testdata/*.good.hcl.json", "testdata/*.bad.hcl.json"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	if len(files) < 100 {
		t.Fatalf("found %d files in the corpus, want at least 100", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(file, "testdata/"), func(t *testing.T) {
			cfg, diags := config.Load([]string{file}, testEnv(corpusVars()))
			if bad := strings.Contains(file, ".bad."); diags.HasErrors() != bad {
				t.Errorf("has errors: got %v, want %v\n%s", diags.HasErrors(), bad, describe(diags))
			}
			for _, d := range diags {
				if d.Subject == nil || d.Subject.Filename != file || d.Detail == "" {
					t.Errorf("diagnostic without a line or a remedy: %v", d)
				}
			}
			compare(t, file+".want", describe(diags))
			var text strings.Builder
			if err := config.Format(&text, diags, cfg.Sources, false); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(text.String()+describe(diags), "s3cr3t-canary") {
				t.Errorf("a diagnostic shows a secret:\n%s", text.String())
			}
		})
	}
}

// compare compares got with the file at path, which is not there when nothing
// is expected.
func compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if got == "" {
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // Test data is public.
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (rewrite it with -update)\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// TestBulk is a directory of ten definitions of which four are wrong: all four
// are reported, and the other six can be run.
func TestBulk(t *testing.T) {
	cfg, diags := config.Load([]string{"testdata/bulk"}, testEnv(nil))
	var bad []string
	for _, d := range diags {
		bad = append(bad, filepath.Base(d.Subject.Filename))
	}
	if want := []string{"c2.hcl", "c4.hcl", "c6.hcl", "c8.hcl"}; !slices.Equal(slices.Compact(bad), want) {
		t.Errorf("files with a problem: got %v, want %v\n%s", bad, want, describe(diags))
	}
	var usable []string
	for _, c := range cfg.Usable() {
		usable = append(usable, c.Name)
	}
	if want := []string{"c0", "c1", "c3", "c5", "c7", "c9"}; !slices.Equal(usable, want) {
		t.Errorf("usable connectors: got %v, want %v", usable, want)
	}
}

// TestMissingPaths reports what cannot be read and reads the rest.
func TestMissingPaths(t *testing.T) {
	empty := t.TempDir()
	env := testEnv(nil)
	cfg, diags := config.Load([]string{"testdata/nowhere.hcl", empty, "testdata/bulk/kafka.hcl", "testdata/bulk"}, env)
	if got := len(diags.Errs()); got != 6 {
		t.Errorf("got %d errors, want 6: two of paths, four of testdata/bulk\n%s", got, describe(diags))
	}
	if cfg.Kafka["main"] == nil || !cfg.Kafka["main"].Usable {
		t.Error("the connection in a file named twice is not usable")
	}
	env.Stat = func(string) (fs.FileInfo, error) { return nil, fs.ErrPermission }
	if _, diags := config.Load([]string{"x"}, env); !strings.Contains(describe(diags), "permission denied") {
		t.Errorf("a path without rights: got %s", describe(diags))
	}
}
