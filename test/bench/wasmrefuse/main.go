// Command wasmrefuse is the refuse sink as a WASM module, for the benchmarks.
package main

import (
	"github.com/sluicehq/sluice/pluginapi/guest"
	"github.com/sluicehq/sluice/test/bench/refuse"
)

func init() { guest.Serve(refuse.Plugin()) }

// main is never run: the host calls the module's exports.
func main() {}
