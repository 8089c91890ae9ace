package sharetask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

func TestEveryRecordIsPutOnceAndAccepted(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lock := 30 * time.Second
			if ordered {
				lock = 0
			}
			src := newFakeSource(1000, lock)
			var mu sync.Mutex
			var puts []int64
			sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
				mu.Lock()
				defer mu.Unlock()
				for i := range b {
					puts = append(puts, b[i].Offset)
				}
				acceptAll(r)
				return nil
			}}
			cfg := testConfig(src, sink)
			cfg.Parallelism, cfg.Ordered = 4, ordered
			if _, err := runFor(t, cfg, time.Minute); err != nil {
				t.Fatal(err)
			}
			if got := src.verdicts(); got[Accept] != 1000 {
				t.Errorf("ordered=%v: got %v, want 1000 accepted", ordered, got)
			}
			if ordered && !slices.IsSorted(puts) {
				t.Error("puts are out of order")
			}
			slices.Sort(puts)
			if n := len(slices.Compact(puts)); n != 1000 || len(puts) != 1000 {
				t.Errorf("ordered=%v: got %d puts of %d records, want 1000 of 1000", ordered, len(puts), n)
			}
			if most := 3 * cfg.MaxOpenRecords; src.maxOpen > most { // Accepts of parts of runs are held back for a moment, and not counted as held.
				t.Errorf("got %d records without a decision, want at most %d", src.maxOpen, most)
			}
		})
	}
}

// TestAcceptsOfAPartWaitBriefly: the rest of a run is in a put that takes its
// time; what was accepted before does not wait for it.
func TestAcceptsOfAPartWaitBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(21, 30*time.Second)
		var soon, after int
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			if b[0].Offset == 11 { // The second part of what came after the first, lone record.
				time.Sleep(holdAccepts / 2)
				soon = src.verdicts()[Accept]
				time.Sleep(holdAccepts)
				after = src.verdicts()[Accept]
			}
			acceptAll(r)
			return nil
		}}
		if _, err := runFor(t, testConfig(src, sink), time.Minute); err != nil {
			t.Fatal(err)
		}
		if soon != 1 || after != 11 {
			t.Errorf("%d and then %d were accepted while the rest was put, want 1 and 11", soon, after)
		}
		if got := src.verdicts(); got[Accept] != 21 {
			t.Errorf("got %v, want 21 accepted", got)
		}
	})
}

func TestOutageHoldsRenewsAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(100, 15*time.Second)
		letters := &fakeLetters{}
		up := time.Now().Add(20 * time.Minute) // Past max_elapsed.
		sink := &fakeSink{put: func(_ context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
			if time.Now().Before(up) {
				for i := range r {
					r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "503", "down"))
				}
				return nil
			}
			acceptAll(r)
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Letters = letters
		if _, err := runFor(t, cfg, 25*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 100 || len(letters.offsets()) != 0 {
			t.Errorf("got %v and letters %v, want 100 accepted and no letter", got, letters.offsets())
		}
		if len(src.late) > 0 || src.renewals == 0 {
			t.Errorf("got %d late decisions and %d renewals, want none and many", len(src.late), src.renewals)
		}
		if src.maxOpen > 3*cfg.MaxOpenRecords {
			t.Errorf("acquired %d records in an outage", src.maxOpen)
		}
	})
}

