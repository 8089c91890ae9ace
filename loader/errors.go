package loader

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluicehq/sluice/internal/abi/invoke"
	"github.com/sluicehq/sluice/pluginapi"
)

// errGone is the error of a call on an instance that is gone.
var errGone = errors.New("the instance is gone")

// errClosed is the error of a start after Close.
var errClosed = errors.New("closed")

// ErrNotFound is in the chain of what [Catalog.Resolve] returns when there is
// no such plugin.
var ErrNotFound = errors.New("no such plugin")

// ErrChecksum is in the chain of an error about a file that is not the pinned
// one. It has not been run.
var ErrChecksum = errors.New("the checksum is not the pinned one")

// CrashError says that a plugin's process ended while it was needed.
type CrashError struct {
	Plugin  string
	Process uint64   // As in [Instance.Process].
	State   string   // How it ended: "exit status 2", "signal: killed".
	Killed  string   // Why the host killed it; empty if it did not.
	Output  []string // A panic's first lines, or the last lines written.
}

// maxCrashLines is how many lines of output stand in the error's text.
const maxCrashLines = 3

// Error says how the process ended and what it wrote last.
func (e *CrashError) Error() string {
	var b strings.Builder
	if e.Killed != "" {
		fmt.Fprintf(&b, "plugin process was killed: %s", e.Killed)
	} else {
		fmt.Fprintf(&b, "plugin process ended: %s", e.State)
	}
	lines := e.Output
	if len(lines) > 0 && !isPanic(lines[0]) {
		lines = lines[max(0, len(lines)-maxCrashLines):]
	}
	for i, line := range lines[:min(len(lines), maxCrashLines)] {
		if i == 0 {
			b.WriteString("; it wrote: ")
		} else {
			b.WriteString(" | ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// Unwrap returns the crash as an error of class Unknown, with the code "crash",
// or "put_timeout" if the host killed the process.
func (e *CrashError) Unwrap() error {
	code := invoke.CodeCrash
	if e.Killed != "" {
		code = invoke.CodeTimeout
	}
	return pluginapi.NewError(pluginapi.Unknown, code, e.Error())
}

// VersionError says that host and plugin speak no version of the contract in
// common.
type VersionError struct {
	Plugin int
	Host   []int
}

// Error names both sides' versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the plugin speaks version %d of the plugin contract, this host speaks %s: update the older of the two",
		e.Plugin, strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Host), " ", ", "), "[]"))
}
