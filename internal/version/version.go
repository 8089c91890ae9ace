// Package version says which build of Sluice a program is: the version and commit that the Makefile stamped into it, else what Go
// recorded.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker's -X flag; empty in a build without the Makefile.
var (
	version string
	commit  string
)

// Info describes a build. No field is empty.
type Info struct {
	// Version is "git describe" of the commit, the module version of a "go install", or "devel".
	Version string

	// Commit is the full commit hash, "unknown" if nobody recorded it.
	Commit string

	// Go is the Go release the program was built with, such as "go1.26.8".
	Go string

	// Platform is the operating system and architecture, such as "linux/amd64".
	Platform string
}

// Get returns the description of the running program.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return describe(version, commit, build)
}

// String is one line for people: "v1.2.3 (commit 0123456789ab, go1.26.8, linux/amd64)".
func (i Info) String() string {
	short := i.Commit
	if len(short) > 12 {
		short = short[:12]
	}
	return fmt.Sprintf("%s (commit %s, %s, %s)", i.Version, short, i.Go, i.Platform)
}

// describe puts the stamp before what Go recorded; build may be nil.
func describe(version, commit string, build *debug.BuildInfo) Info {
	info := Info{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build != nil {
		if v := build.Main.Version; v != "(devel)" {
			info.Version = cmp.Or(info.Version, v)
		}
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				info.Commit = cmp.Or(info.Commit, s.Value)
			}
		}
	}
	info.Version = cmp.Or(info.Version, "devel")
	info.Commit = cmp.Or(info.Commit, "unknown")
	return info
}
