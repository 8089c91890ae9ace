package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/sluicehq/sluice/pluginapi"
)

const (
	// maxAnswer is how much of an answer's body is read, so that the connection
	// can be used again; a longer one costs the connection.
	maxAnswer = 64 << 10
	// maxSnippet is how much of it goes into a message.
	maxSnippet = 300
)

// Put sends batch and returns its results.
func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results := make([]pluginapi.Result, len(batch))
	var mu sync.Mutex
	err := s.PutReport(ctx, batch, func(first int, part []pluginapi.Result) {
		mu.Lock()
		defer mu.Unlock()
		copy(results[first:], part)
	})
	return results, err
}

// PutReport sends batch and reports each result as it comes.
func (s *sink) PutReport(ctx context.Context, batch []pluginapi.Record, report func(first int, results []pluginapi.Result)) error {
	if s.batch {
		return s.putBatches(ctx, batch, report)
	}
	work := make(chan int)
	var wg sync.WaitGroup
	for range min(s.inFlight, len(batch)) {
		wg.Go(func() {
			for i := range work {
				report(i, []pluginapi.Result{s.putOne(ctx, &batch[i])})
			}
		})
	}
	for i := range batch {
		if ctx.Err() != nil {
			break // The rest was not touched: unknown.
		}
		work <- i
	}
	close(work)
	wg.Wait()
	return ctx.Err()
}

// putOne sends one record in a request of its own.
func (s *sink) putOne(ctx context.Context, r *pluginapi.Record) pluginapi.Result {
	req, err := s.address(r)
	if err != nil {
		return pluginapi.Rejected("template", err.Error())
	}
	body, contentType, err := s.single(r)
	if err != nil {
		return pluginapi.Rejected("format", err.Error())
	}
	return s.send(ctx, req, body, contentType, r.ID())
}

// request is where one request goes.
type request struct {
	url    string
	header http.Header
}

// key tells requests apart that cannot carry the same batch.
func (r *request) key() string {
	var b strings.Builder
	b.WriteString(r.url)
	for _, h := range sortedHeader(r.header) {
		b.WriteString("\n" + h)
	}
	return b.String()
}

// address fills in the templates for a record.
func (s *sink) address(r *pluginapi.Record) (*request, error) {
	text, err := s.url.AppendEscaped(nil, r, escapeURL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if bytes.Contains(text, []byte{0}) {
		return nil, errors.New("url: a field is empty, or names the folder above")
	}
	req := &request{url: string(text), header: make(http.Header, len(s.headers)+2)}
	if err := checkURL(req.url); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	for _, h := range s.headers {
		value, err := h.value.Append(nil, r)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", h.name, err)
		}
		if !httpguts.ValidHeaderFieldValue(string(value)) {
			return nil, fmt.Errorf("header %s: a field holds a character that a header cannot", h.name)
		}
		req.header[h.name] = []string{string(value)}
	}
	return req, nil
}

// escapeURL escapes a field for both a path and a query. In the path an empty
// field, "." and ".." would change the path itself: they leave a NUL byte for
// address to find.
func escapeURL(dst, field []byte) []byte {
	inPath := bytes.IndexByte(dst, '?') < 0
	if inPath && (len(field) == 0 || string(field) == "." || string(field) == "..") {
		return append(dst, 0)
	}
	return append(dst, strings.ReplaceAll(url.QueryEscape(string(field)), "+", "%20")...)
}

// single makes the body of a record that goes alone. A tombstone has none.
func (s *sink) single(r *pluginapi.Record) (body []byte, contentType string, err error) {
	if s.include {
		body, err = s.format.Append(nil, r)
		return body, "application/json", err
	}
	if b, ok := r.Value.Bytes(); ok { // Cloned: the transport may read it after an early answer, and so after Put.
		return bytes.Clone(b), "application/octet-stream", nil
	}
	if r.Value.IsAbsent() {
		return nil, "", nil
	}
	body, err = s.format.Append(nil, r)
	return body, "application/json", err
}

// send sends one request and returns what its answer means. Every path ends
// within the timeout and gives the connection back or closes it.
func (s *sink) send(ctx context.Context, to *request, body []byte, contentType, id string) pluginapi.Result {
	if s.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, s.method, to.url, bytes.NewReader(body))
	if err != nil {
		return pluginapi.Rejected("url", "the URL cannot be used")
	}
	for name, v := range to.header {
		req.Header[name] = v
	}
	if host := to.header.Get("Host"); host != "" {
		req.Host = host
	}
	if contentType != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", contentType)
	}
	if req.Header.Get("Idempotency-Key") == "" {
		req.Header.Set("Idempotency-Key", id)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return pluginapi.Retried(unsent(err))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	cerr := resp.Body.Close()
	if err = errors.Join(err, cerr); err != nil {
		return pluginapi.Retried(unsent(err)) // The answer never ended: nothing is sure.
	}
	return s.statuses.result(resp, s.snippet(text))
}

// unsent makes an error of the connection one the host can act on. A host that
// is not found or refuses is the target's outage, never the record's fault.
func unsent(err error) *pluginapi.Error {
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // Without the URL, which may hold a secret.
	}
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return pluginapi.NewError(pluginapi.Transient, "timeout", "no whole answer within the timeout")
	case errors.As(err, &dns):
		return pluginapi.NewError(pluginapi.Unavailable, "dns", dns.Error())
	case errors.As(err, &op) && op.Op == "dial":
		return pluginapi.NewError(pluginapi.Unavailable, "connect", op.Error())
	default:
		return pluginapi.NewError(pluginapi.Transient, "connection", err.Error())
	}
}

// snippet returns the beginning of an answer's body, one line of printable
// text. A target may send back what it was sent: secrets are taken out.
func (s *sink) snippet(body []byte) string {
	text := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' {
			return ' '
		}
		return r
	}, s.secrets.Replace(string(body[:min(len(body), 2*maxSnippet)])))
	// What was cut may be the beginning of a secret, so more was looked at than
	// is shown.
	if len(text) > maxSnippet {
		text = strings.ToValidUTF8(text[:maxSnippet], "")
	}
	return strings.TrimSpace(text)
}

// batchID is a stable idempotency key of a run of records.
func batchID(batch []pluginapi.Record, records []int) string {
	return batch[records[0]].ID() + "+" + strconv.Itoa(len(records))
}