// TestFewSurvivorsKeepNoMemory: records that are put again and again do not
// hold on to what they came with, and are what they were.
func TestFewSurvivorsKeepNoMemory(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lock, want := 30*time.Second, int32(0)
			if ordered {
				lock, want = 0, 1 // What comes behind a record waits for it.
			}
			src := newFakeSource(40, lock)
			slow := time.Now().Add(time.Minute)
			waiting := int32(-1)
			sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
				acceptAll(r)
				for i := range b {
					if v, _ := b[i].Value.Bytes(); string(v) != fmt.Sprintf("%04d", b[i].Offset) || b[i].Topic != orders.Topic {
						t.Errorf("record %d: got %q of %q", b[i].Offset, v, b[i].Topic)
					}
					if b[i].Offset%20 == 7 && time.Now().Before(slow) {
						r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "lag", "later"))
						waiting = src.inUse.Load()
					}
				}
				return nil
			}}
			cfg := testConfig(src, sink)
			cfg.Ordered = ordered
			if _, err := runFor(t, cfg, 5*time.Minute); err != nil {
				t.Fatal(err)
			}
			if got := src.verdicts(); got[Accept] != 40 {
				t.Errorf("got %v, want 40 accepted", got)
			}
			if waiting != want || src.inUse.Load() != 0 {
				t.Errorf("ordered=%v: while records waited %d runs were in use, at the end %d; want %d and none", ordered, waiting, src.inUse.Load(), want)
			}
		})
	}
}

func TestUnreadableRecordsAreDeadLettered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(20, 30*time.Second)
		src.broken = map[int64]bool{7: true}
		letters := &fakeLetters{}
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			acceptAll(r)
			for i := range b {
				if src.broken[b[i].Offset] {
					t.Errorf("record %d was put", b[i].Offset)
				}
			}
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Letters = letters
		if _, err := runFor(t, cfg, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := letters.offsets(); !slices.Equal(got, []int64{7}) {
			t.Fatalf("got letters %v, want 7", got)
		}
		if l := letters.letters[0]; l.Stage != StageConsume || l.Code != "unreadable" || l.Message == "" {
			t.Errorf("got letter %+v", l)
		}
		if got := src.verdicts(); got[Accept] != 20 {
			t.Errorf("got %v, want 20 accepted", got)
		}
	})
}

// The queue is down at first: the refused records are held until it takes them
// (KAFKA-04).
func TestRefusedRecordAloneIsDeadLettered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(200, 30*time.Second)
		letters := &fakeLetters{refuse: 2} // The queue is down at first: the record is held.
		var puts atomic.Int64
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			puts.Add(int64(len(b)))
			acceptAll(r)
			for i := range b {
				if b[i].Offset%50 == 7 {
					r[i] = pluginapi.Rejected("22021", "bad text")
				}
			}
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Letters = letters
		if _, err := runFor(t, cfg, 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got, want := letters.offsets(), []int64{7, 57, 107, 157}; !slices.Equal(got, want) {
			t.Errorf("got letters %v, want %v", got, want)
		}
		if l := letters.letters[0]; l.Code != "22021" || l.Message != "bad text" || l.Stage != StagePut || l.DeliveryCount != 1 {
			t.Errorf("got letter %+v", l)
		}
		if got := src.verdicts(); got[Accept] != 200 || puts.Load() != 200 {
			t.Errorf("got %v in %d puts, want 200 accepted in 200", got, puts.Load())
		}
	})
}

// TestDeadLettersAreLeftToTheBroker: a record given up on is rejected and
// counted, nothing is written, and what tolerance none means holds after it.
func TestDeadLettersAreLeftToTheBroker(t *testing.T) {
	for _, tolerance := range []Tolerance{ToleranceAll, ToleranceNone} {
		t.Run(string(tolerance), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newFakeSource(200, 30*time.Second)
				sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
					acceptAll(r)
					for i := range b {
						if b[i].Offset == 3 || b[i].Offset == 120 {
							r[i] = pluginapi.Rejected("22021", "bad text")
						}
					}
					return nil
				}}
				counted := &letterCount{by: map[string]int{}}
				cfg := testConfig(src, sink)
				cfg.BrokerLetters, cfg.Tolerance, cfg.Metrics = true, tolerance, counted
				_, err := runFor(t, cfg, time.Minute)
				letters, rejected := 2, []int64{3, 120}
				var failed *FailedError
				switch {
				case tolerance == ToleranceAll:
					if got := src.verdicts(); err != nil || got[Accept] != 198 {
						t.Errorf("got %v, %v, want all others accepted", got, err)
					}
				case !errors.As(err, &failed) || !strings.Contains(err.Error(), "@3: TASK_PUT: rejected"):
					t.Errorf("got %v, want FAILED with record 3", err)
				default:
					letters, rejected = 1, []int64{3}
				}
				var got []int64
				for o, v := range src.ended {
					if v == Reject {
						got = append(got, o)
					}
				}
				slices.Sort(got)
				if !slices.Equal(got, rejected) || counted.by["rejected"] != letters {
					t.Errorf("rejected %v and counted %v, want %v and %d", got, counted.by, rejected, letters)
				}
			})
		})
	}
}

