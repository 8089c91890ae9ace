// Command wasmdrop is the drop sink as a WASM module, for the benchmarks.
package main

import (
	"github.com/sluicehq/sluice/pluginapi/guest"
	"github.com/sluicehq/sluice/plugins/drop"
)

func init() { guest.Serve(drop.Plugin()) }

// main is never run: the host calls the module's exports.
func main() {}
