package http

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// started returns a started sink with the plugin's defaults and values.
func started(t *testing.T, values map[string]any) *sink {
	t.Helper()
	s, err := start(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start(t *testing.T, values map[string]any) (*sink, error) {
	t.Helper()
	all := map[string]any{}
	p := Plugin()
	for _, set := range p.Settings {
		if set.Default != nil {
			all[set.Name] = set.Default
		}
	}
	maps.Copy(all, values)
	s := &sink{}
	t.Cleanup(func() { _ = s.Stop(context.WithoutCancel(t.Context())) })
	return s, s.Start(t.Context(), pluginapi.Config{Values: all, Logger: slog.New(slog.DiscardHandler)})
}

func record(offset int64, value string) pluginapi.Record {
	return pluginapi.Record{
		Topic: "orders", Offset: offset, Key: pluginapi.BytesDatum(fmt.Append(nil, offset)), Value: pluginapi.BytesDatum([]byte(value)),
	}
}

func putOne(t *testing.T, s *sink, r pluginapi.Record) pluginapi.Result {
	t.Helper()
	results, err := s.Put(t.Context(), []pluginapi.Record{r})
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// HTTP-04 and the rules for every status.
func TestHTTP04EachStatusHasItsFate(t *testing.T) {
	var code atomic.Int64
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(code.Load())) })
	s := started(t, map[string]any{"url": srv.URL})
	for c := 200; c < 600; c++ {
		want, class := pluginapi.Reject, pluginapi.Invalid
		switch {
		case c < 300:
			want, class = pluginapi.Accept, pluginapi.NoClass
		case c < 400, c == 401, c == 403, c == 407:
			want, class = pluginapi.Retry, pluginapi.Unavailable
		case c == 429:
			want, class = pluginapi.Retry, pluginapi.Throttled
		case c == 408, c == 425, c >= 500 && c != 501 && c != 505:
			want, class = pluginapi.Retry, pluginapi.Transient
		}
		code.Store(int64(c))
		got := putOne(t, s, record(1, "{}"))
		gotClass := pluginapi.NoClass
		if got.Err != nil {
			gotClass = got.Err.Class
		}
		if got.Outcome != want || gotClass != class {
			t.Errorf("status %d: got %s of class %s, want %s of %s", c, got.Outcome, gotClass, want, class)
		}
	}
	s = started(t, map[string]any{"url": srv.URL, "accept_status": []any{"2xx", "409"}, "retry_status": []any{"404"}, "reject_status": []any{"4xx"}})
	for c, want := range map[int]pluginapi.Outcome{409: pluginapi.Accept, 404: pluginapi.Retry, 410: pluginapi.Reject, 500: pluginapi.Retry} {
		code.Store(int64(c))
		if got := putOne(t, s, record(1, "{}")); got.Outcome != want {
			t.Errorf("status %d with own sets: got %s, want %s", c, got.Outcome, want)
		}
	}
}

func TestHTTP01RetryAfterInBothForms(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"3": 3 * time.Second, " 120 ": 2 * time.Minute, "0": 0, "-5": 0, "soon": 0, "": 0, "1.5": 0,
		"999999999": maxRetryAfter, "99999999999999999999": 0,
		now.Add(4 * time.Second).Format(http.TimeFormat):              4 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):                   0,
		now.AddDate(50, 0, 0).Format(http.TimeFormat):                 maxRetryAfter,
		now.Add(time.Minute).Format("Monday, 02-Jan-06 15:04:05 GMT"): time.Minute,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	if got := putOne(t, started(t, map[string]any{"url": srv.URL}), record(1, "")); got.Err == nil || got.Err.RetryAfter != 3*time.Second {
		t.Errorf("got %+v, want a retry after 3s", got.Err)
	}
}

// target takes JSON arrays, refuses some bodies, and keeps the ids it took.
type target struct {
	mu       sync.Mutex
	ids      map[int]int
	requests int
	refuse   func(body []byte, ids []int) int
}

func (g *target) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var values []struct{ ID int }
	if r.Header.Get("Content-Type") == "application/x-ndjson" {
		body = []byte("[" + strings.ReplaceAll(strings.TrimSpace(string(body)), "\n", ",") + "]")
	}
	if err := json.Unmarshal(body, &values); err != nil {
		http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
		return
	}
	var ids []int
	for _, v := range values {
		ids = append(ids, v.ID)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	if code := g.refuse(body, ids); code != 0 {
		w.WriteHeader(code)
		return
	}
	for _, id := range ids {
		g.ids[id]++
	}
}

