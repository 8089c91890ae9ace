// Command sluice-sink-file serves the file sink as a process plugin.
package main

import (
	"github.com/sluicehq/sluice/pluginapi/serve"
	"github.com/sluicehq/sluice/plugins/file"
)

func main() { serve.Serve(file.Plugin()) }
