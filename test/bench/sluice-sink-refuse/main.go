// Command sluice-sink-refuse serves the refuse sink as a process plugin, for the benchmarks.
package main

import (
	"github.com/sluicehq/sluice/pluginapi/serve"
	"github.com/sluicehq/sluice/test/bench/refuse"
)

func main() { serve.Serve(refuse.Plugin()) }