func TestHTTP05And07OneBadRecordOfABatchIsFoundByHalving(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		size       func(i int) int
		refuse     func(body []byte, ids []int) int
		most       int
	}{
		{"rejected, array", "json_array", func(int) int { return 10 }, func(_ []byte, ids []int) int {
			if slices.Contains(ids, 37) {
				return http.StatusBadRequest
			}
			return 0
		}, 16},
		{"rejected, lines", "ndjson", func(int) int { return 10 }, func(_ []byte, ids []int) int {
			if slices.Contains(ids, 37) {
				return http.StatusUnprocessableEntity
			}
			return 0
		}, 16},
		{"too large", "json_array", func(i int) int {
			if i == 37 {
				return 100 << 10
			}
			return 1 << 10
		}, func(body []byte, _ []int) int {
			if len(body) > 64<<10 {
				return http.StatusRequestEntityTooLarge
			}
			return 0
		}, 16},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := &target{ids: map[int]int{}, refuse: tc.refuse}
			srv := serve(t, g.serve)
			s := started(t, map[string]any{"url": srv.URL, "body": tc.body})
			var batch []pluginapi.Record
			for i := range 100 {
				batch = append(batch, record(int64(i), fmt.Sprintf(`{"ID":%d,"pad":"%s"}`, i, strings.Repeat("x", tc.size(i)))))
			}
			results, err := s.Put(t.Context(), batch)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				want := pluginapi.Accept
				if i == 37 {
					want = pluginapi.Reject
				}
				if r.Outcome != want {
					t.Errorf("record %d: %s, want %s", i, r.Outcome, want)
				}
			}
			for id, n := range g.ids {
				if n != 1 {
					t.Errorf("record %d was stored %d times", id, n)
				}
			}
			if len(g.ids) != 99 || g.requests > tc.most {
				t.Errorf("got %d records in %d requests, want 99 in at most %d", len(g.ids), g.requests, tc.most)
			}
		})
	}
}

func TestHTTP10And11RedirectsAreNotFollowedForPost(t *testing.T) {
	var other atomic.Int64
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { other.Add(1) })
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, method := range []string{"POST", "PUT", "GET"} {
			srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL+"/login?token=s3cr3t", code)
			})
			s := started(t, map[string]any{"url": srv.URL + "/in", "method": method, "bearer_token": "t0k"})
			got := putOne(t, s, record(1, "{}"))
			if got.Outcome != pluginapi.Retry || got.Err.Class != pluginapi.Unavailable ||
				!strings.Contains(got.Err.Message, "/login") || strings.Contains(got.Err.Message, "s3cr3t") {
				t.Errorf("%s %d: got %s %v, want unavailable, naming the place without its query", method, code, got.Outcome, got.Err)
			}
		}
	}
	if other.Load() != 0 {
		t.Errorf("the other host got %d requests", other.Load())
	}
}

func TestHTTP13ConnectionsAreReused(t *testing.T) {
	var conns, requests atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(make([]byte, maxAnswer-1))
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, st http.ConnState) {
		if st == http.StateNew {
			conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	s := started(t, map[string]any{"url": srv.URL, "max_in_flight": int64(4)})
	var batch []pluginapi.Record
	for i := range int64(500) {
		batch = append(batch, record(i, "{}"))
	}
	if _, err := s.Put(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if conns.Load() > 8 {
		t.Errorf("500 requests took %d connections, want few", conns.Load())
	}
}

// TestAnAnswerBeforeTheBodyWasRead: the transport goes on sending it while the
// put is over and its records are the host's again, which uses their memory for
// others.
func TestAnAnswerBeforeTheBodyWasRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = c.Close() }()
				if _, err := c.Read(make([]byte, 1<<10)); err != nil {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				_, _ = io.Copy(io.Discard, c)
			})
		}
	})
	s := started(t, map[string]any{"url": "http://" + l.Addr().String()})
	value := bytes.Repeat([]byte("v"), 16<<20)
	for range 3 {
		got := putOne(t, s, pluginapi.Record{Topic: "orders", Value: pluginapi.BytesDatum(value)})
		if got.Outcome != pluginapi.Accept {
			t.Errorf("got %s %v, want it accepted", got.Outcome, got.Err)
		}
		for i := range value { // A data race if it is still being sent.
			value[i]++
		}
	}
}

