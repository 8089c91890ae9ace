package abi

import (
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/pluginapi"
)

func TestPutRequestRoundTrip(t *testing.T) {
	var dec Decoder // One for all: what stays from frame to frame must not leak.
	rapid.Check(t, func(t *rapid.T) {
		batch := genBatch(t)
		want := PutHeader{
			Deadline:  time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "deadline")) * time.Millisecond,
			Connector: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "connector"),
			Task:      rapid.IntRange(0, 99).Draw(t, "task"),
		}
		frame := AppendPutRequest(nil, want, batch)
		if room, ok := PutRequestRoom(want, batch); ok && room < len(frame) {
			t.Fatalf("a frame of %d bytes has no room in %d", len(frame), room)
		}
		header, got, err := dec.PutRequest(frame)
		if err != nil {
			t.Fatal(err)
		}
		if header != want {
			t.Fatalf("header: got %+v, want %+v", header, want)
		}
		if err := diffRecords(got, batch); err != nil {
			t.Fatal(err)
		}
		again := AppendPutRequest([]byte("x"), header, got)
		if !slices.Equal(again[1:], frame) {
			t.Fatalf("written again: got %x, want %x", again[1:], frame)
		}
	})
}

func TestPutResponseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 20).Draw(t, "records")
		first := rapid.IntRange(0, n).Draw(t, "first")
		kind := rapid.SampledFrom([]uint64{kindRest, kindError, kindPart}).Draw(t, "kind")
		count := n - first
		if kind != kindRest {
			count = rapid.IntRange(0, n-first).Draw(t, "count")
		}
		want := make([]pluginapi.Result, n)
		for i := range count {
			want[first+i] = pluginapi.Result{Outcome: pluginapi.Outcome(rapid.IntRange(1, 3).Draw(t, "outcome")), Err: genError(t)}
			if rapid.IntRange(0, 3).Draw(t, "emits") == 0 {
				want[first+i].Emitted = genEmitted(t)
				if e := want[first+i].Err; e != nil && *e == (pluginapi.Error{}) {
					want[first+i].Err = nil // What a result that emits has where it has none.
				}
			}
		}
		var frame []byte
		var wantErr *pluginapi.Error
		if kind == kindError {
			for wantErr = genError(t); wantErr == nil; {
				wantErr = &pluginapi.Error{Class: pluginapi.Fatal}
			}
			frame = AppendPutError(nil, wantErr, first, want[first:first+count])
		} else {
			frame = AppendPutResponse(nil, kind == kindPart, first, want[first:first+count])
		}
		got := make([]pluginapi.Result, n)
		final, putErr, err := DecodePutResponse(frame, got)
		if err != nil {
			t.Fatal(err)
		}
		if final != (kind != kindPart) || !reflect.DeepEqual(putErr, wantErr) {
			t.Fatalf("got final %t and error %+v, want kind %d and %+v", final, putErr, kind, wantErr)
		}
		clear(frame) // What was read does not alias it.
		for i := range want {
			if err := diffEmitted(got[i].Emitted, want[i].Emitted); err != nil {
				t.Fatalf("result %d: %v", i, err)
			}
			got[i].Emitted, want[i].Emitted = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestErrorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genError(t)
		got, err := DecodeError(AppendError(nil, want))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// everySetting has a setting of each type, and values for them.
func everySetting() ([]pluginapi.Setting, map[string]any) {
	settings := []pluginapi.Setting{
		{Name: "url", Type: pluginapi.String, Required: true, Template: true, Help: "Where to.", Group: "Target", Order: -3},
		{Name: "mode", Type: pluginapi.String, Default: "a", Allowed: []string{"a", "b"}, Deprecated: "use url"},
		{Name: "flag", Type: pluginapi.Bool, Default: true},
		{Name: "count", Type: pluginapi.Int, Default: int64(-7), Min: pluginapi.Limit(-10), Max: pluginapi.Limit(1e6)},
		{Name: "ratio", Type: pluginapi.Float, Default: 2.0},
		{Name: "timeout", Type: pluginapi.Duration, Default: 30 * time.Second, Min: pluginapi.LimitDuration(time.Millisecond)},
		{Name: "size", Type: pluginapi.Bytes, Default: int64(8 << 20)},
		{Name: "tags", Type: pluginapi.List, Default: []any{"x", "y"}},
		{Name: "waits", Type: pluginapi.List, Elem: pluginapi.Duration, Default: []any{time.Second}},
		{Name: "headers", Type: pluginapi.Map, Elem: pluginapi.String, Secret: true, Default: map[string]any{"k": "v"}},
		{Name: "auth", Type: pluginapi.Object, Fields: []pluginapi.Setting{
			{Name: "ttl", Type: pluginapi.Duration},
			{Name: "users", Type: pluginapi.List, Elem: pluginapi.Object, Fields: []pluginapi.Setting{{Name: "quota", Type: pluginapi.Bytes}}},
		}, Default: map[string]any{"ttl": time.Hour}},
	}
	values := map[string]any{
		"url": "http://x/ü", "mode": "b", "flag": false, "count": int64(1 << 40), "ratio": 0.1, "timeout": 1500 * time.Microsecond,
		"size": int64(1), "tags": []any{}, "waits": []any{time.Second, time.Duration(1)}, "headers": map[string]any{"": "", "a": "b"},
		"auth": map[string]any{"ttl": time.Minute, "users": []any{map[string]any{"quota": int64(5)}}},
	}
	return settings, values
}

func TestDescriptionRoundTrip(t *testing.T) {
	settings, _ := everySetting()
	for _, want := range []pluginapi.Description{
		{},
		{ABIVersion: 1, Name: "drop", Version: "1.0.0", Form: pluginapi.FormData},
		{
			ABIVersion: 1, Name: "all", Version: "1.2.3-rc.1", Summary: "one line", Documentation: "# text", Settings: settings,
			Form: pluginapi.FormBytes, MaxBatch: 500, MinHost: "0.1.0", Capabilities: []pluginapi.Capability{pluginapi.CanCheck, pluginapi.CanReport},
		},
	} {
		t.Run(want.Name, func(t *testing.T) {
			got, err := DecodeDescription(AppendDescription(nil, &want))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestStartRoundTrip(t *testing.T) {
	settings, values := everySetting()
	want := pluginapi.Config{Connector: "orders", Task: 3, Writer: 1, Worker: "w-1", Values: values}
	sent := want
	sent.Logger = slog.New(slog.DiscardHandler)
	got, err := DecodeStart(AppendStart(nil, sent, settings), settings)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestHTTPRoundTrip(t *testing.T) {
	q := HTTPRequest{
		Method: "POST", URL: "http://x/", Headers: []HTTPHeader{{"A", "1"}, {"A", "2"}}, Body: []byte("body"), Timeout: time.Second,
	}
	gotQ, err := DecodeHTTPRequest(AppendHTTPRequest(nil, &q))
	if err != nil || !reflect.DeepEqual(gotQ, q) {
		t.Errorf("request: got %+v, %v, want %+v", gotQ, err, q)
	}
	for _, a := range []HTTPResponse{
		{Status: 200, Headers: []HTTPHeader{{"Retry-After", "1"}}, Body: []byte{0}},
		{Failure: HTTPForbidden, Message: "not allowed"},
	} {
		got, err := DecodeHTTPResponse(AppendHTTPResponse(nil, &a))
		if err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("response: got %+v, %v, want %+v", got, err, a)
		}
	}
}
