package config_test

import (
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice/host/config"
)

// TestConfigs reads each file in configs/, and all of them as one: there is
// nothing to say about any.
func TestConfigs(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.hcl")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Fatalf("found %d files, want at least 5", len(files))
	}
	vars := map[string]string{"KAFKA_PASSWORD": "x-password", "ORDERS_DSN": "postgres://u@127.0.0.1/orders", "PAYMENTS_TOKEN": "x-token"}
	for _, path := range append(files, "../../configs") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			cfg, diags := config.Load([]string{path}, testEnv(vars))
			if len(diags) > 0 {
				t.Errorf("got diagnostics:\n%s", describe(diags))
			}
			if len(cfg.Usable()) == 0 || len(cfg.Usable()) != len(cfg.Connectors) {
				t.Errorf("got %d usable connectors of %d", len(cfg.Usable()), len(cfg.Connectors))
			}
		})
	}
}
