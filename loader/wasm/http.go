package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/sluicehq/sluice/internal/abi"
)

// Bounds on HTTP requests.
const (
	maxAnswer       = 16 << 20
	maxAnswerHeader = 256 << 10
	maxRedirects    = 5
	dialTimeout     = 30 * time.Second
	idleTimeout     = 90 * time.Second
)

// sandbox makes the HTTP requests of a module's instances, which share its
// connections. Nothing of the worker's environment is in it: no proxy, no
// cookies, no credentials.
type sandbox struct {
	rules  rules
	client http.Client
}

func newSandbox(allow []string) (*sandbox, error) {
	r, err := parseRules(allow)
	if err != nil {
		return nil, err
	}
	s := &sandbox{rules: r}
	s.client = http.Client{
		Transport: &http.Transport{
			DialContext:            s.dial,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    8,
			IdleConnTimeout:        idleTimeout,
			TLSHandshakeTimeout:    dialTimeout,
			MaxResponseHeaderBytes: maxAnswerHeader,
		},
		CheckRedirect: followRedirect,
	}
	return s, nil
}

func (s *sandbox) close() { s.client.CloseIdleConnections() }

// dial connects to an allowed host. The address is looked at when it is
// connected to, so there is no second lookup that could give another one.
func (s *sandbox) dial(ctx context.Context, network, target string) (net.Conn, error) {
	host, port, err := splitTarget(target)
	if err != nil {
		return nil, err
	}
	if err := s.rules.host(host, port); err != nil {
		return nil, err
	}
	d := net.Dialer{
		Timeout: dialTimeout,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			addr, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: address %q: %w", errForbidden, address, err)
			}
			return s.rules.address(host, addr)
		},
	}
	return d.DialContext(ctx, network, target)
}

func splitTarget(target string) (string, uint16, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q: %w", port, err)
	}
	return host, uint16(n), nil
}

// followRedirect follows redirects of GET and HEAD that stay where they are. It
// returns any other to the module as the answer it is.
func followRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	safe := first.Method == http.MethodGet || first.Method == http.MethodHead
	if !safe || len(via) > maxRedirects || req.URL.Scheme != first.URL.Scheme || !strings.EqualFold(req.URL.Host, first.URL.Host) {
		return http.ErrUseLastResponse
	}
	return nil
}

// do makes a request within ctx. It never fails: a failure is an answer too.
func (s *sandbox) do(ctx context.Context, q *abi.HTTPRequest) abi.HTTPResponse {
	if q.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.Timeout)
		defer cancel()
	}
	req, err := newRequest(ctx, q)
	if err != nil {
		return failure(abi.HTTPInvalid, err)
	}
	host, port, err := splitTarget(targetOf(req.URL))
	if err != nil {
		return failure(abi.HTTPInvalid, err)
	}
	// A connection that is open already is not dialed, so it is asked here too.
	if err := s.rules.host(host, port); err != nil {
		return failure(abi.HTTPForbidden, err)
	}
	answer, err := s.client.Do(req)
	if err != nil {
		return failed(ctx, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return failed(ctx, fmt.Errorf("read answer: %w", err))
	case len(body) > maxAnswer:
		return failure(abi.HTTPTooLarge, fmt.Errorf("answer with status %d is larger than %d MiB", answer.StatusCode, maxAnswer>>20))
	}
	out := abi.HTTPResponse{Status: answer.StatusCode, Body: body}
	for _, name := range slices.Sorted(maps.Keys(answer.Header)) {
		for _, v := range answer.Header[name] {
			out.Headers = append(out.Headers, abi.HTTPHeader{Name: name, Value: v})
		}
	}
	return out
}

// targetOf returns the host and port of an http or https URL.
func targetOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// withheld are headers that are the connection's, not the module's. Host is
// one of them: it could name another site behind an allowed address.
var withheld = [...]string{
	"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func newRequest(ctx context.Context, q *abi.HTTPRequest) (*http.Request, error) {
	u, err := url.Parse(q.URL)
	if err != nil {
		return nil, errors.Unwrap(err) // Without the URL, which may hold a secret.
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("url is not an absolute http or https one")
	}
	// The body lies in the module's memory, which it has back before a client
	// that got an early answer has stopped to read it.
	req, err := http.NewRequestWithContext(ctx, q.Method, u.String(), bytes.NewReader(bytes.Clone(q.Body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "sluice")
	set := make(map[string]bool, len(q.Headers))
	for _, h := range q.Headers {
		name := http.CanonicalHeaderKey(h.Name)
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(h.Value) {
			return nil, fmt.Errorf("header %q is not valid", h.Name)
		}
		if slices.Contains(withheld[:], name) {
			return nil, fmt.Errorf("header %s cannot be set", name)
		}
		if !set[name] {
			req.Header.Del(name)
			set[name] = true
		}
		req.Header.Add(name, h.Value)
	}
	return req, nil
}

func failure(kind abi.HTTPFailure, err error) abi.HTTPResponse {
	return abi.HTTPResponse{Failure: kind, Message: err.Error()}
}

// failed says what an error of the HTTP client is. Its text is without the URL.
func failed(ctx context.Context, err error) abi.HTTPResponse {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errForbidden):
		return failure(abi.HTTPForbidden, err)
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return failure(abi.HTTPTimeout, err)
	default:
		return failure(abi.HTTPConnect, err)
	}
}
