// Command sluice-sink-http serves the http sink as a process plugin.
package main

import (
	"github.com/sluicehq/sluice/pluginapi/serve"
	"github.com/sluicehq/sluice/plugins/http"
)

func main() { serve.Serve(http.Plugin()) }