func TestHTTP14AnAnswerThatNeverEnds(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("chunk"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	s := started(t, map[string]any{"url": srv.URL, "timeout": 100 * time.Millisecond})
	got := putOne(t, s, record(1, "{}"))
	if got.Outcome != pluginapi.Retry || got.Err.Code != "timeout" {
		t.Errorf("got %s %v, want a retry for the timeout", got.Outcome, got.Err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	slow := started(t, map[string]any{"url": srv.URL})
	if _, err := slow.Put(ctx, []pluginapi.Record{record(1, "{}"), record(2, "{}")}); err == nil {
		t.Error("want the context's error")
	}
}

func TestHTTP16And22NobodyListensIsTheTargetsOutage(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	for _, body := range []string{"single", "json_array"} {
		s := started(t, map[string]any{"url": "http://user:s3cr3t@" + address + "/x?key=s3cr3t", "body": body})
		got := putOne(t, s, record(1, "{}"))
		if got.Outcome != pluginapi.Retry || got.Err.Class != pluginapi.Unavailable ||
			!strings.Contains(got.Err.Message, address) || !strings.Contains(got.Err.Message, "refused") || strings.Contains(got.Err.Message, "s3cr3t") {
			t.Errorf("%s: got %s %v, want unavailable with address and cause", body, got.Outcome, got.Err)
		}
		if err := s.Check(t.Context()); err == nil {
			t.Error("Check found a target where none is")
		}
	}
}

func TestHTTP17OneContentType(t *testing.T) {
	var got []string
	srv := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Values("Content-Type") })
	typed := record(1, "")
	typed.Value = pluginapi.DataDatum(&data.Typed{Value: data.Map([]data.Entry{{Key: data.String("a"), Value: data.Int64(1)}})})
	for _, tc := range []struct {
		body    string
		headers map[string]any
		record  pluginapi.Record
		want    string
	}{
		{"single", nil, record(1, "x"), "application/octet-stream"},
		{"single", nil, typed, "application/json"},
		{"json_array", nil, record(1, "1"), "application/json"},
		{"ndjson", nil, record(1, "1"), "application/x-ndjson"},
		{"single", map[string]any{"content-type": "application/vnd.api+json"}, record(1, "x"), "application/vnd.api+json"},
		{"json_array", map[string]any{"CONTENT-TYPE": "application/vnd.api+json"}, typed, "application/vnd.api+json"},
	} {
		s := started(t, map[string]any{"url": srv.URL, "body": tc.body, "headers": tc.headers})
		if r := putOne(t, s, tc.record); r.Outcome != pluginapi.Accept || !slices.Equal(got, []string{tc.want}) {
			t.Errorf("%s %v: got %v, want %q once", tc.body, tc.headers, got, tc.want)
		}
	}
}

func TestHTTP20FieldsAreEscaped(t *testing.T) {
	var path, query string
	srv := serve(t, func(_ http.ResponseWriter, r *http.Request) { path, query = r.URL.Path, r.URL.Query().Get("d") })
	s := started(t, map[string]any{"url": srv.URL + "/v1/items/{key}?d={header.d}"})
	for _, tc := range []struct {
		key, d string
		want   pluginapi.Outcome
	}{
		{"a/b?c#d e", "2021-08-06T10:00:00+02:00", pluginapi.Accept},
		{"../admin", "&x=1", pluginapi.Accept},
		{"ü%41", "a b+c", pluginapi.Accept},
		{"k", "", pluginapi.Accept},
		{"k", "..", pluginapi.Accept},
		{"..", "x", pluginapi.Reject},
		{".", "x", pluginapi.Reject},
		{"", "x", pluginapi.Reject},
	} {
		r := record(1, "{}")
		r.Key = pluginapi.BytesDatum([]byte(tc.key))
		r.Headers = []pluginapi.Header{{Key: "d", Value: pluginapi.BytesDatum([]byte(tc.d))}}
		got := putOne(t, s, r)
		if got.Outcome != tc.want {
			t.Errorf("key %q: got %s %v, want %s", tc.key, got.Outcome, got.Err, tc.want)
		}
		if tc.want == pluginapi.Accept && (path != "/v1/items/"+tc.key || query != tc.d) {
			t.Errorf("got path %q and query %q, want key %q and %q", path, query, tc.key, tc.d)
		}
	}
	if r := putOne(t, s, record(1, "{}")); r.Outcome != pluginapi.Reject {
		t.Errorf("a record without the header: got %s, want reject", r.Outcome)
	}
}

func TestHeadersLoginAndIdempotency(t *testing.T) {
	var got http.Header
	srv := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() })
	s := started(t, map[string]any{
		"url": srv.URL, "headers": map[string]any{"x-topic": "{topic}-{offset}"}, "username": "u", "password": "p{x}",
	})
	r := record(7, "{}")
	putOne(t, s, r)
	if got.Get("X-Topic") != "orders-7" || got.Get("Authorization") != "Basic dTpwe3h9" || got.Get("Idempotency-Key") != r.ID() {
		t.Errorf("got headers %v", got)
	}
	bad := record(7, "{}")
	bad.Topic = "a\nb"
	if res := putOne(t, s, bad); res.Outcome != pluginapi.Reject {
		t.Errorf("a header with a line break: got %s, want reject", res.Outcome)
	}
}

