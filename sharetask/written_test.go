package sharetask

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// TestARecordLostInItsPutIsWrittenOnce: delivered again while it is still being
// put, or after it was written, it is not put a second time.
func TestARecordLostInItsPutIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(30, 30*time.Second)
		puts := map[int64]int{}
		sink := &fakeSink{put: func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			for i := range b {
				puts[b[i].Offset]++
			}
			if b[0].Offset == 11 && puts[11] == 1 { // One of the put stays ours: it is not cancelled.
				src.lose(12, 13, 14)
				time.Sleep(5 * time.Second)
			}
			acceptAll(r)
			for i := range b {
				if b[i].Offset == 14 && puts[14] == 1 { // Not written: it has to be put again.
					r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "", "later"))
				}
			}
			return ctx.Err()
		}}
		if _, err := runFor(t, testConfig(src, sink), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 30 {
			t.Errorf("got %v, want 30 accepted", got)
		}
		for o, n := range puts {
			if want := map[bool]int{true: 2, false: 1}[o == 14]; n != want {
				t.Errorf("record %d was put %d times, want %d", o, n, want)
			}
		}
	})
}

// TestAnAcceptThatIsRefusedIsNotWrittenTwice: the record comes again.
func TestAnAcceptThatIsRefusedIsNotWrittenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(40, 30*time.Second)
		src.refuse = map[int64]bool{11: true, 12: true, 17: true}
		puts := map[int64]int{}
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			for i := range b {
				puts[b[i].Offset]++
			}
			acceptAll(r)
			return nil
		}}
		if _, err := runFor(t, testConfig(src, sink), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 40 || src.count[11] != 2 {
			t.Errorf("got %v and %d deliveries of record 11, want 40 accepted and 2", got, src.count[11])
		}
		for o, n := range puts {
			if n != 1 {
				t.Errorf("record %d was put %d times", o, n)
			}
		}
	})
}

func TestWrittenIsBoundedAndForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	w := NewWritten()
	r := testRecord(7)
	w.remember(orders, r.Offset, r.Timestamp.UnixNano(), time.Second, now)
	if w.empty(now) || !w.has(orders, &r, now) {
		t.Error("it does not remember")
	}
	other := testRecord(7)
	other.Timestamp = other.Timestamp.Add(time.Millisecond)
	if w.has(orders, &other, now) || w.has(TopicPartition{Topic: "orders", TopicID: pluginapi.TopicID{1}}, &r, now) {
		t.Error("it takes another record for it")
	}
	if at := now.Add(10 * time.Second); w.has(orders, &r, at) || !w.empty(at) {
		t.Error("it does not forget")
	}
	for o := range int64(maxWritten + 10) {
		w.remember(orders, o, o, time.Second, now)
	}
	if len(w.entries) != maxWritten || len(w.order) != maxWritten {
		t.Errorf("%d and %d entries, want %d", len(w.entries), len(w.order), maxWritten)
	}
}
