// Command sluice-sink-kafka serves the kafka sink as a process plugin.
package main

import (
	"github.com/sluicehq/sluice/pluginapi/serve"
	"github.com/sluicehq/sluice/plugins/kafka"
)

func main() { serve.Serve(kafka.Plugin()) }
