package main

import (
	"context"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
	"github.com/sluicehq/sluice/pluginapi/guest"
)

// target answers requests in place of the host.
type target struct {
	answers []any // A status, a *guest.Response or an error; the last one again.
	got     []guest.Request
}

func (f *target) do(_ context.Context, req guest.Request) (*guest.Response, error) {
	f.got = append(f.got, req)
	switch a := f.answers[min(len(f.got), len(f.answers))-1].(type) {
	case int:
		return &guest.Response{Status: a}, nil
	case *guest.Response:
		return a, nil
	default:
		return nil, a.(error)
	}
}

func started(t *testing.T, f *target, values map[string]any) *sink {
	t.Helper()
	s := &sink{do: f.do}
	if err := s.Start(t.Context(), pluginapi.Config{Values: values}); err != nil {
		t.Fatal(err)
	}
	return s
}

func record(key string, value pluginapi.Datum) pluginapi.Record {
	return pluginapi.Record{Topic: "orders", Partition: 1, Offset: 7, Key: pluginapi.BytesDatum([]byte(key)), Value: value}
}

func TestDescription(t *testing.T) {
	p := plugin()
	d := p.Describe()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	if !d.Can(pluginapi.CanReport) {
		t.Error("it does not report")
	}
}

func TestRequest(t *testing.T) {
	f := &target{answers: []any{200}}
	s := started(t, f, map[string]any{
		"url": "https://x.example/{topic}/{key}?p={partition}", "method": "PUT", "timeout": time.Second,
		"headers": map[string]any{"content-type": "text/plain", "X-Offset": "{offset}"},
	})
	results, err := s.Put(t.Context(), []pluginapi.Record{record("a/b ü", pluginapi.BytesDatum([]byte("body")))})
	if err != nil || results[0].Outcome != pluginapi.Accept {
		t.Fatalf("got %+v, %v", results, err)
	}
	want := guest.Request{
		Method: "PUT", URL: "https://x.example/orders/a%2Fb%20%C3%BC?p=1", Timeout: time.Second, Body: []byte("body"),
		Headers: []guest.Header{{Name: "Idempotency-Key", Value: "orders/1/7"}, {Name: "X-Offset", Value: "7"}, {Name: "content-type", Value: "text/plain"}},
	}
	if !reflect.DeepEqual(f.got[0], want) {
		t.Errorf("got  %+v\nwant %+v", f.got[0], want)
	}
}

func TestBody(t *testing.T) {
	for _, tc := range []struct {
		name, contentType, body string
		value                   pluginapi.Datum
	}{
		{"bytes", "application/octet-stream", "\xff", pluginapi.BytesDatum([]byte{0xff})},
		{"data", "application/json", `"text"`, pluginapi.DataDatum(&data.Typed{Value: data.String("text")})},
		{"tombstone", "application/octet-stream", "", pluginapi.Datum{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &target{answers: []any{200}}
			s := started(t, f, map[string]any{"url": "http://x/", "method": "POST"})
			if _, err := s.Put(t.Context(), []pluginapi.Record{record("k", tc.value)}); err != nil {
				t.Fatal(err)
			}
			if got := f.got[0]; string(got.Body) != tc.body || got.Headers[0].Value != tc.contentType {
				t.Errorf("got %q as %s", got.Body, got.Headers[0].Value)
			}
		})
	}
}