// letterCount counts dead letters by cause. It is read when the task has ended.
type letterCount struct {
	noMetrics
	by map[string]int
}

func (c *letterCount) DeadLettered(cause string, n int) { c.by[cause] += n }

func TestRetriedRecordIsPutAgainAloneAndInOrderWhereOrderMatters(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lock := 30 * time.Second
			if ordered {
				lock = 0
			}
			src := newFakeSource(100, lock)
			tries := map[int64]int{}
			var after []int64 // Offsets put after the first failure, before its success.
			sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
				acceptAll(r)
				for i := range b {
					o := b[i].Offset
					tries[o]++
					if o == 25 && tries[o] < 4 {
						r[i] = pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Transient, RetryAfter: 5 * time.Second})
					} else if o >= 30 && tries[25] > 0 && tries[25] < 4 {
						after = append(after, o)
					}
				}
				return nil
			}}
			cfg := testConfig(src, sink)
			cfg.Ordered = ordered
			if _, err := runFor(t, cfg, time.Minute); err != nil {
				t.Fatal(err)
			}
			if got := src.verdicts(); got[Accept] != 100 {
				t.Errorf("got %v, want 100 accepted", got)
			}
			for o, n := range tries {
				if want := 1; o != 25 && n != want {
					t.Errorf("offset %d was put %d times", o, n)
				}
			}
			if ordered && len(after) > 0 {
				t.Errorf("offsets %v overtook a record that was being retried", after)
			}
			if !ordered && len(after) == 0 {
				t.Error("a retried record held up the others")
			}
		})
	}
}

func TestRetriesExhaustedOnlyWhileOthersSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(1000, 30*time.Second)
		letters := &fakeLetters{}
		sink := &fakeSink{put: func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			acceptAll(r)
			for i := range b {
				if b[i].Offset == 3 {
					r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "500", "oops"))
				}
			}
			select { // A slow target, so that others still succeed later on.
			case <-time.After(5 * time.Second):
			case <-ctx.Done():
			}
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Letters = letters
		cfg.Retry.MaxElapsed = time.Minute
		cfg.Parallelism = 2
		if _, err := runFor(t, cfg, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := letters.offsets(); !slices.Equal(got, []int64{3}) {
			t.Errorf("got letters %v, want [3]", got)
		}
		if c := letters.letters[0].Message; c != "oops" {
			t.Errorf("got message %q", c)
		}
	})
}

// A crash in the middle of a put: what was reported stands, the rest is put again by
// a new sink (PLUG-14).
func TestUnknownResultsArePutAgainOnANewSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(30, 15*time.Second)
		made := 0
		cfg := testConfig(src, nil)
		cfg.MakeSink = func(context.Context, int, bool) (Sink, error) {
			made++
			n := made
			s := &fakeSink{}
			s.put = func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
				if n == 1 {
					r[0].Outcome = pluginapi.Accept // Stands, though the rest is unknown.
					s.gone = true
					return errors.New("plugin crashed")
				}
				acceptAll(r)
				return nil
			}
			return s, nil
		}
		if _, err := runFor(t, cfg, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 30 || made != 2 {
			t.Errorf("got %v with %d sinks, want 30 accepted with 2", got, made)
		}
		if src.order[0] != 0 {
			t.Errorf("the result before the crash did not stand: first decided was %d", src.order[0])
		}
	})
}

