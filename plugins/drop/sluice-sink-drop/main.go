// Command sluice-sink-drop serves the drop sink as a process plugin.
package main

import (
	"github.com/sluicehq/sluice/pluginapi/serve"
	"github.com/sluicehq/sluice/plugins/drop"
)

func main() { serve.Serve(drop.Plugin()) }
