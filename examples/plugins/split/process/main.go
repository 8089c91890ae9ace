// Command process is the sink "split" as a process plugin.
package main

import (
	"github.com/sluicehq/sluice/examples/plugins/split"
	"github.com/sluicehq/sluice/pluginapi/serve"
)

func main() { serve.Serve(split.Plugin()) }
