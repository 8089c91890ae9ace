package sharetask

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// frozen is metrics that stop the task's loop once, as SIGSTOP does.
type frozen struct {
	noMetrics
	at   int64
	time time.Duration
	n    atomic.Int64
}

// Open is called once a round.
func (f *frozen) Open(int, int, time.Time) {
	if f.n.Add(1) == f.at {
		time.Sleep(f.time)
	}
}

// TestAWokenTaskPutsNothingThatIsNoLongerItsOwn: it did not run until the locks
// had ended. What was in a put then may be written again, and no more.
func TestAWokenTaskPutsNothingThatIsNoLongerItsOwn(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sleep time.Duration
		lost  bool
	}{
		{"for less than a lock", 25 * time.Second, false},
		{"for longer", time.Minute, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newFakeSource(40, 30*time.Second)
				start := time.Now()
				var late atomic.Int64
				sink := &fakeSink{put: func(_ context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
					if time.Since(start) > tt.sleep {
						late.Add(int64(len(b)))
					}
					time.Sleep(2 * time.Second)
					acceptAll(r)
					return nil
				}}
				cfg := testConfig(src, sink)
				cfg.Metrics = &frozen{at: 8, time: tt.sleep}
				task, err := runFor(t, cfg, 2*time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if n := late.Load(); tt.lost && n > 0 || !tt.lost && n == 0 {
					t.Errorf("%d records were put after it woke", n)
				}
				if task.ledger.records > 0 {
					t.Errorf("it keeps %d records", task.ledger.records)
				}
			})
		})
	}
}
