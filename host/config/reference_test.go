package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/host/config"
)

// TestReference keeps docs/config.md what the code says.
func TestReference(t *testing.T) {
	const path = "../../docs/config.md"
	var got strings.Builder
	if err := config.WriteReference(&got); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil { //nolint:gosec // Documentation is public.
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("%s differs from the code; rewrite it with -update", path)
	}
}
