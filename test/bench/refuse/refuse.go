// Package refuse is the drop sink with single records that it refuses for good, for the benchmarks. It comes as a process and as a
// WASM module.
package refuse

import (
	"context"
	"slices"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/plugins/drop"
)

// Plugin describes the sink. Its setting refuse_every says of how many offsets of a partition one is refused; 0, the default, means none.
func Plugin() pluginapi.Plugin {
	inner := drop.Plugin()
	p := inner
	p.Name, p.Summary = "refuse", "Counts records, and refuses some"
	p.Settings = append(slices.Clone(p.Settings), pluginapi.Setting{
		Name: "refuse_every", Type: pluginapi.Int, Min: pluginapi.Limit(0), Help: "Of so many offsets of a partition one is refused.",
	})
	p.New = func() pluginapi.Sink { return &sink{Sink: inner.New()} }
	return p
}

type sink struct {
	pluginapi.Sink
	every int64
}

func (s *sink) Start(ctx context.Context, cfg pluginapi.Config) error {
	s.every = cfg.Int("refuse_every")
	return s.Sink.Start(ctx, cfg)
}

func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results, err := s.Sink.Put(ctx, batch)
	if err != nil || s.every == 0 {
		return results, err
	}
	for i := range batch {
		if batch[i].Offset%s.every == s.every/2 {
			results = slices.Clone(results) // The inner sink's answer is the same each time.
			for j := i; j < len(batch); j++ {
				if batch[j].Offset%s.every == s.every/2 {
					results[j] = pluginapi.Rejected("refused", "one of the records that are refused")
				}
			}
			break
		}
	}
	return results, nil
}
