// Command wasm-http is the sink "webhook": a WASM module that sends each record
// as one HTTP request. It is an example to copy from, and small enough to read.
//
// Build it into a directory the worker looks for plugins in:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags='-s -w' -o plugins/webhook.wasm ./examples/plugins/wasm-http
//
// A connector that uses it, and the sandbox that lets it out:
//
//	plugin "webhook" {
//	  sandbox { allow_hosts = ["hooks.example.com:443"] }
//	}
//
//	connector "orders" {
//	  topics = ["orders"]
//	  sink   = "webhook"
//	  config {
//	    url     = "https://hooks.example.com/orders/{key}"
//	    headers = { "Authorization" = secret("HOOK_TOKEN") }
//	    timeout = "10s"
//	  }
//	}
//
// The body is the record's value: bytes as they are, data as JSON, nothing for
// a tombstone. Each request carries the record's id in Idempotency-Key, the same
// when it is sent again, so that the target can tell a duplicate.
//
// A module waits for each request before the next. More at a time are more
// sinks: "parallelism" and "tasks" of the connector.
package main

import (
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/guest"
)

// A WASM module has no main loop: the host calls its functions, which Serve
// connects to the plugin. This runs when the module is loaded.
func init() { guest.Serve(plugin()) }

// main is never run. Go wants it to be there.
func main() {}

func plugin() pluginapi.Plugin {
	return pluginapi.Plugin{
		Name:    "webhook",
		Version: "0.1.0",
		Summary: "Sends each record as an HTTP request.",
		Documentation: "Sends each record's value to a URL made from the record. " +
			"2xx accepts; 408, 425, 429 and 5xx but 501 and 505 are tried again; 401, 403 and 407 wait until the target " +
			"takes our credentials; any other answer rejects the record.",
		Settings: []pluginapi.Setting{
			{
				Name: "url", Type: pluginapi.String, Required: true, Template: true,
				Help: "Where to send a record. Scheme, host and port are fixed; the rest may have placeholders, whose text is percent-encoded.",
			},
			{
				Name: "method", Type: pluginapi.String, Default: "POST", Allowed: []string{"POST", "PUT", "PATCH", "DELETE"},
				Help: "The request's method.",
			},
			{
				Name: "headers", Type: pluginapi.Map, Elem: pluginapi.String, Secret: true, Template: true,
				Help: "Headers of the request; values may have placeholders.",
			},
			{
				Name: "timeout", Type: pluginapi.Duration, Default: 30 * time.Second,
				Min: pluginapi.LimitDuration(time.Millisecond), Max: pluginapi.LimitDuration(10 * time.Minute),
				Help: "How long one request may take.",
			},
		},
		Form: pluginapi.FormData,
		New:  func() pluginapi.Sink { return &sink{do: guest.Do} },
	}
}