func TestStatuses(t *testing.T) {
	for status, want := range map[int]pluginapi.Result{
		200: {Outcome: pluginapi.Accept}, 204: {Outcome: pluginapi.Accept}, 299: {Outcome: pluginapi.Accept},
		408: {Outcome: pluginapi.Retry, Err: &pluginapi.Error{Class: pluginapi.Transient}},
		425: {Outcome: pluginapi.Retry, Err: &pluginapi.Error{Class: pluginapi.Transient}},
		429: {Outcome: pluginapi.Retry, Err: &pluginapi.Error{Class: pluginapi.Throttled}},
		500: {Outcome: pluginapi.Retry, Err: &pluginapi.Error{Class: pluginapi.Transient}},
		503: {Outcome: pluginapi.Retry, Err: &pluginapi.Error{Class: pluginapi.Transient}},
		401: {Outcome: pluginapi.Retry, Err: &pluginapi.Error{Class: pluginapi.Unavailable}},
		403: {Outcome: pluginapi.Retry, Err: &pluginapi.Error{Class: pluginapi.Unavailable}},
		407: {Outcome: pluginapi.Retry, Err: &pluginapi.Error{Class: pluginapi.Unavailable}},
		302: {Outcome: pluginapi.Reject, Err: &pluginapi.Error{Class: pluginapi.Invalid}},
		400: {Outcome: pluginapi.Reject, Err: &pluginapi.Error{Class: pluginapi.Invalid}},
		404: {Outcome: pluginapi.Reject, Err: &pluginapi.Error{Class: pluginapi.Invalid}},
		501: {Outcome: pluginapi.Reject, Err: &pluginapi.Error{Class: pluginapi.Invalid}},
		505: {Outcome: pluginapi.Reject, Err: &pluginapi.Error{Class: pluginapi.Invalid}},
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			got := answered(&guest.Response{Status: status})
			if got.Outcome != want.Outcome || (got.Err == nil) != (want.Err == nil) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
			if got.Err != nil && (got.Err.Class != want.Err.Class || got.Err.Code != strconv.Itoa(status)) {
				t.Errorf("got %+v, want %+v", got.Err, want.Err)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "999999999": maxRetryAfter,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Thu, 01 Jan 2026 00:00:00 GMT": 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

func TestNeighbours(t *testing.T) {
	broken := pluginapi.NewError(pluginapi.Transient, guest.CodeConnect, "refused")
	for _, tc := range []struct {
		name    string
		answers []any
		want    string // One letter for each of three records.
		sent    int
	}{
		{"one is rejected", []any{200, 400, 200}, "aja", 3},
		{"a connection breaks", []any{200, error(broken), 200}, "ara", 3},
		{"target is throttled", []any{200, 429}, "arr", 2},
		{"credentials are refused", []any{403}, "rrr", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &target{answers: tc.answers}
			s := started(t, f, map[string]any{"url": "http://x/", "method": "POST"})
			v := pluginapi.BytesDatum([]byte("v"))
			results, err := s.Put(t.Context(), []pluginapi.Record{record("1", v), record("2", v), record("3", v)})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, r := range results {
				got += string("?arj"[r.Outcome])
			}
			if got != tc.want || len(f.got) != tc.sent {
				t.Errorf("got %s with %d requests, want %s with %d", got, len(f.got), tc.want, tc.sent)
			}
		})
	}
}

func TestForbiddenHostIsFatal(t *testing.T) {
	f := &target{answers: []any{200, pluginapi.NewError(pluginapi.Fatal, guest.CodeForbidden, "x is not in allow_hosts")}}
	s := started(t, f, map[string]any{"url": "http://x/", "method": "POST"})
	results, err := s.Put(t.Context(), []pluginapi.Record{record("1", pluginapi.Datum{}), record("2", pluginapi.Datum{})})
	if e := pluginapi.AsError(err, 0); err == nil || e.Class != pluginapi.Fatal || results[0].Outcome != pluginapi.Accept {
		t.Errorf("got %+v, %v", results, err)
	}
}

func TestBadSettings(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"url without scheme":  {"url": "x.example/"},
		"scheme":              {"url": "file:///etc"},
		"placeholder in host": {"url": "http://{key}.example/"},
		"placeholder is host": {"url": "http://{key}"},
		"broken template":     {"url": "http://x/{nothing}"},
		"broken header":       {"url": "http://x/", "headers": map[string]any{"A": "{"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := new(sink).Start(t.Context(), pluginapi.Config{Values: values})
			if e := pluginapi.AsError(err, 0); err == nil || e.Class != pluginapi.Invalid {
				t.Errorf("got %v, want an invalid setting", err)
			}
		})
	}
}

func TestMissingFieldRejectsRecord(t *testing.T) {
	f := &target{answers: []any{200}}
	s := started(t, f, map[string]any{"url": "http://x/{header.h}", "method": "POST"})
	results, err := s.Put(t.Context(), []pluginapi.Record{record("1", pluginapi.Datum{})})
	if err != nil || results[0].Outcome != pluginapi.Reject || !strings.Contains(results[0].Err.Message, "header") || len(f.got) != 0 {
		t.Errorf("got %+v, %v", results[0].Err, err)
	}
}
