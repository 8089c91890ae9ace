package wasm

import (
	"bytes"
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
	"github.com/sluicehq/sluice/test/require"
)

// openC builds the example in C and opens it.
func openC(t testing.TB) *Module {
	t.Helper()
	if _, err := exec.LookPath("clang"); err != nil {
		require.Service(t, "clang", "no clang on PATH (make test-deps)")
	}
	path := filepath.Join(t.TempDir(), "drop.wasm")
	if out, err := exec.CommandContext(t.Context(), "../../examples/plugins/wasm-c/build", path).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	m, err := Open(t.Context(), path, Options{CacheDir: cacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestSinkInC(t *testing.T) {
	m := openC(t)
	d, err := m.Describe(t.Context())
	if err != nil || d.Name != "drop" {
		t.Fatalf("got %+v, %v", d, err)
	}
	var log bytes.Buffer
	inst, err := m.Instance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg := pluginapi.Config{Connector: "orders", Logger: slog.New(slog.NewTextHandler(&log, nil))}
	if err := inst.Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	batch := records("a", "", strings.Repeat("x", 70_000))
	batch[1].Value = pluginapi.Datum{} // A tombstone.
	batch[1].Headers = []pluginapi.Header{{Key: "h", Value: pluginapi.BytesDatum([]byte{0})}, {Key: "none"}}
	batch[2].Partition, batch[2].Offset, batch[2].Timestamp = 70_000, 1<<40, time.UnixMilli(-5)
	batch = append(batch, pluginapi.Record{Topic: "u", Value: pluginapi.DataDatum(&data.Typed{Value: data.Map([]data.Entry{
		{Key: data.String("list"), Value: data.Array([]data.Value{data.Int64(-1), data.Float64(0.5), data.Null()})},
		{Key: data.String("at"), Value: data.Timestamp(time.Unix(1, 2))},
	})})})
	for range 3 { // Its buffers are used again.
		results := make([]pluginapi.Result, len(batch))
		if err := inst.Put(t.Context(), batch, results); err != nil {
			t.Fatal(err)
		}
		for i := range results {
			if results[i].Outcome != pluginapi.Accept {
				t.Errorf("record %d: got %+v", i, results[i])
			}
		}
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "records dropped records=12 ") {
		t.Errorf("log: %s", log.String())
	}
}

// TestSinkInCReadsWhatIsCut: a request that ends anywhere is an error, never a trap.
func TestSinkInCReadsWhatIsCut(t *testing.T) {
	inst := start(t, openC(t), nil, nil)
	batch := records("a", "bb")
	batch[1].Headers = []pluginapi.Header{{Key: "h", Value: pluginapi.BytesDatum([]byte("v"))}}
	frame := abi.AppendPutRequest(nil, abi.PutHeader{Connector: "c"}, batch)
	for n := range len(frame) {
		ptr, err := inst.give(t.Context(), frame[:n:n])
		if err != nil {
			t.Fatal(err)
		}
		answer, err := inst.answer(t.Context(), inst.put, ptr, n)
		if err != nil {
			t.Fatalf("%d of %d bytes: %v", n, len(frame), err)
		}
		final, putErr, err := abi.DecodePutResponse(answer, make([]pluginapi.Result, len(batch)))
		if !final || err != nil || putErr == nil || putErr.Code != "malformed" {
			t.Errorf("%d of %d bytes: got %v, %v", n, len(frame), putErr, err)
		}
	}
}

// BenchmarkPutC is BenchmarkPut with the example in C.
func BenchmarkPutC(b *testing.B) {
	values := make([]string, 500)
	for i := range values {
		values[i] = strings.Repeat("x", 1024)
	}
	benchmarkPut(b, start(b, openC(b), nil, nil), values)
}
