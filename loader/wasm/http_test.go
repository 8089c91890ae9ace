package wasm

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/pluginapi"
)

// site is a local HTTP server, by a name and by its address.
func site(t *testing.T, h http.HandlerFunc) (byName, hostPort string) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	hostPort = srv.Listener.Addr().String()
	_, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		t.Fatal(err)
	}
	return "http://localhost:" + port, hostPort
}

func TestGuestHTTP(t *testing.T) {
	name, addr := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://localhost.:1/", http.StatusFound)
		case "/near":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/slow":
			_, _ = io.Copy(io.Discard, r.Body) // Or a client that leaves is not noticed.
			<-r.Context().Done()
		case "/hangup":
			panic(http.ErrAbortHandler)
		case "/huge":
			chunk := make([]byte, 1<<20)
			for range 17 {
				_, _ = w.Write(chunk)
			}
		default:
			w.Header().Set("Content-Type", "text/x")
			fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("X-Test"), r.Host)
		}
	})
	m := open(t, "guest", Options{AllowHosts: []string{addr}})
	inst := start(t, m, nil, nil)
	url := "http://" + addr
	for _, tc := range []struct{ name, value, code, text string }{
		{"get", "get " + url + "/", "200", "text/x GET 1 " + addr},
		{"post", "post " + url + "/", "200", "text/x POST 1"},
		{"redirect within the host", "get " + url + "/near", "200", "GET 1"},
		{"redirect of a post", "post " + url + "/near", "302", ""},
		{"redirect to another host", "get " + url + "/away", "302", ""},
		{"name that is not listed", "get " + name + "/", "forbidden", "fatal: not allowed: localhost:"},
		{"port that is not listed", "get http://127.0.0.1:1/", "forbidden", "127.0.0.1:1 is not in allow_hosts"},
		{"broken connection", "get " + url + "/hangup", "connect", "transient:"},
		{"answer that is too large", "get " + url + "/huge", "too-large", "unknown:"},
		{"scheme", "get file:///etc/passwd", "invalid", "invalid:"},
		{"no url", "get %zz://", "invalid", "invalid:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, msg := ask(t, inst, tc.value)
			if code != tc.code || !strings.Contains(msg, tc.text) {
				t.Errorf("got %q %q, want %q %q", code, msg, tc.code, tc.text)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		results, err := put(t, inst, 300*time.Millisecond, "get "+url+"/slow")
		if err != nil || results[0].Err == nil || results[0].Err.Code != "timeout" {
			t.Errorf("got %+v, %v, want the answer timeout within the grace", results[0].Err, err)
		}
	})
	t.Run("nothing is allowed", func(t *testing.T) {
		code, _ := ask(t, start(t, open(t, "guest", Options{}), nil, nil), "get "+url+"/")
		if code != "forbidden" {
			t.Errorf("got %q, want forbidden", code)
		}
	})
}

func TestRedirectStaysInReach(t *testing.T) {
	refused := false
	other, _ := site(t, func(http.ResponseWriter, *http.Request) { refused = true })
	_, addr := site(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) })
	s, err := newSandbox([]string{addr, "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.do(t.Context(), &abi.HTTPRequest{URL: "http://" + addr}); got.Status != 302 || refused {
		t.Errorf("got %+v, want the redirect itself", got)
	}
}

func TestRequestHeaders(t *testing.T) {
	_, addr := site(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%v|%s", r.Host, r.Header["A"], r.UserAgent())
	})
	s, err := newSandbox([]string{addr})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		headers []abi.HTTPHeader
		failure abi.HTTPFailure
		body    string
	}{
		{"repeated", []abi.HTTPHeader{{Name: "a", Value: "1"}, {Name: "A", Value: "2"}}, "", addr + "|[1 2]|sluice"},
		{"own agent", []abi.HTTPHeader{{Name: "User-Agent", Value: "me"}}, "", addr + "|[]|me"},
		{"host", []abi.HTTPHeader{{Name: "Host", Value: "inner.example"}}, abi.HTTPInvalid, ""},
		{"transfer encoding", []abi.HTTPHeader{{Name: "transfer-encoding", Value: "chunked"}}, abi.HTTPInvalid, ""},
		{"line break", []abi.HTTPHeader{{Name: "A", Value: "1\r\nB: 2"}}, abi.HTTPInvalid, ""},
		{"name", []abi.HTTPHeader{{Name: "A B", Value: "1"}}, abi.HTTPInvalid, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := s.do(t.Context(), &abi.HTTPRequest{URL: "http://" + addr, Headers: tc.headers})
			if got.Failure != tc.failure || string(got.Body) != tc.body {
				t.Errorf("got %+v %q", got, got.Body)
			}
		})
	}
}

