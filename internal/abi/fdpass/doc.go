// Package fdpass gives a plugin process connections to its host after it was
// started: each is one end of a Unix socket pair, passed over a socket that the
// process has inherited.
//
// Only Linux has it here; elsewhere [New] and [Open] return [ErrUnsupported] and
// put streams go through gRPC.
package fdpass

import "errors"

// ErrUnsupported says that connections are not passed on this system.
var ErrUnsupported = errors.New("passing connections to plugins needs Linux")
