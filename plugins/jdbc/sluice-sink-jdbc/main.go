// Command sluice-sink-jdbc is the jdbc sink as a plugin process.
package main

import (
	"github.com/sluicehq/sluice/pluginapi/serve"
	"github.com/sluicehq/sluice/plugins/jdbc"
)

func main() { serve.Serve(jdbc.Plugin()) }
