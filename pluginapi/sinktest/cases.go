package sinktest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// checkResults: one result per record, each at its record's place.
func checkResults(t testing.TB, target *Target) {
	s := target.started(t)
	target.putAll(t, s, target.records("one", 1, 10))
	if target.Bad == nil {
		target.putAll(t, s, target.records("many", 50, 10))
		return
	}
	for _, at := range []int{0, 7, 19} {
		batch := target.records("place", 20, 10)
		batch[at] = target.Bad(t)
		results, err := target.put(t, s, batch)
		if err != nil {
			t.Fatalf("put with a bad record at %d: %v", at, err)
		}
		for i, r := range results {
			want := pluginapi.Accept
			if i == at {
				want = pluginapi.Reject
			}
			if r.Outcome != want {
				t.Errorf("with a bad record at %d, record %d: %s, want %s", at, i, describe(r), want)
			}
		}
		if r := results[at]; r.Outcome == pluginapi.Reject && (r.Err == nil || r.Err.Error() == "") {
			t.Error("a record is rejected without a reason")
		}
	}
}

// checkEmpty: a batch of nothing is no error, before and after another.
func checkEmpty(t testing.TB, target *Target) {
	s := target.started(t)
	for range 2 {
		if _, err := target.put(t, s, nil); err != nil {
			t.Fatalf("put nothing: %v", err)
		}
		target.putAll(t, s, target.records("some", 2, 10))
	}
}

// checkStored: what is accepted is there when Put returns, not later.
func checkStored(t testing.TB, target *Target) {
	s := target.started(t)
	for _, name := range []string{"first", "second"} {
		batch := target.records(name, 25, 100)
		target.putAll(t, s, batch)
		target.wantStored(t, batch, 1)
	}
	if n := len(target.Stored(t)); n != 50 {
		t.Errorf("the target holds %d records, want the 50 that were put", n)
	}
}

// checkNotKept: the batch's memory is used again once Put returned.
func checkNotKept(t testing.TB, target *Target) {
	s := target.started(t)
	batch := target.records("kept", 20, 50)
	given, results := clone(batch), make([]pluginapi.Result, len(batch))
	if err := target.call(t, "Put", func(ctx context.Context) error { return s.Put(ctx, given, results) }); err != nil {
		t.Fatalf("put: %v", err)
	}
	scramble(given)
	target.putAll(t, s, target.records("next", 1, 10))
	target.stop(t, s)
	target.wantStored(t, batch, 1)
}

// checkTombstones: a record without a value is decided, and its neighbours are
// stored.
func checkTombstones(t testing.TB, target *Target) {
	s := target.started(t)
	batch := target.records("alive", 5, 10)
	for _, at := range []int{0, 3} {
		batch[at].Value = pluginapi.Datum{}
	}
	batch[4].Key = pluginapi.Datum{}
	alive := []pluginapi.Record{batch[1], batch[2]}
	results, err := target.put(t, s, batch)
	if err != nil {
		t.Fatalf("put tombstones: %v", err)
	}
	wantDecided(t, results)
	for _, i := range []int{1, 2} {
		if results[i].Outcome != pluginapi.Accept {
			t.Errorf("a neighbour of a tombstone: %s, want accept", describe(results[i]))
		}
	}
	target.wantStored(t, alive, 1)
}

// wantDecided fails unless each record is accepted or rejected: it is the
// record that is odd, not the target.
func wantDecided(t testing.TB, results []pluginapi.Result) {
	t.Helper()
	for i, r := range results {
		if r.Outcome != pluginapi.Accept && r.Outcome != pluginapi.Reject {
			t.Errorf("record %d: %s, want accept or reject", i, describe(r))
		}
	}
}

// checkLargeBatch: more than 4 MiB, the size where many a transport ends.
func checkLargeBatch(t testing.TB, target *Target) {
	s := target.started(t)
	batch := target.records("bulk", 150, 32<<10)
	target.putAll(t, s, batch)
	target.wantStored(t, batch, 1)
}

func checkLargeRecord(t testing.TB, target *Target) {
	s := target.started(t)
	size := target.LargestRecord
	if size == 0 {
		size = 1 << 20
	}
	batch := []pluginapi.Record{target.record("small-0", 0, 10), target.record("large", 1, size), target.record("small-1", 2, 10)}
	target.putAll(t, s, batch)
	target.wantStored(t, batch, 1)
}

// checkKeys: keys and headers of any text and any bytes. A sink may reject what
// its target cannot hold; it must not fail, nor lose what it accepts.
func checkKeys(t testing.TB, target *Target) {
	s := target.started(t)
	keys := []string{"ünïcödé", "日本語", "😀", "a\"b'c\\d`e", "line\nbreak\ttab", "", "\x00", "\xff\xfe\x80", " space ", "{topic}", "%2e%2e/", "../up"}
	batch := target.records("key", len(keys), 10)
	for i, k := range keys {
		if batch[i].Key = pluginapi.BytesDatum([]byte(k)); target.Data {
			batch[i].Key = stringDatum(k)
		}
		batch[i].Headers = []pluginapi.Header{
			{Key: "same", Value: pluginapi.BytesDatum([]byte(k))},
			{Key: "same", Value: pluginapi.BytesDatum([]byte("\xff\x00"))},
			{Key: "null"},
			{Key: "ключ " + "\n", Value: pluginapi.BytesDatum([]byte{})},
		}
	}
	batch = append(batch, target.record("wört-😀", int64(len(batch)), 10))
	results, err := target.put(t, s, batch)
	if err != nil {
		t.Fatalf("put: %v", err)
	}
	wantDecided(t, results)
	var accepted []pluginapi.Record
	for i, r := range results {
		if r.Outcome == pluginapi.Accept {
			accepted = append(accepted, batch[i])
		}
	}
	target.wantStored(t, accepted, 1)
	if last := results[len(results)-1]; last.Outcome != pluginapi.Accept {
		t.Errorf("a record with text in its value that is not ASCII: %s, want accept", describe(last))
	}
	target.putAll(t, s, target.records("after", 3, 10))
}

