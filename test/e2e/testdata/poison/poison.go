// Package poison is a sink that some records kill or hang, and some it takes only later; the others it sends in one request per
// put. It comes as a process and as a WASM module.
package poison

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// Plugin describes the sink. send sends a body to a URL; crash and hang do not return.
func Plugin(send func(ctx context.Context, url string, body []byte) error, crash, hang func()) pluginapi.Plugin {
	tried := &firstTries{at: map[string]time.Time{}}
	return pluginapi.Plugin{
		Name: "poison", Version: "1.0.0", Summary: "Some records kill it.", Form: pluginapi.FormBytes,
		Settings: []pluginapi.Setting{
			{Name: "url", Type: pluginapi.String, Required: true},
			{Name: "crash", Type: pluginapi.List, Elem: pluginapi.String},
			{Name: "hang", Type: pluginapi.List, Elem: pluginapi.String},
			{Name: "late_every", Type: pluginapi.Int, Help: "Of that many records one is taken late; 0 is none."},
			{Name: "late_by", Type: pluginapi.Duration, Help: "How long after its first try."},
			{Name: "crash_every", Type: pluginapi.Int, Help: "Of so many ids one kills; see Kills."},
			{Name: "hang_every", Type: pluginapi.Int, Help: "Of so many ids one hangs; see Hangs."},
			{Name: "below", Type: pluginapi.Int, Help: "Of these ids only those below this one."},
		},
		New: func() pluginapi.Sink { return &sink{send: send, crash: crash, hang: hang, tried: tried} },
	}
}

type sink struct {
	send        func(ctx context.Context, url string, body []byte) error
	crash, hang func()
	url         string
	kills       []string
	hangs       []string
	tried       *firstTries
	lateEvery   int64
	lateBy      time.Duration

	killEvery, hangEvery, below int
}

// firstTries is when records were tried first, by ID.
type firstTries struct {
	mu sync.Mutex
	at map[string]time.Time
}

// late reports whether it is too early for a record that is taken late.
func (s *sink) late(r *pluginapi.Record, id []byte) bool {
	n, err := strconv.ParseInt(string(id), 10, 64)
	if err != nil || s.lateEvery == 0 || n%s.lateEvery != 0 {
		return false
	}
	s.tried.mu.Lock()
	defer s.tried.mu.Unlock()
	first, ok := s.tried.at[r.ID()]
	if !ok {
		first = time.Now()
		s.tried.at[r.ID()] = first
	}
	return time.Since(first) < s.lateBy
}

// Kills reports whether an id kills the sink where one of every does; 0 means none.
func Kills(id, every int) bool { return every > 0 && id%every == every/2 }

// Hangs reports whether an id hangs the sink where one of every does; 0 means none. No id does both.
func Hangs(id, every int) bool { return every > 0 && id%every == every/4 }

func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	s.url, s.kills, s.hangs = cfg.String("url"), cfg.Strings("crash"), cfg.Strings("hang")
	s.lateEvery, s.lateBy = cfg.Int("late_every"), cfg.Duration("late_by")
	s.killEvery, s.hangEvery, s.below = int(cfg.Int("crash_every")), int(cfg.Int("hang_every")), int(cfg.Int("below"))
	return nil
}

func (s *sink) Stop(context.Context) error { return nil }

func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	var body []byte
	results := pluginapi.Accepted(len(batch))
	for i := range batch {
		value, _ := batch[i].Value.Bytes()
		id, _, _ := bytes.Cut(bytes.TrimPrefix(value, []byte(`{"id":`)), []byte(","))
		number, _ := strconv.Atoi(string(id))
		switch {
		case number < s.below && Kills(number, s.killEvery):
			s.crash()
		case number < s.below && Hangs(number, s.hangEvery):
			s.hang()
		case slices.Contains(s.kills, string(id)):
			s.crash()
		case slices.Contains(s.hangs, string(id)):
			s.hang()
		case s.late(&batch[i], id):
			results[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "late", "not yet"))
			continue
		}
		body = append(append(body, value...), '\n')
	}
	if len(body) == 0 {
		return results, nil
	}
	if err := s.send(ctx, s.url, body); err != nil {
		return nil, pluginapi.NewError(pluginapi.Unavailable, "send", err.Error())
	}
	return results, nil
}
