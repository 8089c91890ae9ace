package s3

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/sinktest"
	"github.com/sluicehq/sluice/test/plugintest"
	"github.com/sluicehq/sluice/test/s3test"
)

// gate stands before the real server and closes after some more records.
type gate struct {
	proxy *httputil.ReverseProxy

	mu   sync.Mutex
	left int // Records until it answers 500; below zero it does not.
}

func newGate(t testing.TB, endpoint string) (*gate, string) {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{left: -1, proxy: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = to.Scheme, to.Host // The host's name is signed, and stays.
	}}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return g, server.URL
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.mu.Lock()
	records := bytes.Count(body, []byte(`"pad":`))
	closed := g.left >= 0 && records > g.left
	if g.left >= 0 && !closed {
		g.left -= records
	}
	g.mu.Unlock()
	if closed {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	}
	g.proxy.ServeHTTP(w, r)
}

func (g *gate) set(left int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = left
}

func TestConformance(t *testing.T) {
	for _, tc := range []struct {
		name     string
		data     bool
		settings values
	}{
		{"lines", false, values{"key": "k"}},
		{"data, by key", true, values{"key": "{topic}/{key}", "uploads": 8}},
		{"gzip, in parts", true, values{"key": "k", "compression": "gzip", "part_size": "5MiB"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plugintest.EachForm(t, Plugin(), tc.data, func(t *testing.T, newSink plugintest.Maker) {
				sinktest.Run(t, func(t testing.TB) sinktest.Target {
					b := newBucket(t)
					g, endpoint := newGate(t, b.endpoint)
					at := func(change values) func(testing.TB) sinktest.Sink {
						return func(t testing.TB) sinktest.Sink {
							settings := values{
								"bucket": b.name, "endpoint": endpoint,
								"access_key_id": s3test.AccessKey, "secret_access_key": s3test.SecretKey,
							}
							maps.Copy(settings, tc.settings)
							maps.Copy(settings, change)
							return newSink(t, settings)
						}
					}
					target := sinktest.Target{
						New:  at(nil),
						Data: tc.data,
						Stored: func(t testing.TB) (ids []string) {
							for _, line := range b.lines(t) {
								var v struct{ ID string }
								if err := json.Unmarshal([]byte(line), &v); err != nil {
									t.Fatal(err)
								}
								ids = append(ids, v.ID)
							}
							return ids
						},
						Unreachable:   at(values{"endpoint": "http://" + plugintest.ClosedAddress(t)}),
						Misconfigured: at(values{"endpoint": "nowhere"}),
					}
					if !strings.Contains(tc.name, "gzip") {
						target.FailAfter = func(_ testing.TB, n int) { g.set(n) }
						target.Repair = func(testing.TB) { g.set(-1) }
					}
					if strings.Contains(tc.name, "by key") {
						target.Bad = func(testing.TB) pluginapi.Record { return pluginapi.Record{Topic: "orders"} } // No key.
					}
					return target
				})
			})
		})
	}
}
