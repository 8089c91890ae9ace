// Package split is an example of a sink that emits: it makes one record of each
// element of a list, and writes nothing itself. The host produces what it emits,
// at least once or exactly once.
//
// It is built in two forms from the same code: ./process and ./wasm.
//
//	go build -o plugins/sluice-sink-split ./examples/plugins/split/process
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags='-s -w' -o plugins/split.wasm ./examples/plugins/split/wasm
//
// A connector that uses it:
//
//	connector "order-lines" {
//	  topics = ["orders"]
//	  sink   = "split"
//	  value { converter = "json" }
//	  config {
//	    topic = "order-lines"
//	    field = "lines"
//	  }
//	}
package split

import (
	"context"
	"strconv"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// Plugin describes the sink.
func Plugin() pluginapi.Plugin {
	return pluginapi.Plugin{
		Name: "split", Version: "0.1.0", Summary: "Makes one record of each element of a list",
		Documentation: "Takes the list in one field of a record's value and emits a record for each element, with the key KEY/0, KEY/1 and " +
			"so on. A record whose field is no list is emitted as it is, one without the field is filtered out.",
		Settings: []pluginapi.Setting{
			{Name: "topic", Type: pluginapi.String, Required: true, Help: "Where the elements go. It must exist."},
			{Name: "field", Type: pluginapi.String, Required: true, Help: "The field with the list."},
		},
		New: func() pluginapi.Sink { return &sink{} },
	}
}

type sink struct{ topic, field string }

// Emits says that results carry records for the host to produce.
func (*sink) Emits() {}

// Start keeps the settings.
func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	s.topic, s.field = cfg.String("topic"), cfg.String("field")
	return nil
}

// Put says what each record becomes.
func (s *sink) Put(_ context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results := make([]pluginapi.Result, len(batch))
	for i := range batch {
		results[i] = s.split(&batch[i])
	}
	return results, nil
}

func (s *sink) split(rec *pluginapi.Record) pluginapi.Result {
	if rec.Value.IsAbsent() {
		return pluginapi.Result{Outcome: pluginapi.Accept} // A tombstone has no list.
	}
	typed, ok := rec.Value.Data()
	if !ok {
		return pluginapi.Rejected("bytes", `the value is bytes; set a converter that reads it, such as "json"`)
	}
	switch list := typed.Value.Get(s.field); list.Kind() {
	case data.KindArray:
		result := pluginapi.Result{Outcome: pluginapi.Accept}
		key := rec.Key.AppendText(nil)
		for i, elem := range list.Elems() {
			result.Emitted = append(result.Emitted, pluginapi.Emitted{
				Topic: s.topic, Headers: rec.Headers,
				Key:   pluginapi.BytesDatum(strconv.AppendInt(append(key[:len(key):len(key)], '/'), int64(i), 10)),
				Value: pluginapi.DataDatum(&data.Typed{Value: elem}),
			})
		}
		return result
	case data.KindMissing:
		return pluginapi.Result{Outcome: pluginapi.Accept}
	default:
		return pluginapi.Result{Outcome: pluginapi.Accept, Emitted: []pluginapi.Emitted{
			{Topic: s.topic, Key: rec.Key, Value: rec.Value, Headers: rec.Headers},
		}}
	}
}

// Stop releases nothing.
func (*sink) Stop(context.Context) error { return nil }