func TestRules(t *testing.T) {
	allow := []string{
		"api.example.com:443", "any.example.com", "10.0.0.7", "[::1]:80", "fd00::2", "192.168.0.0/16", "localhost", "EXAMPLE.org.:1",
	}
	r, err := parseRules(allow)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		host string
		port uint16
		want bool
	}{
		{"api.example.com", 443, true},
		{"API.example.com.", 443, true},
		{"api.example.com", 80, false},
		{"any.example.com", 8443, true},
		{"sub.any.example.com", 443, false},
		{"example.org", 1, true},
		{"10.0.0.7", 5, true},
		{"10.0.0.8", 5, false},
		{"::1", 80, true},
		{"0:0::1", 80, true},
		{"::1", 81, false},
		{"fd00::2", 9, true},
		{"::ffff:10.0.0.7", 9, true},
		{"192.168.3.4", 9, true},
		{"192.169.3.4", 9, false},
	} {
		if err := r.host(tc.host, tc.port); (err == nil) != tc.want {
			t.Errorf("host %s port %d: got %v, want allowed %t", tc.host, tc.port, err, tc.want)
		}
	}
	for _, tc := range []struct {
		host, addr string
		want       bool
	}{
		{"api.example.com", "8.8.8.8:443", true},
		{"api.example.com", "[2606:4700::1]:443", true},
		{"api.example.com", "127.0.0.1:443", false},
		{"api.example.com", "10.0.0.8:443", false},
		{"api.example.com", "10.0.0.7:443", true},
		{"api.example.com", "192.168.1.1:443", true},
		{"api.example.com", "169.254.169.254:80", false},
		{"api.example.com", "0.0.0.0:80", false},
		{"api.example.com", "100.64.0.1:80", false},
		{"api.example.com", "224.0.0.1:80", false},
		{"api.example.com", "255.255.255.255:80", false},
		{"api.example.com", "[::]:80", false},
		{"api.example.com", "[::1]:80", true},
		{"api.example.com", "[::1]:81", false},
		{"api.example.com", "[fe80::1%eth0]:80", false},
		{"api.example.com", "[fd00::1]:80", false},
		{"api.example.com", "[::ffff:127.0.0.1]:80", false},
		{"api.example.com", "[64:ff9b::7f00:1]:80", false},
		{"api.example.com", "[2002:7f00:1::]:80", false},
		{"localhost", "127.0.0.1:80", true},
		{"localhost", "10.9.9.9:80", false},
		{"a.localhost", "127.0.0.5:80", true},
		{"localhost.example.com", "127.0.0.1:80", false},
	} {
		if err := r.address(tc.host, netip.MustParseAddrPort(tc.addr)); (err == nil) != tc.want {
			t.Errorf("%s at %s: got %v, want allowed %t", tc.host, tc.addr, err, tc.want)
		}
	}
}

func TestBadRules(t *testing.T) {
	for _, entry := range []string{"", "http://x", "*.example.com", "x:0", "x:port", "x:70000", "a/b", "user@x", "1.2.3.4/99"} {
		if _, err := parseRules([]string{entry}); err == nil {
			t.Errorf("entry %q: want an error", entry)
		}
	}
}

func TestWebhookExample(t *testing.T) {
	seen := map[string]int{}
	_, addr := site(t, func(w http.ResponseWriter, r *http.Request) {
		seen[r.Header.Get("Idempotency-Key")]++
		if strings.HasSuffix(r.URL.Path, "/bad") {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	})
	m := open(t, "../../../examples/plugins/wasm-http", Options{AllowHosts: []string{addr}})
	d, err := m.Describe(t.Context())
	if err != nil || d.Name != "webhook" {
		t.Fatalf("got %+v, %v", d, err)
	}
	inst := start(t, m, map[string]any{"url": "http://" + addr + "/{topic}/{value}", "method": "POST", "timeout": 10 * time.Second}, nil)
	results, err := put(t, inst, 20*time.Second, "good", "bad", "good")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []pluginapi.Outcome{pluginapi.Accept, pluginapi.Reject, pluginapi.Accept} {
		if results[i].Outcome != want || seen[fmt.Sprintf("t/1/%d", i)] != 1 {
			t.Errorf("record %d: got %+v, seen %v", i, results[i], seen)
		}
	}
	gone := start(t, m, map[string]any{"url": "http://127.0.0.1:1/", "method": "POST", "timeout": time.Second}, nil)
	_, err = put(t, gone, 20*time.Second, "x")
	if e := pluginapi.AsError(err, 0); err == nil || e.Class != pluginapi.Fatal || e.Code != "forbidden" {
		t.Errorf("host that is not allowed: got %v", err)
	}
}
