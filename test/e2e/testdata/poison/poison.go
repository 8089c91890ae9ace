// Package poison is a sink that some records kill or hang; the others it sends in one request per put. It comes as a process
// and as a WASM module.
package poison

import (
	"bytes"
	"context"
	"slices"

	"github.com/sluicehq/sluice/pluginapi"
)

// Plugin describes the sink. send sends a body to a URL; crash and hang do not return.
func Plugin(send func(ctx context.Context, url string, body []byte) error, crash, hang func()) pluginapi.Plugin {
	return pluginapi.Plugin{
		Name: "poison", Version: "1.0.0", Summary: "Some records kill it.", Form: pluginapi.FormBytes,
		Settings: []pluginapi.Setting{
			{Name: "url", Type: pluginapi.String, Required: true},
			{Name: "crash", Type: pluginapi.List, Elem: pluginapi.String},
			{Name: "hang", Type: pluginapi.List, Elem: pluginapi.String},
		},
		New: func() pluginapi.Sink { return &sink{send: send, crash: crash, hang: hang} },
	}
}

type sink struct {
	send        func(ctx context.Context, url string, body []byte) error
	crash, hang func()
	url         string
	kills       []string
	hangs       []string
}

func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	s.url, s.kills, s.hangs = cfg.String("url"), cfg.Strings("crash"), cfg.Strings("hang")
	return nil
}

func (s *sink) Stop(context.Context) error { return nil }

func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	var body []byte
	for i := range batch {
		value, _ := batch[i].Value.Bytes()
		id, _, _ := bytes.Cut(bytes.TrimPrefix(value, []byte(`{"id":`)), []byte(","))
		switch {
		case slices.Contains(s.kills, string(id)):
			s.crash()
		case slices.Contains(s.hangs, string(id)):
			s.hang()
		}
		body = append(append(body, value...), '\n')
	}
	if err := s.send(ctx, s.url, body); err != nil {
		return nil, pluginapi.NewError(pluginapi.Unavailable, "send", err.Error())
	}
	return pluginapi.Accepted(len(batch)), nil
}
