package main

import (
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// Plugin describes the sink. The host checks a connector's settings against
// this before the sink sees them.
func Plugin() pluginapi.Plugin {
	return pluginapi.Plugin{
		Name:          "smtp",
		Version:       "0.1.0",
		Summary:       "sends each record as an e-mail",
		Documentation: "https://example.com/sluice-sink-smtp",
		Settings: []pluginapi.Setting{
			{
				Name: "address", Type: pluginapi.String, Required: true, Group: "Server",
				Help: `The mail server, "mail.example:587".`,
			},
			{
				Name: "tls", Type: pluginapi.String, Default: tlsStart, Allowed: []string{tlsStart, tlsNone}, Group: "Server",
				Help: "starttls refuses a server without TLS; none sends in the clear.",
			},
			{Name: "username", Type: pluginapi.String, Group: "Server", Help: "Empty means no authentication."},
			{Name: "password", Type: pluginapi.String, Secret: true, Group: "Server"},
			{
				Name: "timeout", Type: pluginapi.Duration, Default: 10 * time.Second, Min: pluginapi.LimitDuration(time.Second), Group: "Server",
				Help: "How long one step of the conversation may take.",
			},
			{Name: "from", Type: pluginapi.String, Required: true, Group: "Message", Help: "The sender's address."},
			{
				Name: "to", Type: pluginapi.String, Required: true, Template: true, Group: "Message",
				Help: "The recipients, separated by commas; a record template.",
			},
			{
				Name: "subject", Type: pluginapi.String, Default: "{topic} {partition}/{offset}", Template: true, Group: "Message",
				Help: "A record template.",
			},
		},
		Form: pluginapi.FormData,
		// Mail servers are slow and count messages: small batches keep a
		// retry small.
		MaxBatch: 50,
		New:      func() pluginapi.Sink { return new(sink) },
	}
}
