// Package drop is a sink that counts records and forgets them: for benchmarks,
// and for trying converters and transforms out. It can play a slow target.
package drop

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

const documentation = `Accepts every record and stores none. For benchmarks, and for trying converters out.

When it stops, it logs how many records it had and when its first and its last put ended; with "ages", how old
records were when they were put, by their timestamps.

"delay" plays a target that is slow, "slow_every" and "slow_for" one that puts single records off.`

// Plugin describes the sink.
func Plugin() pluginapi.Plugin {
	return pluginapi.Plugin{
		Name: "drop", Version: "0.2.0", Summary: "Counts records and forgets them",
		Documentation: documentation,
		Form:          pluginapi.FormData,
		Settings: []pluginapi.Setting{
			{
				Name: "delay", Type: pluginapi.Duration, Min: pluginapi.LimitDuration(0), Max: pluginapi.LimitDuration(time.Hour),
				Help: "How long each put takes.",
			},
			{
				Name: "slow_every", Type: pluginapi.Int, Min: pluginapi.Limit(1),
				Help: "Of so many offsets of a partition one record is put off for slow_for. Use it with one sink instance: each puts off for itself.",
			},
			{
				Name: "slow_for", Type: pluginapi.Duration, Default: 2 * time.Second,
				Min: pluginapi.LimitDuration(time.Millisecond), Max: pluginapi.LimitDuration(time.Hour),
				Help: "How long such a record is put off: the answer is to try again then.",
			},
			{Name: "ages", Type: pluginapi.Bool, Help: "Logs how old records were when they were put."},
		},
		New: func() pluginapi.Sink { return &sink{} },
	}
}

var _ pluginapi.Sink = (*sink)(nil)

type sink struct {
	log         *slog.Logger
	delay       time.Duration
	slow        *slow // Nil without slow_every.
	ages        *ages // Nil unless asked for.
	records     int64 // Accepted.
	first, last time.Time
	results     []pluginapi.Result
}

func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	s.log = cfg.Logger
	s.delay = cfg.Duration("delay")
	if every := cfg.Int("slow_every"); every > 0 {
		s.slow = newSlow(every, cfg.Duration("slow_for"))
	}
	if cfg.Bool("ages") {
		s.ages = &ages{}
	}
	return nil
}

func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	if s.ages != nil {
		s.ages.add(batch, time.Now())
	}
	if s.delay > 0 {
		wait := time.NewTimer(s.delay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if len(batch) > 0 {
		s.last = time.Now()
		if s.first.IsZero() {
			s.first = s.last
		}
	}
	if s.slow != nil {
		results := pluginapi.Accepted(len(batch))
		s.records += int64(len(batch) - s.slow.judge(batch, results, time.Now()))
		return results, nil
	}
	s.records += int64(len(batch))
	for len(s.results) < len(batch) { // The same answer each time: made once.
		s.results = append(s.results, pluginapi.Result{Outcome: pluginapi.Accept})
	}
	return s.results[:len(batch):len(batch)], nil
}

func (s *sink) Stop(context.Context) error {
	if s.log == nil {
		return nil
	}
	s.log.Info("records dropped", "records", s.records, "first_put", s.first.Format(time.RFC3339Nano), "last_put", s.last.Format(time.RFC3339Nano))
	if s.ages != nil {
		s.log.Info("ages of records", "records", s.ages.records, "p50", s.ages.quantile(0.5).String(), "p99", s.ages.quantile(0.99).String(),
			"max", s.ages.oldest.String())
	}
	return nil
}
