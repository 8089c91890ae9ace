package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/host/config"
)

// FuzzLoad reads any bytes in both forms: whatever they are, there is a
// result, and it can be printed.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/*.hcl", "testdata/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if len(text) < 4096 { // The larger ones only slow the fuzzer down.
				f.Add(text, strings.HasSuffix(file, ".json"))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, asJSON bool) {
		name := "x.hcl"
		if asJSON {
			name += ".json"
		}
		env := testEnv(corpusVars())
		env.ReadFile = func(path string) ([]byte, error) {
			if filepath.Base(path) == name {
				return text, nil
			}
			return nil, os.ErrNotExist
		}
		env.Stat = statFile
		cfg, diags := config.Load([]string{name}, env)
		var out bytes.Buffer
		if err := config.Format(&out, diags, cfg.Sources, true); err != nil {
			t.Fatal(err)
		}
		if err := config.FormatJSON(&out, diags, cfg.Sources); err != nil {
			t.Fatal(err)
		}
		for _, c := range cfg.Connectors {
			if c.Usable && (c.Name == "" || c.Sink.Name == "" || len(c.Topics) == 0 && c.TopicsRegex == "") {
				t.Errorf("usable, but incomplete: %+v", c)
			}
			_, d := c.CheckSettings(testPlugin())
			if err := config.Format(&out, d, cfg.Sources, false); err != nil {
				t.Fatal(err)
			}
		}
	})
}
