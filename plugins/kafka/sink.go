package kafka

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/template"
)

var (
	_ pluginapi.Sink    = (*sink)(nil)
	_ pluginapi.Emitter = (*sink)(nil)
)

type sink struct {
	topic                       *template.Template
	fixed                       string // The topic, where it has no placeholder.
	sameAsSource                bool   // The partition.
	headers, timestamp, forward bool

	name  []byte // Reused from record to record.
	last  string // The topic filled in last: there are few.
	outs  []pluginapi.Emitted
	taken []pluginapi.Result
}

// Emits implements [pluginapi.Emitter].
func (*sink) Emits() {}

// Start reads the settings.
func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	topic, err := template.Parse(cfg.String("topic"))
	if err != nil {
		return pluginapi.NewError(pluginapi.Invalid, "topic", fmt.Sprintf("topic: %v", err))
	}
	fixed, constant := topic.Constant()
	if constant && fixed == "" {
		return pluginapi.NewError(pluginapi.Invalid, "topic", "topic is empty; name one")
	}
	s.topic, s.fixed = topic, fixed
	s.sameAsSource = cfg.String("partition") == bySource
	s.headers, s.timestamp, s.forward = cfg.Bool("headers"), cfg.Bool("timestamp"), cfg.String("tombstones") != filter
	return nil
}

// Put says what each record becomes.
func (s *sink) Put(_ context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results, outs := s.taken[:0], s.outs[:0]
	if cap(outs) < len(batch) { // Results refer to it: it must not move.
		outs = make([]pluginapi.Emitted, 0, len(batch))
	}
	for i := range batch {
		rec := &batch[i]
		if rec.Value.IsAbsent() && !s.forward {
			results = append(results, pluginapi.Result{Outcome: pluginapi.Accept})
			continue
		}
		topic, refused := s.to(rec)
		if refused != nil {
			results = append(results, *refused)
			continue
		}
		out := pluginapi.Emitted{Topic: topic, Partition: rec.Partition, Placed: s.sameAsSource, Key: rec.Key, Value: rec.Value}
		if s.headers {
			out.Headers = rec.Headers
		}
		if s.timestamp && rec.TimestampType != pluginapi.NoTimestamp {
			out.Timestamp = rec.Timestamp
		}
		outs = append(outs, out)
		results = append(results, pluginapi.Result{Outcome: pluginapi.Accept, Emitted: outs[len(outs)-1 : len(outs) : len(outs)]})
	}
	s.taken, s.outs = results, outs
	return results, nil
}

// to returns the topic of a record's copy, or why there can be none.
func (s *sink) to(rec *pluginapi.Record) (string, *pluginapi.Result) {
	topic := s.fixed
	if topic == "" {
		var err error
		if s.name, err = s.topic.Append(s.name[:0], rec); err != nil {
			r := pluginapi.Rejected("topic", fmt.Sprintf("topic: %v", err))
			return "", &r
		}
		if string(s.name) != s.last {
			s.last = string(s.name)
		}
		topic = s.last
	}
	if topic == rec.Topic {
		r := pluginapi.Rejected("loop", fmt.Sprintf("its copy would go to %q, where it was read, and come back for ever", topic))
		return "", &r
	}
	return topic, nil
}

// Stop releases nothing.
func (*sink) Stop(context.Context) error { return nil }
