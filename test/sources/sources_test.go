package sources

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAChangedFileElsewhereIsANewTest(t *testing.T) {
	own, err := os.ReadFile("sources.go")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	old := time.Now().Add(-time.Hour) // What is younger than two seconds is never answered from the cache.
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for ; path != filepath.Dir(root); path = filepath.Dir(path) {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("go.mod", "module example.com/m\n\ngo 1.24\n")
	write("program/main.go", "package main\n\nfunc main() {}\n")
	write("sources/sources.go", string(own))
	write("sources/note_test.go", "package sources\n\nimport \"testing\"\n\nfunc TestNote(t *testing.T) {\n\tif err := Note(); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n")
	cached := func() bool {
		cmd := exec.CommandContext(t.Context(), "go", "test", "./sources")
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Contains(string(out), "(cached)")
	}
	if cached() {
		t.Error("the first run was answered from the cache")
	}
	if !cached() {
		t.Error("nothing changed, and the test ran again")
	}
	write("program/main.go", "package main\n\nfunc main() { println() }\n")
	if cached() {
		t.Error("the program changed, and the test was answered from the cache")
	}
}