// checkCancelled: a put whose context has ended returns soon and accepts
// nothing it did not store. What it did not accept can be put again, with a new
// sink if this one is gone.
func checkCancelled(t testing.TB, target *Target) {
	s := target.started(t)
	batch := target.records("cancelled", 20, 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	given, results := clone(batch), make([]pluginapi.Result, len(batch))
	err := target.callContext(ctx, t, "Put", func(ctx context.Context) error { return s.Put(ctx, given, results) })
	wantResults(t, results)
	var again, accepted []pluginapi.Record
	for i, r := range results {
		switch r.Outcome {
		case pluginapi.Accept:
			accepted = append(accepted, batch[i])
		case pluginapi.Reject:
			t.Errorf("record %d: %s, though the context had ended", i, describe(r))
		default:
			again = append(again, batch[i])
		}
	}
	if len(again) > 0 && err == nil && slices.ContainsFunc(results, func(r pluginapi.Result) bool { return r.Outcome == 0 }) {
		t.Error("records are unknown and there is no error")
	}
	target.wantStored(t, accepted, 1)
	if s.Gone() {
		s = target.started(t)
	}
	target.putAll(t, s, again)
	target.wantStored(t, batch, 2)
}

// checkWritesNothing: a started sink that was asked for its target left no trace.
func checkWritesNothing(t testing.TB, target *Target) {
	s := target.started(t)
	if err := target.call(t, "Check", s.Check); err != nil {
		t.Errorf("check: %v", err)
	}
	target.stop(t, s)
	if have := target.Stored(t); len(have) > 0 {
		t.Errorf("the target holds %d records and nothing was put", len(have))
	}
}

// checkStartError: wrong settings fail Start, for good, and Stop still works.
func checkStartError(t testing.TB, target *Target) {
	s := target.own(t, target.Misconfigured)
	err := target.call(t, "Start", s.Start)
	if err == nil {
		t.Error("a sink with wrong settings started")
	} else if e := pluginapi.AsError(err, pluginapi.NoClass); e.Class != pluginapi.Invalid && e.Class != pluginapi.Fatal {
		t.Errorf("start with wrong settings: class %s, want invalid or fatal: %v", e.Class, err)
	}
	target.stop(t, s) // Also after a failed start.
}

// checkRestart: a sink keeps nothing that its successor needs.
func checkRestart(t testing.TB, target *Target) {
	var all []pluginapi.Record
	for _, name := range []string{"first", "second", "third"} {
		s := target.started(t)
		batch := target.records(name, 10, 50)
		target.putAll(t, s, batch)
		target.stop(t, s)
		all = append(all, batch...)
	}
	target.wantStored(t, all, 1)
}

// checkTwo: instances share nothing but their target.
func checkTwo(t testing.TB, target *Target) {
	const sinks, puts = 2, 5
	type answer struct {
		results []pluginapi.Result
		err     error
	}
	var all []pluginapi.Record
	batches := make([][][]pluginapi.Record, sinks)
	instances := make([]Sink, sinks)
	for i := range instances {
		instances[i] = target.started(t)
		for p := range puts {
			batch := target.records(string(rune('a'+i))+string(rune('0'+p)), 20, 100)
			for n := range batch {
				batch[n].Offset += int64(1000 * (puts*i + p))
			}
			batches[i] = append(batches[i], batch)
			all = append(all, batch...)
		}
	}
	answers := make(chan answer, sinks*puts)
	for i := range instances {
		go func() {
			for _, batch := range batches[i] {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), callTimeout)
				results := make([]pluginapi.Result, len(batch))
				err := instances[i].Put(ctx, clone(batch), results)
				cancel()
				answers <- answer{results, err}
			}
		}()
	}
	late := time.NewTimer(puts*callTimeout + callGrace)
	defer late.Stop()
	for range sinks * puts {
		select {
		case a := <-answers:
			if a.err != nil {
				t.Fatalf("put beside another instance: %v", a.err)
			}
			for i, r := range a.results {
				if r.Outcome != pluginapi.Accept {
					t.Fatalf("record %d put beside another instance: %s, want accept", i, describe(r))
				}
			}
		case <-late.C:
			t.Fatal("two instances at once do not come to an end")
		}
	}
	target.wantStored(t, all, 1)
}

// checkDuplicates: a record that is put again is accepted again.
func checkDuplicates(t testing.TB, target *Target) {
	s := target.started(t)
	batch := target.records("again", 10, 50)
	target.putAll(t, s, batch)
	target.putAll(t, s, batch[3:])
	target.putAll(t, target.started(t), batch[:1])
	most := 3
	if target.Folds {
		most = 1
	}
	target.wantStored(t, batch, most)
}
