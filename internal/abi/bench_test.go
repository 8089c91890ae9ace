package abi

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// bytesBatch returns n records of a 16-byte key, a 1,024-byte value and one header.
func bytesBatch(n int) []pluginapi.Record {
	batch := make([]pluginapi.Record, n)
	value := make([]byte, 1024)
	for i := range batch {
		batch[i] = pluginapi.Record{
			Topic: "orders", TopicID: pluginapi.TopicID{1}, Partition: 3, Offset: int64(1_000_000 + i),
			Timestamp: time.UnixMilli(1_700_000_000_000), TimestampType: pluginapi.CreateTime,
			Key: pluginapi.BytesDatum(value[:16]), Value: pluginapi.BytesDatum(value),
			Headers: []pluginapi.Header{{Key: "trace", Value: pluginapi.BytesDatum(value[:8])}},
		}
	}
	return batch
}

func TestBytesPathDoesNotAllocate(t *testing.T) {
	batch := bytesBatch(500)
	header := PutHeader{Deadline: time.Second, Connector: "orders", Task: 1}
	frame := AppendPutRequest(nil, header, batch)
	buf := make([]byte, 0, len(frame))
	if n := testing.AllocsPerRun(10, func() { buf = AppendPutRequest(buf[:0], header, batch) }); n != 0 {
		t.Errorf("write: %v allocations, want 0", n)
	}
	var dec Decoder
	read := func() {
		if _, _, err := dec.PutRequest(frame); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(10, read); n != 0 {
		t.Errorf("read: %v allocations, want 0", n)
	}
	results := pluginapi.Accepted(500)
	answer := AppendPutResponse(nil, false, 0, results)
	if n := testing.AllocsPerRun(10, func() {
		buf = AppendPutResponse(buf[:0], false, 0, results)
		if _, _, err := DecodePutResponse(answer, results); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("response: %v allocations, want 0", n)
	}
}

func BenchmarkAppendPutRequest(b *testing.B) {
	batch := bytesBatch(500)
	buf := AppendPutRequest(nil, PutHeader{Connector: "orders"}, batch)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendPutRequest(buf[:0], PutHeader{Connector: "orders"}, batch)
	}
}

func BenchmarkDecodePutRequest(b *testing.B) {
	frame := AppendPutRequest(nil, PutHeader{Connector: "orders"}, bytesBatch(500))
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	var dec Decoder
	for b.Loop() {
		if _, _, err := dec.PutRequest(frame); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutResponse(b *testing.B) {
	results := pluginapi.Accepted(500)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendPutResponse(buf[:0], false, 0, results)
		if _, _, err := DecodePutResponse(buf, results); err != nil {
			b.Fatal(err)
		}
	}
}
