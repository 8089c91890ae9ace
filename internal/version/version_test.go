package version

import (
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	recorded := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.3.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "fedcba9876543210"}},
	}
	tests := []struct {
		name                    string
		version, commit         string
		build                   *debug.BuildInfo
		wantVersion, wantCommit string
	}{
		{"stamped", "v0.4.0-3-gabc", "0123456789abcdef", recorded, "v0.4.0-3-gabc", "0123456789abcdef"},
		{"go install", "", "", recorded, "v0.3.0", "fedcba9876543210"},
		{"go build", "", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel", "unknown"},
		{"nothing recorded", "", "", nil, "devel", "unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := describe(tt.version, tt.commit, tt.build)
			if got.Version != tt.wantVersion || got.Commit != tt.wantCommit {
				t.Errorf("version %q, commit %q, want %q, %q", got.Version, got.Commit, tt.wantVersion, tt.wantCommit)
			}
		})
	}
}

func TestString(t *testing.T) {
	i := Info{Version: "v1.2.3", Commit: "0123456789abcdef0123", Go: "go1.26.8", Platform: "linux/amd64"}
	if got, want := i.String(), "v1.2.3 (commit 0123456789ab, go1.26.8, linux/amd64)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Get(); got.Version == "" || got.Commit == "" || got.Go == "" || got.Platform == "" {
		t.Errorf("an empty field: %+v", got)
	}
}
