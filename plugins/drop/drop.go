// Package drop is a sink that counts records and forgets them: for benchmarks,
// and for trying converters and transforms out.
package drop

import (
	"context"
	"log/slog"

	"github.com/sluicehq/sluice/pluginapi"
)

// Plugin describes the sink.
func Plugin() pluginapi.Plugin {
	return pluginapi.Plugin{
		Name: "drop", Version: "0.1.0", Summary: "Counts records and forgets them",
		Documentation: "Accepts every record and stores none. For benchmarks, and for trying converters out.",
		Form:          pluginapi.FormData,
		New:           func() pluginapi.Sink { return &sink{} },
	}
}

var _ pluginapi.Sink = (*sink)(nil)

type sink struct {
	log     *slog.Logger
	records int64
	results []pluginapi.Result
}

func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	s.log = cfg.Logger
	return nil
}

func (s *sink) Put(_ context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	s.records += int64(len(batch))
	for len(s.results) < len(batch) { // The same answer each time: made once.
		s.results = append(s.results, pluginapi.Result{Outcome: pluginapi.Accept})
	}
	return s.results[:len(batch):len(batch)], nil
}

func (s *sink) Stop(context.Context) error {
	if s.log != nil {
		s.log.Info("records dropped", "records", s.records)
	}
	return nil
}
