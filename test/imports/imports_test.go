package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/test/sources"
)

const module = "github.com/sluicehq/sluice"

// contract are the packages a WASM guest links. They need the standard library, each other and what lies in internal/abi, nothing else.
var contract = []string{"pluginapi", "pluginapi/data", "pluginapi/template", "pluginapi/guest", "internal/abi"}

// owners says which folders alone may import a library directly, and why.
var owners = []struct {
	library string
	folders []string
	why     string
}{
	{"github.com/tetratelabs/wazero", []string{"loader"}, "the WASM engine can be replaced in one place"},
	{"github.com/hashicorp/go-plugin", []string{"loader", "pluginapi/serve"}, "only the two ends of a plugin process know how it starts"},
	{"github.com/hashicorp/hcl", []string{"host"}, "only host reads definitions"},
	{"github.com/zclconf/go-cty", []string{"host"}, "only host reads definitions"},
	{"github.com/twmb/franz-go", []string{"internal/kafka", "sharetask/sharegroup", "sharetask/consumergroup", "sharetask/deadletter", "sharetask/parking", "sharetask/emit", "sharetask/exactlyonce", "host/devbroker", "test"}, "Kafka clients stay at the edges"},
	{"github.com/IBM/sarama", []string{"internal/kafka", "sharetask/sharegroup", "sharetask/consumergroup", "sharetask/deadletter", "host/devbroker", "test"}, "Kafka clients stay at the edges"},
}

// never lists what a folder must not depend on, however indirectly.
var never = []struct{ folder, on, why string }{
	{"loader", "sharetask", "loader starts sinks, sharetask uses them, host wires them"},
	{"loader", "host", "host wires loader"},
	{"sharetask", "loader", "sharetask states the sink it needs"},
	{"sharetask", "host", "host wires sharetask"},
	{"internal", "host", "host is on top"},
	{"convert", "host", "host is on top"},
	{"pluginapi", "host", "a plugin links only the contract"},
	{"pluginapi", "loader", "a plugin links only the contract"},
	{"pluginapi", "sharetask", "a plugin links only the contract"},
	{"test/plugintest", "host", "it starts a sink through loader alone"},
	{"test/plugintest", "plugins", "it is given the plugin it tests"},
}

// pkg is what "go list" says of a package.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// list returns the packages of the patterns with all they depend on, by import path.
func list(t *testing.T, goos, goarch string, patterns ...string) map[string]pkg {
	t.Helper()
	if err := sources.Note(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-deps", "-json=ImportPath,Standard,Imports,Deps"}, patterns...)...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, &stderr)
	}
	packages := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
	return packages
}

// in reports whether the import path is the folder of this module, or lies below it.
func in(path, folder string) bool {
	rest, ok := strings.CutPrefix(path, module+"/"+folder)
	return ok && (rest == "" || rest[0] == '/')
}

func TestContractIsStandardLibraryOnly(t *testing.T) {
	var patterns []string
	for _, c := range contract {
		patterns = append(patterns, "./"+c)
	}
	for _, target := range [][2]string{{"", ""}, {"wasip1", "wasm"}} {
		packages := list(t, target[0], target[1], patterns...)
		for _, c := range contract {
			p := packages[module+"/"+c]
			for _, d := range p.Deps {
				if dep, known := packages[d]; known && !dep.Standard && !in(d, "pluginapi") && !in(d, "internal/abi") {
					t.Errorf("%s depends on %s (GOOS=%q): a WASM guest links it, so it may use the standard library only", c, d, target[0])
				}
			}
		}
	}
}

func TestLibrariesHaveOwners(t *testing.T) {
	packages := list(t, "", "", "./...")
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		if !strings.HasPrefix(path, module) {
			continue
		}
		for _, o := range owners {
			allowed := slices.ContainsFunc(o.folders, func(f string) bool { return in(path, f) })
			uses := slices.ContainsFunc(packages[path].Imports, func(i string) bool {
				return i == o.library || strings.HasPrefix(i, o.library+"/")
			})
			if uses && !allowed {
				t.Errorf("%s imports %s: %s", path, o.library, o.why)
			}
		}
	}
}

func TestDirection(t *testing.T) {
	packages := list(t, "", "", "./...")
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		for _, n := range never {
			if !in(path, n.folder) {
				continue
			}
			for _, d := range packages[path].Deps {
				if in(d, n.on) {
					t.Errorf("%s depends on %s: %s", path, d, n.why)
				}
			}
		}
	}
}

// A sink of ours is built as a third party's is: from pluginapi and what lies below it.
func TestPluginsUseTheContractOnly(t *testing.T) {
	packages := list(t, "", "", "./...")
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		if !in(path, "plugins") {
			continue
		}
		for _, i := range packages[path].Imports {
			if strings.HasPrefix(i, module) && !in(i, "pluginapi") && !in(i, "plugins") {
				t.Errorf("%s imports %s: a plugin uses pluginapi alone", path, i)
			}
		}
	}
}

func TestIn(t *testing.T) {
	tests := []struct {
		path, folder string
		want         bool
	}{
		{module + "/host", "host", true},
		{module + "/host/config", "host", true},
		{module + "/hostile", "host", false},
		{"github.com/other/host", "host", false},
	}
	for _, tt := range tests {
		if got := in(tt.path, tt.folder); got != tt.want {
			t.Errorf("in(%q, %q) = %v, want %v", tt.path, tt.folder, got, tt.want)
		}
	}
}
