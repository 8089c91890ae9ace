// Command sluice-sink-smtp is a sink plugin for Sluice that sends each record
// as an e-mail.
package main

import "github.com/sluicehq/sluice/pluginapi/serve"

func main() { serve.Serve(Plugin()) }