// A target that sends back what it was sent must not put a secret into a
// message, which ends in dead letter headers.
func TestSecretsAreNotSentBack(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "bad request:\n%s %s %s", r.Header.Get("X-Api-Key"), strings.Repeat("x", 240), r.Header.Get("Authorization"))
	})
	userinfo := strings.Replace(srv.URL, "http://", "http://u:s3cr3t-url@", 1)
	for _, values := range []map[string]any{
		{"url": srv.URL, "headers": map[string]any{"X-Api-Key": "s3cr3t-key"}, "bearer_token": "s3cr3t-token" + strings.Repeat("z", 60)},
		{"url": srv.URL, "headers": map[string]any{"Authorization": "Token s3cr3t-auth"}},
		{"url": srv.URL, "username": "u", "password": "s3cr3t-word"},
		{"url": userinfo, "headers": map[string]any{"X-Api-Key": "s3cr3t-key s3cr3t-url"}},
	} {
		got := putOne(t, started(t, values), record(1, "{}"))
		if got.Outcome != pluginapi.Reject || !strings.Contains(got.Err.Message, "400 Bad Request: bad request: ") || strings.Contains(got.Err.Message, "s3cr") {
			t.Errorf("%v: got %s %v, want a reject that shows no secret", values, got.Outcome, got.Err)
		}
	}
}

func TestWrongSettings(t *testing.T) {
	for _, tc := range []struct {
		name   string
		values map[string]any
		want   string
	}{
		{"no scheme", map[string]any{"url": "example/x"}, "url: "},
		{"a password in a URL that cannot be read", map[string]any{"url": "http://u:s3cr3t@[::1"}, "url: "},
		{"header name", map[string]any{"url": "http://x", "headers": map[string]any{"a b": "1"}}, `"a b"`},
		{"header twice", map[string]any{"url": "http://x", "headers": map[string]any{"a": "1", "A": "2"}}, "twice"},
		{"status", map[string]any{"url": "http://x", "retry_status": []any{"teapot"}}, "teapot"},
		{"status twice", map[string]any{"url": "http://x", "retry_status": []any{"2xx"}}, "two lists"},
		{"two logins", map[string]any{"url": "http://x", "bearer_token": "s3cr3t", "username": "u"}, "either"},
		{"ca file", map[string]any{"url": "http://x", "ca_file": "/nope"}, "ca_file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := start(t, tc.values)
			e := pluginapi.AsError(err, pluginapi.NoClass)
			if e == nil || e.Class != pluginapi.Invalid || !strings.Contains(e.Message, tc.want) || strings.Contains(e.Message, "s3cr3t") {
				t.Errorf("got %v, want an invalid setting that says %q", err, tc.want)
			}
		})
	}
}

func TestResultsComeAsTheyGo(t *testing.T) {
	hold := make(chan struct{})
	srv := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/2") {
			<-hold
		}
	})
	s := started(t, map[string]any{"url": srv.URL + "/{offset}", "max_in_flight": int64(2)})
	first := make(chan int, 10)
	done := make(chan error, 1)
	go func() {
		batch := []pluginapi.Record{record(1, ""), record(2, ""), record(3, ""), record(4, "")}
		done <- s.PutReport(t.Context(), batch, func(i int, _ []pluginapi.Result) { first <- i })
	}()
	var got []int
	for range 3 {
		got = append(got, <-first)
	}
	slices.Sort(got)
	if !slices.Equal(got, []int{0, 2, 3}) {
		t.Errorf("got %v before the slow one, want the other three", got)
	}
	close(hold)
	if err := <-done; err != nil || <-first != 1 {
		t.Errorf("got %v, want the slow one last", err)
	}
}
