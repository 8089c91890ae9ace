package http_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/sinktest"
	httpsink "github.com/sluicehq/sluice/plugins/http"
	"github.com/sluicehq/sluice/test/plugintest"
)

// service stores the ids of what it is sent, whole requests only.
type service struct {
	body string // As the setting.

	mu   sync.Mutex
	ids  []string
	left int // Records until it answers 503; below zero it does not.
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var parts []json.RawMessage
	switch s.body {
	case "json_array":
		err = json.Unmarshal(body, &parts)
	case "ndjson":
		for line := range bytes.Lines(body) {
			parts = append(parts, line)
		}
	default:
		parts = append(parts, body)
	}
	var ids []string
	for _, part := range parts {
		var v struct{ ID string }
		if len(part) > 0 && err == nil { // A tombstone alone has no body.
			err = json.Unmarshal(part, &v)
		}
		ids = append(ids, v.ID)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left >= 0 && len(ids) > s.left {
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
		return
	}
	s.left -= len(ids)
	s.ids = append(s.ids, ids...)
}

func (s *service) fail(left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = left
}

func TestConformance(t *testing.T) {
	direct, process := plugintest.Direct(httpsink.Plugin()), plugintest.Process(t, httpsink.Plugin())
	for _, tc := range []struct {
		name, body, path string
		newSink          plugintest.Maker
		data             bool
	}{
		{"direct, single", "single", "/", direct, false},
		{"process, single", "single", "/", process, false},
		{"direct, single, data", "single", "/{topic}/{offset}", direct, true},
		{"direct, single, key in the path", "single", "/items/{key}?at={timestamp}", direct, false},
		{"direct, array", "json_array", "/", direct, false},
		{"direct, array of data, by key", "json_array", "/{key}", direct, true},
		{"direct, lines", "ndjson", "/", direct, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sinktest.Run(t, func(t testing.TB) sinktest.Target {
				s := &service{body: tc.body, left: -1}
				server := httptest.NewServer(s)
				t.Cleanup(server.Close)
				at := func(url string) func(testing.TB) sinktest.Sink {
					return func(t testing.TB) sinktest.Sink {
						return tc.newSink(t, map[string]any{"url": url, "body": tc.body})
					}
				}
				return sinktest.Target{
					New:  at(server.URL + tc.path),
					Data: tc.data,
					Stored: func(testing.TB) []string {
						s.mu.Lock()
						defer s.mu.Unlock()
						return slices.Clone(s.ids)
					},
					Bad: func(testing.TB) pluginapi.Record {
						return pluginapi.Record{Topic: "orders", Key: pluginapi.BytesDatum([]byte("k")), Value: pluginapi.BytesDatum([]byte("bad"))}
					},
					FailAfter:     func(_ testing.TB, n int) { s.fail(n) },
					Repair:        func(testing.TB) { s.fail(-1) },
					Unreachable:   at("http://" + plugintest.ClosedAddress(t) + tc.path),
					Misconfigured: at("nowhere"),
				}
			})
		})
	}
}
