package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/host/config"
)

// TestLongExpressions has long expressions that nest without brackets. At the
// largest size of a file a stack overflowed at "sum", "full splat" and
// "comparison", which nothing can recover from.
func TestLongExpressions(t *testing.T) {
	const size = 16 << 10
	for name, tc := range map[string]struct {
		begin, repeat, end string
		fine               bool // It does not nest.
	}{
		"sum":            {"1", "+1", "", false},
		"and":            {"true", "&&true", "", false},
		"comparison":     {"1", "<1", "", false},
		"index":          {"local", "[z]", "", false},
		"constant index": {"[1]", "[0]", "", false},
		"full splat":     {"[1]", "[*]", "", false},
		"splat":          {"[1]", ".*", "", false},
		"attributes":     {"local", ".a", "", false},
		"negative":       {"", "-", "1", false},
		"conditional":    {"", "true?1:", "1", false},
		"directives":     {"\"", "%{if true}", "\"", false},
		"interpolations": {"\"", "${1}", "\"", true},
		"list":           {"[", "(1),", "]", true},
		"text":           {"\"", "x", "\"", true},
	} {
		t.Run(name, func(t *testing.T) {
			expr := tc.begin + strings.Repeat(tc.repeat, size/len(tc.repeat)) + tc.end
			check(t, "x.hcl", "locals {\n  x = "+expr+"\n}\n", tc.fine)
			if !strings.HasPrefix(expr, "\"") {
				expr = "\"${" + expr + "}\""
			}
			quoted, err := json.Marshal(strings.Trim(expr, "\""))
			if err != nil {
				t.Fatal(err)
			}
			check(t, "x.hcl.json", `{"locals": {"x": `+string(quoted)+`}}`, tc.fine)
		})
	}
}

func check(t *testing.T, name, text string, fine bool) {
	t.Helper()
	env := testEnv(nil)
	env.Stat = statFile
	env.ReadFile = func(string) ([]byte, error) { return []byte(text), nil }
	_, diags := config.Load([]string{name}, env)
	if fine && len(diags) > 0 || !fine && (len(diags) != 1 || diags[0].Summary != "Nested too deeply") {
		t.Errorf("%s of %d bytes: got %d diagnostics, the first: %.300s", name, len(text), len(diags), describe(diags[:min(len(diags), 1)]))
	}
}
