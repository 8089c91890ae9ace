// Command wasm is the sink "split" as a WASM module.
package main

import (
	"github.com/sluicehq/sluice/examples/plugins/split"
	"github.com/sluicehq/sluice/pluginapi/guest"
)

func init() { guest.Serve(split.Plugin()) }

// main is never run. Go wants it to be there.
func main() {}
