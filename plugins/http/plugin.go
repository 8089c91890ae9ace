// Package http is a sink that sends records to an HTTP service, one request
// per record or one per batch.
//
// The answer's status decides a record's fate, by sets that are settings. What
// says nothing about the record (a refused connection, a timeout, a login that
// is not taken) never costs it: it is tried again.
package http

import (
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/plugins/internal/jsonlines"
)

const documentation = `Sends records to an HTTP service.

"body" says what a request carries: "single" one record's value, "json_array" a
batch as a JSON array, "ndjson" a batch as JSON lines. In "url" and "headers"
placeholders are filled in from the record, escaped as the place asks for; with
a batch body, records with the same URL and headers go together.

The status of the answer decides: accept, retry (with Retry-After), unavailable
(the target refuses us: held, never dead-lettered), reject (dead letter queue).
Codes are written "404", classes "4xx"; a code beats its class. A batch that is
rejected, or is too large (413), is halved until the record at fault is alone.
Redirects are followed for GET only, and never to another host.

Each request carries an Idempotency-Key header with the record's id (a batch's:
the first record's id and the number of records), the same whenever it is sent again.`

// Plugin describes the sink.
func Plugin() pluginapi.Plugin {
	codes := func(name string, def []any, help string) pluginapi.Setting {
		return pluginapi.Setting{Name: name, Type: pluginapi.List, Elem: pluginapi.String, Default: def, Group: "Status codes", Help: help}
	}
	return pluginapi.Plugin{
		Name: "http", Version: "0.1.0", Summary: "Sends records to an HTTP service",
		Documentation: documentation,
		Form:          pluginapi.FormData,
		Settings: []pluginapi.Setting{
			{Name: "url", Type: pluginapi.String, Required: true, Template: true, Help: "Where to send, such as \"https://api.example/orders/{key}\"; fields are escaped."},
			{Name: "method", Type: pluginapi.String, Default: "POST", Allowed: []string{"POST", "PUT", "PATCH", "DELETE", "GET"}, Help: "Method of the requests."},
			{Name: "headers", Type: pluginapi.Map, Elem: pluginapi.String, Secret: true, Template: true, Help: "Headers of the requests."},
			{Name: "body", Type: pluginapi.String, Default: "single", Allowed: []string{"single", "json_array", "ndjson"}, Help: "What a request carries."},
			{
				Name: "include", Type: pluginapi.List, Elem: pluginapi.String, Allowed: jsonlines.Includable(),
				Help: "What a record has beside its value; then it is a JSON object.",
			},
			{Name: "timeout", Type: pluginapi.Duration, Default: 30 * time.Second, Min: pluginapi.LimitDuration(time.Millisecond), Max: pluginapi.LimitDuration(time.Hour), Help: "Time for one request as a whole."},
			{Name: "max_in_flight", Type: pluginapi.Int, Default: int64(8), Min: pluginapi.Limit(1), Max: pluginapi.Limit(256), Help: "Requests at once, with body \"single\". Their order is not kept; 1 keeps it."},
			{Name: "username", Type: pluginapi.String, Group: "Login", Help: "For basic authentication."},
			{Name: "password", Type: pluginapi.String, Secret: true, Group: "Login", Help: "For basic authentication."},
			{Name: "bearer_token", Type: pluginapi.String, Secret: true, Group: "Login", Help: "For bearer authentication."},
			{Name: "ca_file", Type: pluginapi.String, Group: "Login", Help: "Certificate authorities (PEM) in place of the system's."},
			codes("accept_status", []any{"2xx"}, "The record is stored."),
			codes("retry_status", []any{"408", "425", "429", "5xx"}, "Try again later."),
			codes("unavailable_status", []any{"401", "403", "407", "3xx"}, "The target refuses us; try again, never dead-letter."),
			codes("reject_status", []any{"4xx", "501", "505"}, "The record can never be stored."),
		},
		New: func() pluginapi.Sink { return &sink{} },
	}
}
