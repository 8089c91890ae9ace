// Command reporter is a module whose sink reports results as they come, and
// dies at a record that says so.
package main

import (
	"context"
	"os"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/guest"
)

func init() {
	guest.Serve(pluginapi.Plugin{Name: "reporter", Version: "1.0.0", New: func() pluginapi.Sink { return sink{} }})
}

func main() {}

type sink struct{}

func (sink) Start(context.Context, pluginapi.Config) error { return nil }

func (sink) Stop(context.Context) error { return nil }

func (sink) Put(context.Context, []pluginapi.Record) ([]pluginapi.Result, error) {
	panic("PutReport is there")
}

func (sink) PutReport(_ context.Context, batch []pluginapi.Record, report func(int, []pluginapi.Result)) error {
	for i := range batch {
		switch value, _ := batch[i].Value.Bytes(); string(value) {
		case "die":
			os.Exit(7)
		case "skip":
			continue
		}
		report(i, []pluginapi.Result{{Outcome: pluginapi.Accept}})
	}
	return nil
}