func TestFatalFailsTheTaskAndKeepsItsLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(30, 15*time.Second)
		puts := 0
		sink := &fakeSink{put: func(context.Context, []pluginapi.Record, []pluginapi.Result) error {
			puts++
			return pluginapi.NewError(pluginapi.Fatal, "42P01", "no such table")
		}}
		task, err := runFor(t, testConfig(src, sink), 10*time.Minute)
		var failed *FailedError
		if !errors.As(err, &failed) || task.Status().State != StateFailed {
			t.Fatalf("got error %v and status %+v, want FAILED", err, task.Status())
		}
		if puts != 1 || len(src.late) > 0 || src.renewals == 0 || len(src.ended) > 0 {
			t.Errorf("got %d puts, %d late, %d renewals, %d decided; want 1, 0, many, 0", puts, len(src.late), src.renewals, len(src.ended))
		}
	})
}

// A record delivered more often than it may be is dead-lettered before the broker
// archives it (SHARE-02).
func TestDeliveriesExhaustedAreNotPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(20, 30*time.Second)
		src.count[4], src.count[9] = 6, 5
		letters := &fakeLetters{}
		var puts []int64
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			for i := range b {
				puts = append(puts, b[i].Offset)
			}
			acceptAll(r)
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Letters = letters
		if _, err := runFor(t, cfg, time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := letters.offsets(); !slices.Equal(got, []int64{4}) || slices.Contains(puts, 4) {
			t.Errorf("got letters %v and puts %v, want letter 4 without a put", got, puts)
		}
	})
}

func TestStopWaitsForPutsInFlightAndThenCancelsThem(t *testing.T) {
	for _, tc := range []struct {
		name  string
		put   time.Duration
		want  int
		until time.Duration
	}{
		{"ends in time", 10 * time.Second, 1, 10 * time.Second},
		{"hangs", time.Hour, 0, 20 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newFakeSource(1, 30*time.Second)
				started := make(chan struct{})
				sink := &fakeSink{put: func(ctx context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
					close(started)
					select {
					case <-time.After(tc.put):
						acceptAll(r)
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}}
				task, err := New(testConfig(src, sink))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				out := make(chan error, 1)
				go func() { out <- task.Run(ctx) }()
				<-started
				begin := time.Now()
				cancel()
				if err := <-out; err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took != tc.until {
					t.Errorf("stop took %s, want %s", took, tc.until)
				}
				if got := src.verdicts(); got[Accept] != tc.want || sink.stops.Load() != 1 {
					t.Errorf("got %v and %d stops, want %d accepted and 1", got, sink.stops.Load(), tc.want)
				}
			})
		})
	}
}

func TestLostRecordsAreNotDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(10, 30*time.Second)
		sink := &fakeSink{put: func(ctx context.Context, _ []pluginapi.Record, _ []pluginapi.Result) error {
			src.events <- &Lost{TopicPartition: orders, Session: 1, Cause: errors.New("connection closed")}
			<-ctx.Done() // Cancelled, since no record of the put is ours.
			return ctx.Err()
		}}
		if _, err := runFor(t, testConfig(src, sink), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); len(got) != 0 {
			t.Errorf("got %v, want no decision", got)
		}
	})
}

func TestConverterDecidesBeforeThePut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(40, 30*time.Second)
		letters := &fakeLetters{}
		var got []int64
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			for i := range b {
				got = append(got, b[i].Offset)
			}
			acceptAll(r)
			return nil
		}}
		cfg := testConfig(src, sink)
		cfg.Letters = letters
		cfg.Convert = convertFunc(func(rec, out *pluginapi.Record) (bool, error) {
			*out = *rec
			if rec.Offset == 5 {
				return false, &StageError{Stage: StageKeyConverter, Err: errors.New("not a number")}
			}
			return rec.Offset%2 == 1, nil
		})
		if _, err := runFor(t, cfg, time.Minute); err != nil {
			t.Fatal(err)
		}
		if v := src.verdicts(); v[Accept] != 40 || len(got) != 19 {
			t.Errorf("got %v and %d records put, want 40 accepted and 19", v, len(got))
		}
		if len(letters.letters) != 1 || letters.letters[0].Stage != StageKeyConverter || letters.letters[0].Record.Offset != 5 {
			t.Errorf("got letters %+v", letters.letters)
		}
	})
}

