// Package file is a sink that appends records to files, one JSON line each.
//
// A record is accepted once its line is on the disk (fsync). A crash in the
// middle of a write leaves a line without its end, which the next write to the
// file cuts off: those records were not accepted, and come again. Several
// sinks, in one process or several, may write to one file: each write holds an
// advisory lock.
package file

import (
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/plugins/internal/jsonlines"
)

const documentation = `Appends each record to a file as a JSON line.

Without "include" a line is the record's value; with it, an object of what is
included and "value". Bytes that are JSON are kept as they are.

"path" may hold placeholders, so that records go to files by topic, date or
field. A placeholder is one name in the path: a record whose field holds a
slash, or is "." or "..", is rejected. Missing directories are made.

A record is accepted when its line is on the disk. A line that a crash cut off
is removed before the next write to the file.`

// Plugin describes the sink.
func Plugin() pluginapi.Plugin {
	return pluginapi.Plugin{
		Name: "file", Version: "0.1.0", Summary: "Appends records to files as JSON lines",
		Documentation: documentation,
		Form:          pluginapi.FormData,
		Settings: []pluginapi.Setting{
			{Name: "path", Type: pluginapi.String, Required: true, Template: true, Help: "File to append to, such as \"orders-{timestamp:2006-01-02}.jsonl\"."},
			{Name: "format", Type: pluginapi.String, Default: "json_lines", Allowed: []string{"json_lines"}, Help: "How a record is written."},
			{
				Name: "include", Type: pluginapi.List, Elem: pluginapi.String, Allowed: jsonlines.Includable(),
				Help: "What a line has beside the value; then it is an object.",
			},
		},
		New: func() pluginapi.Sink { return &sink{} },
	}
}
