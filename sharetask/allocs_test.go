//go:build !race

package sharetask

import (
	"context"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// TestAllocationsDoNotGrowWithRecords: from an acquired run through the queue,
// a writer and the ledger to the decision.
func TestAllocationsDoNotGrowWithRecords(t *testing.T) {
	few, many := taskAllocations(t, 50), taskAllocations(t, 2000)
	if many > few+1 {
		t.Errorf("%v allocations for 50 records, %v for 2000", few, many)
	}
}

func taskAllocations(t *testing.T, n int) float64 {
	t.Helper()
	cfg := testConfig(newFakeSource(0, time.Minute), &fakeSink{put: func(_ context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
		acceptAll(r)
		return nil
	}})
	cfg.Batch.MaxRecords, cfg.MaxOpenRecords, cfg.Batch.MaxBytes, cfg.MaxOpenBytes = n, n, 1<<30, 1<<30
	task, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := task.writers[0]
	task.idle = append(task.idle, w)
	records, counts := make([]pluginapi.Record, n), make([]int16, n)
	for i := range records {
		records[i] = testRecord(int64(i))
		counts[i] = 1
	}
	ctx := t.Context()
	return testing.AllocsPerRun(50, func() {
		now := time.Now()
		task.acquired(&Acquired{TopicPartition: orders, Session: 1, Records: records, DeliveryCounts: counts, Bytes: 4 * n, Lock: time.Minute, LockedUntil: now.Add(time.Minute)})
		task.dispatch(ctx, now)
		p := <-w.puts
		w.put(p.ctx, p)
		p.cancel()
		task.landed(p, now)
		if d := task.ledger.flush(time.Now()); len(d) != 1 || d[0].Verdict != Accept || d[0].Ranges[0].Len() != int64(n) {
			t.Fatalf("got %+v, want %d accepted", d, n)
		}
	})
}
