// Command sluice-sink-s3 is the s3 sink as a plugin process.
package main

import (
	"github.com/sluicehq/sluice/pluginapi/serve"
	"github.com/sluicehq/sluice/plugins/s3"
)

func main() { serve.Serve(s3.Plugin()) }
