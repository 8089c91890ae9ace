package s3

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
)

// fake answers as an S3 server never should, or seldom does. Real answers come from a real server in the other tests.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
	objects  map[string]int // Bytes by path.
	parts    map[string]int // Bytes by path, of the open upload.
	aborted  int
	// wrong answers a request instead of the fake, if it returns true. n counts the requests of that kind from 1.
	wrong func(w http.ResponseWriter, kind string, n int) bool
	count map[string]int
}

func newFake(t *testing.T, wrong func(w http.ResponseWriter, kind string, n int) bool) *fake {
	f := &fake{objects: make(map[string]int), parts: make(map[string]int), count: make(map[string]int), wrong: wrong}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	query := r.URL.Query()
	kind := r.Method
	switch {
	case query.Has("uploads"):
		kind = "create"
	case query.Has("partNumber"):
		kind = "part"
	case query.Has("uploadId") && r.Method == http.MethodPost:
		kind = "complete"
	case query.Has("uploadId"):
		kind = "abort"
	}
	f.requests = append(f.requests, kind)
	f.count[kind]++
	if f.wrong != nil && f.wrong(w, kind, f.count[kind]) {
		return
	}
	switch kind {
	case "create":
		fmt.Fprint(w, `<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>`)
	case "part":
		f.parts[r.URL.Path] += int(n)
		w.Header().Set("ETag", `"part"`)
	case "complete":
		f.objects[r.URL.Path] = f.parts[r.URL.Path]
		fmt.Fprint(w, `<CompleteMultipartUploadResult><ETag>"done-2"</ETag></CompleteMultipartUploadResult>`)
	case "abort":
		f.aborted++
		delete(f.parts, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case http.MethodPut:
		f.objects[r.URL.Path] = int(n)
		w.Header().Set("ETag", `"whole"`)
	}
}

func (f *fake) start(t *testing.T, settings values) *sink {
	settings["bucket"], settings["endpoint"] = "b", f.URL
	settings["part_size"] = int64(minPartSize)
	return start(t, settings)
}

func failure(w http.ResponseWriter, status int, code string) bool {
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>try again</Message></Error>`, code)
	return true
}

func TestS304StatusOKWithAnError(t *testing.T) {
	for _, tc := range []struct {
		name string
		body string
	}{
		{"error document", `<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code><Message>oops</Message></Error>`},
		{"cut short", `<?xml version="1.0" encoding="UTF-8"?><CompleteMultipartUploadRes`},
		{"empty", ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, kind string, n int) bool {
				if kind == "complete" && n == 1 {
					fmt.Fprint(w, tc.body)
					return true
				}
				return false
			})
			s := f.start(t, values{})
			results := puts(t, s, big(2)...)
			if results[0].Outcome != pluginapi.Accept {
				// The SDK did not repeat it; the host puts the batch again.
				if results[0].Outcome != pluginapi.Retry || results[0].Err.Class != pluginapi.Transient {
					t.Fatalf("got %s (%v), want accept or a transient retry", results[0].Outcome, results[0].Err)
				}
				if f.aborted != 1 {
					t.Errorf("got %d aborts, want 1", f.aborted)
				}
				if len(f.objects) != 0 {
					t.Fatalf("objects %v, want none", f.objects)
				}
				results = puts(t, s, big(2)...)
			}
			accepted(t, results)
			if len(f.objects) != 1 || f.count["complete"] != 2 {
				t.Errorf("got objects %v after %d completes, want one after 2", f.objects, f.count["complete"])
			}
		})
	}
}

func TestS305SlowDown(t *testing.T) {
	slow := true
	f := newFake(t, nil)
	f.wrong = func(w http.ResponseWriter, kind string, _ int) bool {
		if slow && kind == "part" {
			w.Header().Set("Retry-After", "7")
			return failure(w, http.StatusServiceUnavailable, "SlowDown")
		}
		return false
	}
	s := f.start(t, values{})
	for _, r := range puts(t, s, big(2)...) {
		if r.Outcome != pluginapi.Retry || r.Err.Class != pluginapi.Throttled || r.Err.RetryAfter.Seconds() != 7 {
			t.Fatalf("got %s (%+v), want a throttled retry after 7 s", r.Outcome, r.Err)
		}
	}
	if f.aborted != 1 || f.count["part"] != requestAttempts {
		t.Errorf("got %d aborts after %d parts, want 1 after %d", f.aborted, f.count["part"], requestAttempts)
	}
	f.mu.Lock()
	slow = false
	f.mu.Unlock()
	accepted(t, puts(t, s, big(2)...))
	if len(f.objects) != 1 {
		t.Errorf("got objects %v, want one", f.objects)
	}
}

func TestS305NoRoute(t *testing.T) {
	f := newFake(t, nil)
	s := f.start(t, values{})
	f.Close()
	for _, r := range puts(t, s, text(0, 1, "a"), text(0, 2, "b")) {
		if r.Outcome != pluginapi.Retry || r.Err.Class != pluginapi.Transient {
			t.Errorf("got %s (%+v), want a transient retry", r.Outcome, r.Err)
		}
	}
}

func TestS319ForbiddenComplete(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, kind string, _ int) bool {
		return kind == "complete" && failure(w, http.StatusForbidden, "AccessDenied")
	})
	for _, r := range puts(t, f.start(t, values{}), big(2)...) {
		if r.Outcome != pluginapi.Retry || r.Err.Class != pluginapi.Unavailable {
			t.Fatalf("got %s (%+v), want retry, unavailable", r.Outcome, r.Err)
		}
	}
	if f.aborted != 1 {
		t.Errorf("got %d aborts, want 1", f.aborted)
	}
}

// TestOutageIsNotTriedForEveryObject: a batch of many folders makes one request, not one a folder, against a bucket that
// refuses us.
func TestOutageIsNotTriedForEveryObject(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, _ string, _ int) bool {
		return failure(w, http.StatusForbidden, "AccessDenied")
	})
	s := f.start(t, values{"key": "{offset}", "uploads": int64(1)})
	var batch []pluginapi.Record
	for i := range 20 {
		batch = append(batch, text(0, int64(i), "a"))
	}
	for _, r := range puts(t, s, batch...) {
		if r.Outcome != pluginapi.Retry {
			t.Errorf("got %s, want retry", r.Outcome)
		}
	}
	if len(f.requests) != 1 {
		t.Errorf("got %d requests, want 1: %s", len(f.requests), strings.Join(f.requests, " "))
	}
}

func TestEscape(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", ""},
		{"ü 日", "ü 日"},
		{"\xff\xfea", "%FF%FEa"},
		{".", "%2E"},
		{"..", "%2E%2E"},
		{"...", "..."},
		{"a.b", "a.b"},
		{"a=b/c%", "a%3Db%2Fc%25"},
		{"\x00\x7f", "%00%7F"},
	} {
		if got := string(escape(nil, []byte(tc.in))); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestKeyTemplate(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{"a", "a/"},
		{"a/", "a/"},
		{"{timestamp:2006/01/02}", "2025/11/29/"},
		{"x-{topic}-{timestamp:2006/01}-{key}/y", "x-orders-2025/11-a%2F%7Btimestamp%7D/y/"},
		{"{{timestamp:2006/01}", "{timestamp:2006/01}/"},
	} {
		k, err := parseKey(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		r := text(0, 1, "v")
		r.Key = pluginapi.BytesDatum([]byte("a/{timestamp}"))
		if got, err := k.appendTo(nil, &r); err != nil || string(got) != tc.want {
			t.Errorf("%s: got %q, %v; want %q", tc.text, got, err, tc.want)
		}
	}
}

func TestClass(t *testing.T) {
	for _, tc := range []struct {
		code   string
		status int
		want   pluginapi.Class
	}{
		{"NoSuchBucket", 404, pluginapi.Fatal},
		{"PermanentRedirect", 301, pluginapi.Fatal},
		{"InvalidArgument", 400, pluginapi.Fatal},
		{"AccessDenied", 403, pluginapi.Unavailable},
		{"ExpiredToken", 400, pluginapi.Unavailable},
		{"SomethingNew", 403, pluginapi.Unavailable},
		{"SlowDown", 503, pluginapi.Throttled},
		{"503", 503, pluginapi.Throttled},
		{"429", 429, pluginapi.Throttled},
		{"InternalError", 500, pluginapi.Transient},
		{"InternalError", 200, pluginapi.Transient},
		{"502", 502, pluginapi.Transient},
		{"RequestTimeout", 400, pluginapi.Transient},
		{"501", 501, pluginapi.Fatal},
		{"connection", 0, pluginapi.Transient},
	} {
		if got := class(tc.code, tc.status); got != tc.want {
			t.Errorf("%s with status %d: got %s, want %s", tc.code, tc.status, got, tc.want)
		}
	}
}

func TestSettings(t *testing.T) {
	base := func() values { return values{"bucket": "b", "key": "k", "endpoint": "http://127.0.0.1:1"} }
	for _, tc := range []struct {
		name  string
		value any
		want  string
	}{
		{"bucket", "", "bucket is empty"},
		{"endpoint", "127.0.0.1:1", "endpoint"},
		{"endpoint", "http://user:hush@host", "without user"},
		{"key", "{nope}", "{nope}"},
		{"include", []any{"nope"}, "nope"},
		{"access_key_id", "a", "go together"},
		{"session_token", "hush", "belongs to"},
	} {
		settings := base()
		settings[tc.name] = tc.value
		err := new(sink).Start(t.Context(), pluginapi.Config{Values: settings})
		e := pluginapi.AsError(err, 0)
		if e == nil || e.Class != pluginapi.Invalid || !strings.Contains(e.Message, tc.want) || strings.Contains(e.Message, "hush") {
			t.Errorf("%s = %v: got %v, want an invalid error with %q", tc.name, tc.value, err, tc.want)
		}
	}
	p := Plugin()
	d := p.Describe()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}
