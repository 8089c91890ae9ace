package file_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/pluginapi/sinktest"
	"github.com/sluicehq/sluice/plugins/file"
	"github.com/sluicehq/sluice/test/plugintest"
)

// storedIDs reads the ids of the kit's records from every file below dir.
func storedIDs(t testing.TB, dir string) []string {
	t.Helper()
	var ids []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			var v struct {
				ID    string
				Value *struct{ ID string }
			}
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Errorf("%s: %.60q: %v", path, line, err)
			}
			if v.Value != nil {
				v.ID = v.Value.ID
			}
			if v.ID != "" {
				ids = append(ids, v.ID)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return ids
}

// TestConformance runs the kit. The target fails by its folder going away: a
// link that leads nowhere stands in its place.
func TestConformance(t *testing.T) {
	direct, process := plugintest.Direct(file.Plugin()), plugintest.Process(t, file.Plugin())
	for _, tc := range []struct {
		name    string
		newSink plugintest.Maker
		values  map[string]any
		data    bool
	}{
		{"direct, one file", direct, map[string]any{"path": "out.jsonl"}, false},
		{"process, one file", process, map[string]any{"path": "out.jsonl"}, false},
		{"direct, many files", direct, map[string]any{"path": "{topic}/{key}.jsonl", "include": []any{"key", "headers", "timestamp"}}, false},
		{"direct, data by date", direct, map[string]any{"path": "{timestamp:2006-01-02}/{value.id}"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sinktest.Run(t, func(t testing.TB) sinktest.Target {
				dir := filepath.Join(t.TempDir(), "out")
				away := dir + ".away"
				with := func(dir string) func(testing.TB) sinktest.Sink {
					return func(t testing.TB) sinktest.Sink {
						all := map[string]any{}
						maps.Copy(all, tc.values)
						all["path"] = filepath.Join(dir, tc.values["path"].(string))
						return tc.newSink(t, all)
					}
				}
				return sinktest.Target{
					New:    with(dir),
					Data:   tc.data,
					Stored: func(t testing.TB) []string { return storedIDs(t, dir) },
					FailAfter: func(t testing.TB, _ int) {
						if err := os.MkdirAll(dir, 0o755); err != nil {
							t.Fatal(err)
						}
						if err := os.Rename(dir, away); err != nil {
							t.Fatal(err)
						}
						if err := os.Symlink(dir+".nowhere", dir); err != nil {
							t.Fatal(err)
						}
					},
					Repair: func(t testing.TB) {
						if err := os.Remove(dir); err != nil {
							t.Fatal(err)
						}
						if err := os.Rename(away, dir); err != nil {
							t.Fatal(err)
						}
					},
					Unreachable: func(t testing.TB) sinktest.Sink {
						link := filepath.Join(t.TempDir(), "link")
						if err := os.Symlink(link+".nowhere", link); err != nil {
							t.Fatal(err)
						}
						return with(link)(t)
					},
					Misconfigured: func(t testing.TB) sinktest.Sink {
						return tc.newSink(t, map[string]any{"path": ""})
					},
				}
			})
		})
	}
}
