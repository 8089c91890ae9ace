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

// TestAnAcceptThatIsRefusedIsNotWrittenTwice: the record comes again (SHARE-17).
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

// TestWhatIsLeftOfADeliveryMayHaveBeenWritten: with it the delivery is over, in
// the middle of being looked at.
func TestWhatIsLeftOfADeliveryMayHaveBeenWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task, acquire := heldTask(t)
		task.cfg.Written = NewWritten()
		now := time.Now()
		d := acquire(0, 3)
		task.cfg.Written.remember(orders, 0, d.Records[0].Timestamp.UnixNano(), time.Hour, now)
		task.ledger.lost(&Lost{TopicPartition: orders, Session: 1, Ranges: []Range{{First: 1, Last: 2}}})
		task.enter(d, now)
		if !d.freed {
			t.Error("the delivery is not over")
		}
	})
}

func TestWrittenIsBoundedAndForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	w := NewWritten()
	r := testRecord(7)
	w.remember(orders, r.Offset, r.Timestamp.UnixNano(), time.Second, now)
	if all, again := w.look(now); !all || !again || !w.has(orders, &r, now) {
		t.Error("it does not remember")
	}
	other := testRecord(7)
	other.Timestamp = other.Timestamp.Add(time.Millisecond)
	if w.has(orders, &other, now) || w.has(TopicPartition{Topic: "orders", TopicID: pluginapi.TopicID{1}}, &r, now) {
		t.Error("it takes another record for it")
	}
	if all, again := w.look(now.Add(10 * time.Second)); all || !again {
		t.Errorf("after ten lock periods all records are looked at: %t, or those delivered again: %t", all, again)
	}
	at := now.Add(rememberedTime)
	if all, again := w.look(at); all || again || w.has(orders, &r, at) {
		t.Error("it does not forget")
	}
	for o := range int64(maxRemembered + 10) {
		w.remember(orders, o, o, time.Second, now)
	}
	if m := w.memory; len(m.entries) != maxRemembered || len(m.order) != maxRemembered {
		t.Errorf("%d and %d entries, want %d", len(m.entries), len(m.order), maxRemembered)
	}
}

// TestWhatARecordSurvivesIsNotHeldAgainstIt: deliveries that ended with a lost
// lock, or by our giving it back, while the worker lived, short of the broker's
// own limit.
func TestWhatARecordSurvivesIsNotHeldAgainstIt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		losses int
		first  int16 // Deliveries elsewhere.
		dead   bool
	}{
		{"lost six times", 6, 1, false},
		{"lost up to the broker's limit", 9, 1, true},
		{"lost, and delivered elsewhere", 4, 5, false},
		{"delivered elsewhere too often", 0, 6, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newFakeSource(20, 30*time.Second)
				src.count[15] = tt.first
				lost := 0
				sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
					acceptAll(r)
					for i := range b {
						if b[i].Offset == 15 && lost < tt.losses {
							lost++
							r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "", "later"))
							go func() { time.Sleep(time.Millisecond); src.lose(15) }()
						}
					}
					return nil
				}}
				letters := &fakeLetters{}
				cfg := testConfig(src, sink)
				cfg.Letters, cfg.DeliveryLimit = letters, 10
				if _, err := runFor(t, cfg, 20*time.Minute); err != nil {
					t.Fatal(err)
				}
				if got := src.verdicts(); got[Accept] != 20 || lost != tt.losses {
					t.Errorf("got %v after %d losses, want 20 accepted after %d", got, lost, tt.losses)
				}
				if dead := len(letters.letters) > 0; dead != tt.dead {
					t.Errorf("dead letters %v, want any: %t", letters.offsets(), tt.dead)
				}
			})
		})
	}
}

// TestWhatIsSurvivedDuringAPutCounts: deliveries that come and are lost again
// while an older one is still being put are survived as well.
func TestWhatIsSurvivedDuringAPutCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(20, 30*time.Second)
		puts := 0
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			acceptAll(r)
			for i := range b {
				if b[i].Offset != 15 {
					continue
				}
				if puts++; puts == 1 {
					for range 7 {
						src.lose(15)
						time.Sleep(time.Second)
					}
					r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "", "later"))
				}
			}
			return nil
		}}
		letters := &fakeLetters{}
		cfg := testConfig(src, sink)
		cfg.Letters, cfg.DeliveryLimit = letters, 10
		if _, err := runFor(t, cfg, 20*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 20 || puts != 2 || src.count[15] != 8 {
			t.Errorf("got %v after %d puts and %d deliveries of record 15, want 20 accepted after 2 and 8", got, puts, src.count[15])
		}
		if len(letters.letters) > 0 {
			t.Errorf("dead letters %v, want none", letters.offsets())
		}
	})
}
