package sharetask

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/sluicehq/sluice/pluginapi"
)

// TestWhatIsDecidedIsNotKeptAlive: each record shares the memory of the response
// it came in, which may be a thousand times its size. One put of records from
// many responses, and none after it for hours, must not keep these.
func TestWhatIsDecidedIsNotKeptAlive(t *testing.T) {
	for name, convert := range map[string]Converter{
		"bytes":     nil,
		"converted": convertFunc(func(rec, out *pluginapi.Record) (bool, error) { *out = *rec; return rec.Offset%3 != 0, nil }),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(newFakeSource(0, time.Minute), &fakeSink{put: func(_ context.Context, _ []pluginapi.Record, r []pluginapi.Result) error {
				acceptAll(r)
				return nil
			}})
			cfg.Convert, cfg.Batch.MaxRecords, cfg.MaxOpenRecords = convert, 100, 100
			task, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			const responses = 20
			buffers := putFromMany(t, task, responses)
			runtime.GC()
			kept := 0
			for _, b := range buffers {
				if b.Value() != nil {
					kept++
				}
			}
			if kept > 0 {
				t.Errorf("%d of %d responses are kept alive after their records were decided", kept, responses)
			}
			runtime.KeepAlive(task)
		})
	}
}

// putFromMany acquires two records from each of n responses and decides them,
// and returns the responses' memory.
func putFromMany(t *testing.T, task *Task, n int) []weak.Pointer[[64 << 10]byte] {
	t.Helper()
	w := task.writers[0]
	task.idle = append(task.idle, w)
	buffers := make([]weak.Pointer[[64 << 10]byte], n)
	now := time.Now()
	for i := range n {
		b := new([64 << 10]byte)
		buffers[i] = weak.Make(b)
		records := []pluginapi.Record{testRecord(int64(2 * i)), testRecord(int64(2*i + 1))}
		for k := range records {
			records[k].Value = pluginapi.BytesDatum(b[k : k+10])
		}
		task.acquired(&Acquired{
			TopicPartition: orders, Session: 1, Records: records, DeliveryCounts: []int16{1, 1}, Bytes: 20,
			Lock: time.Hour, LockedUntil: now.Add(time.Hour),
		})
	}
	for decided := int64(0); decided < int64(2*n); {
		now = now.Add(time.Second)
		task.dispatch(t.Context(), now)
		p := <-w.puts
		w.put(p.ctx, p)
		p.cancel()
		task.landed(p, now)
		for _, d := range task.ledger.flush(now) {
			for _, r := range d.Ranges {
				decided += r.Len()
			}
		}
	}
	return buffers
}

// TestAQueueThatIsNeverEmptyKeepsNothing of what it gave.
func TestAQueueThatIsNeverEmptyKeepsNothing(t *testing.T) {
	q := newQueue(BatchPolicy{MaxRecords: 3, MaxBytes: 1 << 20}, false, 1)
	push := func(n int) (given []weak.Pointer[delivery]) {
		for i := range n {
			d := &delivery{Acquired: &Acquired{TopicPartition: orders, Records: []pluginapi.Record{testRecord(int64(i))}, Bytes: 1}, slots: []slot{{state: slotBuffered}}}
			given = append(given, weak.Make(d))
			q.push(d)
		}
		return given
	}
	given := push(4)
	if _, n := q.take(0, time.Now(), 3); n != 3 {
		t.Fatalf("%d records taken, want 3", n)
	}
	runtime.GC()
	for i, d := range given {
		if kept, want := d.Value() != nil, i == 3; kept != want {
			t.Errorf("delivery %d is kept: %t", i, kept)
		}
	}
	runtime.KeepAlive(q)
}
