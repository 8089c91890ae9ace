package main

import (
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/plugins/drop"
	"github.com/sluicehq/sluice/plugins/file"
	"github.com/sluicehq/sluice/plugins/http"
	"github.com/sluicehq/sluice/plugins/jdbc"
	"github.com/sluicehq/sluice/plugins/kafka"
	"github.com/sluicehq/sluice/plugins/s3"
)

// builtins is the list of what is compiled in.
func builtins() []pluginapi.Plugin {
	return []pluginapi.Plugin{drop.Plugin(), file.Plugin(), http.Plugin(), jdbc.Plugin(), kafka.Plugin(), s3.Plugin()}
}
