// Package kafka is a sink that copies records to other topics of the cluster they
// come from. It writes nothing itself: it says what each record becomes, and the
// host produces that, at least once or exactly once.
package kafka

import "github.com/sluicehq/sluice/pluginapi"

const documentation = `Copies records to topics of the cluster the connector reads from. The host produces them: with
delivery_semantics = "at-least-once" a record is accepted when every in-sync replica has its copy, with
"exactly-once" it is copied exactly once, for readers of committed records.

"topic" has placeholders that are filled in from the record: "archive.{topic}", "orders-{header.region}". The
topic must exist. A record whose copy would go to the topic it was read from is rejected: it would come back for
ever.

Keys, values and headers are copied as they are, null included. With a converter they are read, so that "topic"
may name fields, and written again by the same converter.

"partition" says where in the topic: "key" by the hash of the key, as Kafka's producers do, "source" the partition
the record has, which keeps its order with others of that partition where the connector's puts keep it.`

// The values of the setting partition, and of tombstones.
const (
	byKey    = "key"
	bySource = "source"

	forward = "forward"
	filter  = "drop"
)

// Plugin describes the sink.
func Plugin() pluginapi.Plugin {
	return pluginapi.Plugin{
		Name: "kafka", Version: "0.1.0", Summary: "Copies records to other topics of the same cluster",
		Documentation: documentation,
		Form:          pluginapi.FormData,
		Settings: []pluginapi.Setting{
			{Name: "topic", Type: pluginapi.String, Required: true, Template: true, Help: "Where to, such as \"archive.{topic}\"."},
			{Name: "partition", Type: pluginapi.String, Default: byKey, Allowed: []string{byKey, bySource}, Help: "Which partition: by the key's hash, or the one the record has."},
			{Name: "headers", Type: pluginapi.Bool, Default: true, Help: "Whether headers are copied."},
			{Name: "timestamp", Type: pluginapi.Bool, Default: true, Help: "Whether the timestamp is copied; else it is the time of writing."},
			{Name: "tombstones", Type: pluginapi.String, Default: forward, Allowed: []string{forward, filter}, Help: "What to do with records without a value."},
		},
		New: func() pluginapi.Sink { return &sink{} },
	}
}
