package loader

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// BenchmarkPut is what a form costs for a batch of records of 1 KB with a key
// of 16 bytes and a sink that does nothing.
func BenchmarkPut(b *testing.B) {
	dir := b.TempDir()
	if err := os.Link(fixtureFile, filepath.Join(dir, processPrefix+"good")); err != nil {
		b.Fatal(err)
	}
	c := NewCatalog(CatalogOptions{Dirs: []string{dir}, Builtins: []pluginapi.Plugin{fixturePlugin()}})
	b.Cleanup(c.Close)
	for _, form := range []string{"builtin:good", "process:good"} {
		for _, n := range []int{1, 500} {
			b.Run(form+"/records="+strconv.Itoa(n), func(b *testing.B) {
				benchmarkPut(b, c, form, n)
			})
		}
	}
}

func benchmarkPut(b *testing.B, c *Catalog, form string, n int) {
	p, err := c.Resolve(b.Context(), form, Pin{})
	if err != nil {
		b.Fatal(err)
	}
	r, err := p.Open(b.Context(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close(context.WithoutCancel(b.Context()))
	in, err := r.NewInstance(b.Context(), pluginapi.Config{Connector: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	if err := in.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	batch := make([]pluginapi.Record, n)
	for i := range batch {
		batch[i] = pluginapi.Record{
			Topic: "orders", Offset: int64(i), Timestamp: time.UnixMilli(1700000000000), TimestampType: pluginapi.CreateTime,
			Key: pluginapi.BytesDatum(bytes.Repeat([]byte("k"), 16)), Value: pluginapi.BytesDatum(bytes.Repeat([]byte("v"), 1024)),
		}
	}
	results := make([]pluginapi.Result, n)
	b.ReportAllocs()
	for b.Loop() {
		clear(results)
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		if err := in.Put(ctx, batch, results); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
