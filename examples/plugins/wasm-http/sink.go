package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/guest"
	"github.com/sluicehq/sluice/pluginapi/template"
)

var (
	_ pluginapi.Sink     = (*sink)(nil)
	_ pluginapi.Reporter = (*sink)(nil)
)

// sink sends records one after the other.
type sink struct {
	do func(context.Context, guest.Request) (*guest.Response, error)

	url     *template.Template
	method  string
	headers []header
	timeout time.Duration
}

type header struct {
	name  string
	value *template.Template
}

// Start reads the settings. It connects to nothing.
func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	s.method, s.timeout = cfg.String("method"), cfg.Duration("timeout")
	var err error
	if s.url, err = template.Parse(cfg.String("url")); err != nil {
		return invalid("url: %v", err)
	}
	if err := checkURL(cfg.String("url")); err != nil {
		return invalid("url: %v", err)
	}
	values := cfg.StringMap("headers")
	s.headers = s.headers[:0]
	for _, name := range slices.Sorted(maps.Keys(values)) {
		t, err := template.Parse(values[name])
		if err != nil {
			return invalid("header %s: %v", name, err)
		}
		s.headers = append(s.headers, header{name, t})
	}
	return nil
}

func invalid(format string, args ...any) error {
	return pluginapi.NewError(pluginapi.Invalid, "settings", fmt.Sprintf(format, args...))
}

// checkURL makes sure that no record chooses the host. A host that is not
// allowed is then a fault of the settings, never of a record.
func checkURL(url string) error {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return errors.New("want http:// or https://")
	}
	host := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host = rest[:i]
	}
	if host == "" || strings.Contains(host, "{") {
		return errors.New("the host must be there, and without a placeholder")
	}
	return nil
}

// Stop has nothing to release: connections are the host's.
func (s *sink) Stop(context.Context) error { return nil }

// Put is there for the contract; the host calls PutReport.
func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	results := make([]pluginapi.Result, len(batch))
	err := s.PutReport(ctx, batch, func(first int, part []pluginapi.Result) { copy(results[first:], part) })
	return results, err
}

// PutReport sends the records in order and reports each at once: what was
// accepted stays so if time runs out later in the batch.
func (s *sink) PutReport(ctx context.Context, batch []pluginapi.Record, report func(int, []pluginapi.Result)) error {
	for i := range batch {
		result, err := s.send(ctx, &batch[i])
		if err != nil {
			return err
		}
		report(i, []pluginapi.Result{result})
		if stopsBatch(result) {
			// The target does not want the others either. They were not sent.
			for j := i + 1; j < len(batch); j++ {
				report(j, []pluginapi.Result{result})
			}
			return nil
		}
	}
	return nil
}

// stopsBatch reports whether a result says that the target takes nothing now.
func stopsBatch(r pluginapi.Result) bool {
	return r.Outcome == pluginapi.Retry && (r.Err.Class == pluginapi.Unavailable || r.Err.Class == pluginapi.Throttled)
}

// send sends one record. An error is about the settings, not about the record.
func (s *sink) send(ctx context.Context, rec *pluginapi.Record) (pluginapi.Result, error) {
	req, err := s.request(rec)
	if err != nil {
		return pluginapi.Rejected("template", err.Error()), nil
	}
	resp, err := s.do(ctx, req)
	if err == nil {
		return answered(resp), nil
	}
	e := pluginapi.AsError(err, pluginapi.Transient)
	switch e.Class {
	case pluginapi.Fatal:
		return pluginapi.Result{}, e // The sandbox does not allow the host.
	case pluginapi.Invalid:
		return pluginapi.Rejected(e.Code, e.Message), nil
	default:
		// Also where it is not known whether the target took the record: it is
		// sent again with the same Idempotency-Key.
		return pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Transient, Code: e.Code, Message: e.Message}), nil
	}
}

func (s *sink) request(rec *pluginapi.Record) (guest.Request, error) {
	req := guest.Request{Method: s.method, Timeout: s.timeout}
	url, err := s.url.AppendEscaped(nil, rec, appendPercent)
	if err != nil {
		return req, fmt.Errorf("url: %w", err)
	}
	req.URL = string(url)
	contentType := "application/octet-stream"
	if _, isData := rec.Value.Data(); isData {
		contentType = "application/json"
	}
	req.Headers = append(req.Headers, guest.Header{Name: "Content-Type", Value: contentType}, guest.Header{Name: "Idempotency-Key", Value: rec.ID()})
	for _, h := range s.headers {
		value, err := h.value.Append(nil, rec)
		if err != nil {
			return req, fmt.Errorf("header %s: %w", h.name, err)
		}
		req.Headers = slices.DeleteFunc(req.Headers, func(have guest.Header) bool { return strings.EqualFold(have.Name, h.name) })
		req.Headers = append(req.Headers, guest.Header{Name: h.name, Value: string(value)})
	}
	req.Body = body(rec.Value)
	return req, nil
}

func body(d pluginapi.Datum) []byte {
	if typed, ok := d.Data(); ok {
		return typed.Value.AppendJSON(nil)
	}
	b, _ := d.Bytes()
	return b
}

// appendPercent appends field as it may stand anywhere behind a URL's host.
func appendPercent(dst, field []byte) []byte {
	const hex = "0123456789ABCDEF"
	for _, c := range field {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
			dst = append(dst, c)
		default:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
	}
	return dst
}