type convertFunc func(rec, out *pluginapi.Record) (bool, error)

func (f convertFunc) Convert(rec, out *pluginapi.Record) (bool, error) { return f(rec, out) }

func TestStartFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		err    error
		failed bool
	}{
		{"fatal", pluginapi.NewError(pluginapi.Fatal, "", "no bucket"), true},
		{"invalid", pluginapi.NewError(pluginapi.Invalid, "", "bad dsn"), true},
		{"unavailable", pluginapi.NewError(pluginapi.Unavailable, "", "refused"), false},
		{"plain", errors.New("refused"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &fakeSink{start: func() error { return tc.err }}
				_, err := runFor(t, testConfig(newFakeSource(1, 0), sink), time.Minute)
				var failed *FailedError
				if err == nil || errors.As(err, &failed) != tc.failed || !errors.Is(err, tc.err) {
					t.Errorf("got %v, want failed=%v", err, tc.failed)
				}
				if sink.stops.Load() != 1 {
					t.Errorf("Stop was called %d times, want once", sink.stops.Load())
				}
			})
		})
	}
}

// TestAQueueThatTakesNothingShows in the status, as what holds records up
// (KAFKA-02, KAFKA-04).
func TestAQueueThatTakesNothingShows(t *testing.T) {
	for _, refuse := range []int{1 << 30, 1} {
		synctest.Test(t, func(t *testing.T) {
			src := newFakeSource(50, 30*time.Second)
			cfg := testConfig(src, &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
				acceptAll(r)
				for i := range b {
					if b[i].Offset == 7 {
						r[i] = pluginapi.Rejected("22021", "bad text")
					}
				}
				return nil
			}})
			cfg.Letters = &fakeLetters{refuse: refuse}
			task, err := runFor(t, cfg, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := task.Status().Degraded, refuse > 1; strings.Contains(got, "dead letters cannot be written, 1 records held: queue is down") != want {
				t.Errorf("after %d refusals the status says %q", refuse, got)
			}
		})
	}
}

// TestARecordThatIsAlwaysThrottledWaitsItsTurn: the others are put meanwhile.
func TestARecordThatIsAlwaysThrottledWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(400, 30*time.Second)
		sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
			acceptAll(r)
			for i := range b {
				if b[i].Offset == 7 {
					r[i] = pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Throttled, Code: "429", RetryAfter: time.Second})
				}
			}
			return nil
		}}
		if _, err := runFor(t, testConfig(src, sink), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 399 {
			t.Errorf("got %v, want all but one accepted", got)
		}
	})
}

// TestAcceptsWaitForADeadLetterOfTheirRange, so that the broker decides it as a
// whole; not where the queue takes nothing.
func TestAcceptsWaitForADeadLetterOfTheirRange(t *testing.T) {
	for _, refuse := range []int{0, 1 << 30} {
		synctest.Test(t, func(t *testing.T) {
			src := &toldSource{fakeSource: newFakeSource(41, 30*time.Second)} // The first is the slow start's.
			cfg := testConfig(src, &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
				acceptAll(r)
				for i := range b {
					if b[i].Offset == 17 {
						r[i] = pluginapi.Rejected("22021", "bad text")
					}
				}
				return nil
			}})
			cfg.Batch.MaxRecords, cfg.Letters = 40, &fakeLetters{refuse: refuse}
			if _, err := runFor(t, cfg, time.Minute); err != nil {
				t.Fatal(err)
			}
			want := []int{1, 40}
			if refuse > 0 {
				want = []int{1, 39}
			}
			if !slices.Equal(src.accepts, want) {
				t.Errorf("after %d refusals accepts came as %v, want %v", refuse, src.accepts, want)
			}
		})
	}
}
