package sharetask

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// The tests of this file are faults that other hosts of sinks had.

// watchedSource calls decided with what the task decides, when it does.
type watchedSource struct {
	*fakeSource
	decided func([]Decision)
}

func (s watchedSource) Decide(d []Decision) {
	s.decided(d)
	s.fakeSource.Decide(d)
}

// The sink refuses one record in ten and the dead letter queue cannot be written:
// whenever the task is stopped, every record is with the sink, in the queue, or
// still the group's, and none was accepted before it was there (KAFKA-04).
func TestKafka04NothingIsAcceptedThatIsNowhere(t *testing.T) {
	for _, down := range []int{1, 3, 1 << 30} {
		for _, after := range []time.Duration{0, 60 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second, 20 * time.Second, 3 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				src, letters := newFakeSource(100, 15*time.Second), &fakeLetters{refuse: down}
				var mu sync.Mutex
				stored := map[int64]bool{}
				sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
					time.Sleep(100 * time.Millisecond)
					mu.Lock()
					defer mu.Unlock()
					acceptAll(r)
					for i := range b {
						if b[i].Offset%10 == 3 {
							r[i] = pluginapi.Rejected("22021", "bad text")
							continue
						}
						stored[b[i].Offset] = true
					}
					return nil
				}}
				accepted := 0
				cfg := testConfig(watchedSource{src, func(decisions []Decision) {
					mu.Lock()
					defer mu.Unlock()
					for _, d := range decisions {
						for _, r := range d.Ranges {
							for o := r.First; o <= r.Last; o++ {
								switch {
								case d.Verdict == Reject:
									t.Errorf("%d is rejected", o)
								case d.Verdict != Accept:
								case !stored[o] && !slices.Contains(letters.offsets(), o):
									t.Errorf("%d is accepted and nowhere", o)
								default:
									accepted++
								}
							}
						}
					}
				}}, sink)
				cfg.Letters = letters
				if _, err := runFor(t, cfg, after); err != nil {
					t.Fatal(err)
				}
				want := len(stored) + len(letters.offsets())
				if accepted != want || len(src.late) > 0 {
					t.Errorf("%d writes refused, stopped after %v: %d accepted, want %d; locks of %v ran out", down, after, accepted, want, src.late)
				}
				if full := map[int]int{1: 100, 3: 100}[down]; after == 3*time.Minute && want != max(full, 90) {
					t.Errorf("%d writes refused: %d records are somewhere after %v", down, want, after)
				}
			})
		}
	}
}

// A plugin that crashes whatever it is given is started again ever more seldom, and
// nothing is dead-lettered for it (PLUG-14).
func TestPlug14PluginThatAlwaysCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, letters := newFakeSource(100, 15*time.Second), &fakeLetters{}
		var starts []time.Time
		cfg := testConfig(src, nil)
		cfg.Letters = letters
		cfg.MakeSink = func(context.Context, int, bool) (Sink, error) {
			starts = append(starts, time.Now())
			s := &fakeSink{process: uint64(len(starts))}
			s.put = func(context.Context, []pluginapi.Record, []pluginapi.Result) error {
				s.gone = true
				return errors.New("plugin process ended")
			}
			return s, nil
		}
		began := time.Now()
		task, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := make(chan error, 1)
		go func() { out <- task.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if st := task.Status(); st.State != StateRunning || st.Degraded == "" {
			t.Errorf("got %+v, want it running and degraded", st)
		}
		cancel()
		if err := <-out; err != nil {
			t.Fatal(err)
		}
		if len(letters.offsets()) > 0 || len(src.late) > 0 {
			t.Errorf("letters %v, locks of %v ran out", letters.offsets(), src.late)
		}
		first, last := 0, 0
		for _, at := range starts {
			if at.Sub(began) < 2*time.Minute {
				first++
			}
			if at.Sub(began) > 8*time.Minute {
				last++
			}
		}
		if len(starts) > 60 || last > 8 || first <= last {
			t.Errorf("%d starts, %d in the first two minutes, %d in the last two; want few, and fewer later", len(starts), first, last)
		}
	})
}
