package wasm

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
)

// BenchmarkPut puts 500 records of 1 KB into a guest in Go that looks at the
// first word of each.
func BenchmarkPut(b *testing.B) {
	values := make([]string, 500)
	for i := range values {
		values[i] = "accept " + strings.Repeat("x", 1024)
	}
	benchmarkPut(b, start(b, open(b, "guest", Options{}), nil, nil), values)
}

func benchmarkPut(b *testing.B, inst *Instance, values []string) {
	b.Helper()
	batch := records(values...)
	results := make([]pluginapi.Result, len(batch))
	b.ReportAllocs()
	for b.Loop() {
		clear(results)
		if err := inst.Put(b.Context(), batch, results); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(batch))/b.Elapsed().Seconds(), "records/s")
}
