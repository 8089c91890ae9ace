// Command guest is the WASM module of the loader's tests: it answers as its
// records say, as the process fixture does.
package main

import (
	"context"
	"strings"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/guest"
)

func init() {
	guest.Serve(pluginapi.Plugin{
		Name: "good", Version: "1.0.0", Form: pluginapi.FormBytes,
		New: func() pluginapi.Sink { return &sink{} },
	})
}

func main() {}

type sink struct{}

func (*sink) Start(context.Context, pluginapi.Config) error { return nil }
func (*sink) Stop(context.Context) error                    { return nil }

func (*sink) Put(_ context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results := pluginapi.Accepted(len(batch))
	for i := range batch {
		value, _ := batch[i].Value.Bytes()
		switch string(value) {
		case "panic":
			panic("record")
		case "fewer":
			return results[1:], nil
		case "more":
			return append(results, results...), nil
		case "zero":
			results[i] = pluginapi.Result{}
		case "outcome":
			results[i].Outcome = 77
		case "reject":
			results[i] = pluginapi.Rejected("22001", "too long")
		case "error":
			return results[:i], pluginapi.NewError(pluginapi.Unavailable, "gone", "lost it")
		case "bigerror":
			return nil, pluginapi.NewError(pluginapi.Transient, "big", strings.Repeat("e", 1<<20))
		}
	}
	return results, nil
}
