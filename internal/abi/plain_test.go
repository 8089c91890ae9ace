package abi

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

var manyTopics = func() []topicKey {
	topics := make([]topicKey, 300)
	for i := range topics {
		topics[i].name = string(rune('a' + i))
	}
	return topics
}()

// checkPlain fails if a record is read in one go that is not one, or reads
// differently item by item. It returns whether it was read in one go.
func checkPlain(t *testing.T, b []byte) bool {
	t.Helper()
	quick, slow := Decoder{topics: manyTopics}, Decoder{topics: manyTopics}
	var a, z pluginapi.Record
	one, other := reader{buf: b}, reader{buf: b}
	plain := quick.readPlain(&one, &a, len(quick.topics))
	if !plain {
		if one.pos != 0 || one.err != nil || !reflect.DeepEqual(a, pluginapi.Record{}) {
			t.Errorf("%x: left alone, but read up to %d: %+v, %v", b, one.pos, a, one.err)
		}
		return false
	}
	slow.readRecord(&other, &z, len(slow.topics))
	if (one.err == nil) != (other.err == nil) || one.err == nil && (one.pos != other.pos || !reflect.DeepEqual(a, z)) {
		t.Errorf("%x: in one go %+v up to %d, %v; item by item %+v up to %d, %v", b, a, one.pos, one.err, z, other.pos, other.err)
	}
	return one.err == nil
}

// plainRecords are records of bytes with numbers of every size.
func plainRecords() []pluginapi.Record {
	var all []pluginapi.Record
	for _, n := range []int64{0, 23, 24, 255, 256, math.MaxUint16, math.MaxUint16 + 1, math.MaxInt32} {
		for _, rec := range []pluginapi.Record{
			{Key: pluginapi.BytesDatum([]byte("k")), Value: pluginapi.BytesDatum(make([]byte, min(n, 70_000)))},
			{Key: pluginapi.BytesDatum([]byte{}), Headers: []pluginapi.Header{{Key: "h", Value: pluginapi.BytesDatum([]byte("v"))}, {Key: "none"}}},
		} {
			rec.Topic, rec.Partition, rec.Offset = "t", int32(n), n<<31|n                            //nolint:gosec // It fits.
			rec.Timestamp, rec.TimestampType = time.UnixMilli(n<<16-1), pluginapi.TimestampType(n%3) //nolint:gosec // It fits.
			all = append(all, rec)
		}
	}
	return all
}

// TestPlainRecordsAreReadAlike in one go and item by item: whole ones, those cut
// anywhere, and those with any byte of their heads another one.
func TestPlainRecordsAreReadAlike(t *testing.T) {
	for i, rec := range plainRecords() {
		b := appendRecord(nil, &rec, 10*i, new(schemaTable))
		after := append(append([]byte(nil), b...), make([]byte, 16)...) // As nearly all have more behind them.
		if !checkPlain(t, after) && len(b) > 46 {
			t.Errorf("%+v is not read in one go", rec)
		}
		for n := range min(len(b), 80) {
			checkPlain(t, b[:n])
			for v := range 256 {
				changed := append([]byte(nil), after[:min(len(after), 400)]...)
				changed[n] = byte(v)
				checkPlain(t, changed)
			}
		}
	}
}

func FuzzPlainRecord(f *testing.F) {
	for _, rec := range plainRecords() {
		if len(rec.Headers) > 0 {
			f.Add(appendRecord(nil, &rec, 1, new(schemaTable)))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkPlain(t, b) })
}

// TestAcceptsAreReadAlike: a run of accepts in one go, any other answer result by
// result, and both the same.
func TestAcceptsAreReadAlike(t *testing.T) {
	for n := range 40 {
		for other := range n + 1 { // The one that is no accept; none if it is n.
			results := pluginapi.Accepted(n)
			if other < n {
				results[other].Outcome = pluginapi.Retry
			}
			for _, part := range []bool{false, true} {
				got := make([]pluginapi.Result, n+2)
				final, sinkErr, err := DecodePutResponse(AppendPutResponse(nil, part, 2, results), got)
				if err != nil || sinkErr != nil || final == part || !reflect.DeepEqual(got[2:], results) {
					t.Fatalf("%d results, %d is none: %+v, final %v, %v, %v", n, other, got, final, sinkErr, err)
				}
			}
		}
	}
	if _, _, err := DecodePutResponse(append(AppendPutResponse(nil, false, 0, pluginapi.Accepted(3)), 0), make([]pluginapi.Result, 3)); err == nil {
		t.Error("a byte after the end is taken")
	}
}
