package abi

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// checkMemory fails if reading b took far more memory than it is long. It looks
// only at what is big enough to be told from noise.
func checkMemory(t *testing.T, b []byte, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if took, limit := after.TotalAlloc-before.TotalAlloc, uint64(16<<20+1500*len(b)); took > limit {
		t.Errorf("%d bytes made the reader take %d bytes of memory", len(b), took)
	}
}

func checkError(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, ErrMalformed) {
		t.Errorf("error %v is not ErrMalformed", err)
	}
}

func FuzzDecodePutRequest(f *testing.F) {
	s := data.NewStruct("s", data.Field{Name: "a", Schema: &data.Schema{Kind: data.KindArray, Elem: &data.Schema{Kind: data.KindDecimal}}},
		data.Field{Name: "t", Schema: &data.Schema{Kind: data.KindTimestamp, Default: data.Timestamp(time.Unix(1, 2))}})
	d, _ := data.ParseDecimal("12345678901234567890123.4500")
	f.Add(AppendPutRequest(nil, PutHeader{Deadline: time.Second, Connector: "c"}, bytesBatch(3)))
	f.Add(AppendPutRequest(nil, PutHeader{}, []pluginapi.Record{{
		Topic: "t", Key: pluginapi.DataDatum(&data.Typed{Value: data.Map([]data.Entry{{Key: data.UUID([16]byte{1}), Value: data.Float32(float32(math.Inf(1)))}})}),
		Value: pluginapi.DataDatum(&data.Typed{Schema: s, Value: data.StructValue(s, []data.Value{data.Array([]data.Value{data.DecimalValue(d)}), {}})}),
	}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkMemory(t, b, func() {
			h, batch, err := DecodePutRequest(b)
			checkError(t, err)
			if err != nil {
				return
			}
			// What is read can be written, and is read the same again.
			first := AppendPutRequest(nil, h, batch)
			h, batch, err = DecodePutRequest(first)
			if err != nil {
				t.Fatalf("read what was written: %v", err)
			}
			if second := AppendPutRequest(nil, h, batch); !bytes.Equal(first, second) {
				t.Errorf("got %x, want %x", second, first)
			}
		})
	})
}

func FuzzDecodePutResponse(f *testing.F) {
	f.Add(AppendPutResponse(nil, false, 0, pluginapi.Accepted(7)))
	f.Add(AppendPutResponse(nil, true, 1, []pluginapi.Result{pluginapi.Rejected("1", "2")}))
	f.Add(AppendPutError(nil, pluginapi.NewError(pluginapi.Fatal, "a", "b"), 0, nil))
	schema := &data.Schema{Kind: data.KindString}
	f.Add(AppendPutResponse(nil, true, 2, []pluginapi.Result{{Outcome: pluginapi.Accept, Emitted: []pluginapi.Emitted{{
		Topic: "t", Placed: true, Key: pluginapi.BytesDatum([]byte("k")), Value: pluginapi.DataDatum(&data.Typed{Schema: schema, Value: data.String("v")}),
		Headers: []pluginapi.Header{{Key: "h"}},
	}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkMemory(t, b, func() {
			results := make([]pluginapi.Result, 7)
			_, _, err := DecodePutResponse(b, results)
			checkError(t, err)
			for i, res := range results {
				if res.Outcome > pluginapi.Reject || res.Outcome == 0 && res.Err != nil {
					t.Errorf("result %d: got %+v", i, res)
				}
			}
		})
	})
}

func FuzzDecodeDescription(f *testing.F) {
	settings, _ := everySetting()
	f.Add(AppendDescription(nil, &pluginapi.Description{Name: "x", Settings: settings, Capabilities: []pluginapi.Capability{1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkMemory(t, b, func() {
			d, err := DecodeDescription(b)
			checkError(t, err)
			first := AppendDescription(nil, &d)
			again, err := DecodeDescription(first)
			if err != nil {
				t.Fatalf("read what was written: %v", err)
			}
			if second := AppendDescription(nil, &again); !bytes.Equal(first, second) {
				t.Errorf("got %x, want %x", second, first)
			}
		})
	})
}

func FuzzDecodeStart(f *testing.F) {
	settings, values := everySetting()
	f.Add(AppendStart(nil, pluginapi.Config{Connector: "c", Values: values}, settings))
	f.Fuzz(func(t *testing.T, b []byte) {
		checkMemory(t, b, func() {
			cfg, err := DecodeStart(b, settings)
			checkError(t, err)
			if _, err := DecodeStart(AppendStart(nil, cfg, settings), settings); err != nil {
				t.Fatalf("read what was written: %v", err)
			}
		})
	})
}

func FuzzDecodeError(f *testing.F) {
	f.Add(AppendError(nil, pluginapi.NewError(pluginapi.Fatal, "a", "b")))
	f.Add([]byte{itemNull})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := DecodeError(b)
		checkError(t, err)
	})
}

func FuzzDecodeHTTP(f *testing.F) {
	f.Add(AppendHTTPRequest(nil, &HTTPRequest{URL: "http://x", Headers: []HTTPHeader{{"a", "b"}}, Timeout: 1}))
	f.Add(AppendHTTPResponse(nil, &HTTPResponse{Status: 200, Body: []byte("x")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := DecodeHTTPRequest(b)
		checkError(t, err)
		_, err = DecodeHTTPResponse(b)
		checkError(t, err)
	})
}
