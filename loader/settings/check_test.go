package settings

import (
	"encoding/json"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

var described = []pluginapi.Setting{
	{Name: "url", Type: pluginapi.String, Required: true, Template: true},
	{Name: "mode", Type: pluginapi.String, Default: "insert", Allowed: []string{"insert", "upsert"}},
	{Name: "token", Type: pluginapi.String, Secret: true, Allowed: []string{"aaa", "bbb"}},
	{Name: "gzip", Type: pluginapi.Bool},
	{Name: "retries", Type: pluginapi.Int, Min: pluginapi.Limit(0), Max: pluginapi.Limit(10)},
	{Name: "pin", Type: pluginapi.Int, Secret: true, Max: pluginapi.Limit(10)},
	{Name: "ratio", Type: pluginapi.Float, Min: pluginapi.Limit(0.5)},
	{Name: "timeout", Type: pluginapi.Duration, Default: 30 * time.Second, Max: pluginapi.LimitDuration(time.Minute)},
	{Name: "skew", Type: pluginapi.Duration, Min: pluginapi.LimitDuration(-time.Minute)},
	{Name: "part", Type: pluginapi.Bytes, Min: pluginapi.Limit(5 << 20)},
	{Name: "fields", Type: pluginapi.List, Allowed: []string{"key", "value", "offset"}},
	{Name: "ports", Type: pluginapi.List, Elem: pluginapi.Int, Max: pluginapi.Limit(65535)},
	{Name: "headers", Type: pluginapi.Map},
	{Name: "targets", Type: pluginapi.List, Elem: pluginapi.Object, Fields: []pluginapi.Setting{
		{Name: "host", Type: pluginapi.String, Required: true},
		{Name: "weight", Type: pluginapi.Int, Default: int64(1)},
	}},
	{Name: "pk", Type: pluginapi.Object, Fields: []pluginapi.Setting{
		{Name: "source", Type: pluginapi.String, Required: true, Allowed: []string{"key", "value"}},
		{Name: "fields", Type: pluginapi.List},
	}},
	{Name: "old", Type: pluginapi.String, Deprecated: "use url"},
}

func TestCheckValues(t *testing.T) {
	got, problems := CheckValues(described, map[string]any{
		"url": "http://{topic}", "gzip": true, "retries": 3.0, "ratio": 2, "timeout": "250ms", "skew": "-5s",
		"part": "8MiB", "fields": []any{"key"}, "ports": []any{json.Number("80"), big.NewFloat(443)},
		"headers": map[string]any{"a": "b"}, "mode": nil,
		"targets": []any{map[string]any{"host": "a"}, map[string]any{"host": "b", "weight": 2}},
		"pk":      map[string]any{"source": "key", "fields": []string{"id"}},
	})
	if len(problems) != 0 {
		t.Fatalf("problems %v", problems)
	}
	want := map[string]any{
		"url": "http://{topic}", "mode": "insert", "gzip": true, "retries": int64(3), "ratio": 2.0,
		"timeout": 250 * time.Millisecond, "skew": -5 * time.Second, "part": int64(8 << 20),
		"fields": []any{"key"}, "ports": []any{int64(80), int64(443)}, "headers": map[string]any{"a": "b"},
		"targets": []any{map[string]any{"host": "a", "weight": int64(1)}, map[string]any{"host": "b", "weight": int64(2)}},
		"pk":      map[string]any{"source": "key", "fields": []any{"id"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestCheckValuesProblems(t *testing.T) {
	tests := []struct {
		name   string
		values map[string]any
		want   []string // "path message", url being there
	}{
		{"nothing", map[string]any{"url": nil}, []string{"url is required"}},
		{"unknown name", map[string]any{"moed": "x"}, []string{`moed is not a setting here; did you mean "mode"?`}},
		{"unknown name far away", map[string]any{"zzz": "x"}, []string{"zzz is not a setting here"}},
		{"wrong types", map[string]any{"gzip": "yes", "retries": "3", "ratio": true, "mode": 1, "pk": "id", "headers": []any{}, "fields": "key"}, []string{
			"mode is a number, want a string", "gzip is a string, want a bool", "retries is a string, want an int",
			"ratio is a bool, want a float", "fields is a string, want a list", "headers is a list, want a map", "pk is a string, want an object",
		}},
		{"a fraction for an int", map[string]any{"retries": 2.5}, []string{"retries is a fraction, want an int"}},
		{"an int too large", map[string]any{"pin": 1e30}, []string{"pin is a number, want an int"}},
		{"no number", map[string]any{"ratio": math.NaN()}, []string{"ratio is of Go type float64, want a float"}},
		{"ranges", map[string]any{"retries": 11, "ratio": 0.25, "timeout": "2m", "skew": "-2m", "part": "1MiB", "ports": []any{80, 70000}}, []string{
			"retries is 11, the most is 10", "ratio is 0.25, the least is 0.5", "timeout is 2m0s, the most is 1m0s",
			"skew is -2m0s, the least is -1m0s", "part is 1MiB, the least is 5MiB", "ports.1 is 70000, the most is 65535",
		}},
		{"negative", map[string]any{"timeout": "-1s"}, []string{"timeout is negative"}},
		{"bare numbers", map[string]any{"timeout": 30, "part": 8}, []string{
			`timeout is a number, want a duration in quotes with its unit, like "30s"`, `part is a number, want a size in quotes with its unit, like "8MiB"`,
		}},
		{"no units", map[string]any{"timeout": "30", "part": "8"}, []string{
			`timeout is not a duration: write it like "250ms", "30s" or "5m"`, `part is not a size: write it like "512KiB", "8MiB" or "1GB"`,
		}},
		{"allowed", map[string]any{"mode": "upset", "fields": []any{"key", "offest"}}, []string{
			`mode is "upset", want one of "insert", "upsert"; did you mean "upsert"?`,
			`fields.1 is "offest", want one of "key", "value", "offset"; did you mean "offset"?`,
		}},
		{"nested", map[string]any{"pk": map[string]any{"sourc": "key"}, "targets": []any{map[string]any{"host": "a"}, map[string]any{"weight": "b"}, nil}}, []string{
			"targets.1.host is required", "targets.1.weight is a string, want an int", "targets.2 is null, want a value",
			`pk.sourc is not a setting here; did you mean "source"?`, "pk.source is required",
		}},
		{"template", map[string]any{"url": "http://{topic"}, []string{"url is not a template"}},
		{"deprecated", map[string]any{"old": "x"}, []string{"old is deprecated: use url"}},
		{"secrets are not shown", map[string]any{"token": "ccc-canary", "pin": 12345}, []string{
			`token is not one of "aaa", "bbb"`, "pin is (secret), the most is 10",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, ok := tt.values["url"]; !ok {
				tt.values["url"] = "http://x"
			}
			_, problems := CheckValues(described, tt.values)
			if len(problems) != len(tt.want) {
				t.Fatalf("problems %v, want %d", problems, len(tt.want))
			}
			for i, p := range problems {
				if !strings.HasPrefix(p.String(), tt.want[i]) {
					t.Errorf("problem %q, want %q", p, tt.want[i])
				}
				if p.Warning != (tt.name == "deprecated") {
					t.Errorf("problem %q: warning %v", p, p.Warning)
				}
			}
		})
	}
}

func TestParseBytes(t *testing.T) {
	tests := map[string]int64{
		"0": 0, "0B": 0, "17B": 17, "1KB": 1000, "1KiB": 1024, "1.5MiB": 3 << 19, "64 MiB": 64 << 20, "2GB": 2e9, "-1KiB": -1024, "1TiB": 1 << 40,
	}
	for text, want := range tests {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "8", "MiB", "8mib", "8Mi", "x8MiB", "1e9B", "99999999TiB", "1/2MiB", "--1B", strings.Repeat("9", 100) + "B"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", text, got)
		}
	}
	for n, want := range map[int64]string{0: "0B", 1: "1B", 1024: "1KiB", 8 << 20: "8MiB", 1000: "1KB", 1500: "1500B", 3 << 30: "3GiB"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %q, want %q", n, got, want)
		}
		if back, err := ParseBytes(want); err != nil || back != n {
			t.Errorf("ParseBytes(%q) = %d, %v, want %d", want, back, err, n)
		}
	}
}

func TestSuggest(t *testing.T) {
	candidates := []string{"table", "timeout", "mode", "pk"}
	tests := map[string]string{
		"tabel": "table", "tables": "table", "timeuot": "timeout", "mod": "mode", "pc": "pk", "xyz": "", "": "", "k": "pk", "bucket": "",
		strings.Repeat("x", 1000): "",
	}
	for name, want := range tests {
		if got := Suggest(name, candidates); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestSecrets(t *testing.T) {
	s := []pluginapi.Setting{
		{Name: "password", Type: pluginapi.String, Secret: true},
		{Name: "user", Type: pluginapi.String},
		{Name: "headers", Type: pluginapi.Map, Secret: true},
		{Name: "auth", Type: pluginapi.Object, Fields: []pluginapi.Setting{{Name: "key", Type: pluginapi.String, Secret: true}, {Name: "id", Type: pluginapi.String}}},
		{Name: "all", Type: pluginapi.List, Elem: pluginapi.Object, Fields: []pluginapi.Setting{{Name: "key", Type: pluginapi.String, Secret: true}}},
		{Name: "named", Type: pluginapi.Map, Elem: pluginapi.Object, Fields: []pluginapi.Setting{{Name: "key", Type: pluginapi.String, Secret: true}}},
	}
	got := Secrets(s, map[string]any{
		"password": "p", "user": "u", "headers": map[string]any{"a": "hh"}, "auth": map[string]any{"key": "kkk", "id": "i"},
		"all": []any{map[string]any{"key": "llll"}}, "named": map[string]any{"key": map[string]any{"key": "mmmmm"}},
	})
	if want := []string{"mmmmm", "llll", "kkk", "hh", "p"}; !reflect.DeepEqual(got, want) {
		t.Errorf("secrets %v, want %v", got, want)
	}
}
