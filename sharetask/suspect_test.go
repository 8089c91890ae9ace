package sharetask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/pluginapi"
)

// plant is plugin processes with sinks in them: what kills one kills all that
// share its process.
type plant struct {
	mu     sync.Mutex
	next   uint64
	shared uint64                   // The process all share that are not apart; 0 if it has ended.
	died   map[uint64]chan struct{} // Closed when the process ends.
	puts   map[int64]int            // Of each record.
	apart  int                      // Processes started for a sink alone.
	busy   int                      // Puts in such processes now.
	most   int                      // The most of them at a time.

	kills map[int64]bool
	hangs map[int64]bool
}

func newPlant() *plant {
	return &plant{died: map[uint64]chan struct{}{}, puts: map[int64]int{}, kills: map[int64]bool{}, hangs: map[int64]bool{}}
}

func (p *plant) make(_ context.Context, _ int, apart bool) (Sink, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.shared
	if apart || n == 0 {
		p.next++
		n = p.next
		p.died[n] = make(chan struct{})
		if apart {
			p.apart++
		} else {
			p.shared = n
		}
	}
	s := &fakeSink{process: n}
	s.put = func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
		if apart {
			p.enter(1)
			defer p.enter(-1)
		}
		return p.put(ctx, s, b, r)
	}
	return s, nil
}

func (p *plant) put(ctx context.Context, s *fakeSink, b []pluginapi.Record, r []pluginapi.Result) error {
	p.mu.Lock()
	died := p.died[s.process]
	kills, hangs := false, false
	for i := range b {
		p.puts[b[i].Offset]++
		kills = kills || p.kills[b[i].Offset]
		hangs = hangs || p.hangs[b[i].Offset]
	}
	p.mu.Unlock()
	wait := time.After(10 * time.Millisecond)
	if hangs {
		wait = nil
	}
	select {
	case <-wait:
	case <-ctx.Done(): // Killed, as the host does.
		kills = true
	case <-died:
		s.gone = true
		return errors.New("its process has ended")
	}
	if kills {
		p.kill(s.process)
		s.gone = true
		return pluginapi.NewError(pluginapi.Unknown, "crash", fmt.Sprintf("process %d has ended", s.process))
	}
	acceptAll(r)
	return nil
}

// enter counts a put by a sink that is apart, or ends it with -1.
func (p *plant) enter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy += n
	p.most = max(p.most, p.busy)
}

func (p *plant) kill(process uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.died[process]:
	default:
		close(p.died[process])
	}
	if p.shared == process {
		p.shared = 0
	}
}

// TestARecordThatKillsItsSinkCostsOnlyItself: it is found and dead-lettered once;
// all others are written, at most five times more each; nobody's lock runs out
// (SHARE-01).
func TestARecordThatKillsItsSinkCostsOnlyItself(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		for _, hang := range []bool{false, true} {
			for _, checks := range []bool{false, true} {
				if ordered && (hang || !checks) {
					continue // In one partition nothing can succeed beside it: it waits.
				}
				synctest.Test(t, func(t *testing.T) {
					lock := 15 * time.Second
					if ordered {
						lock = 0
					}
					src := newFakeSource(20_000, lock)
					letters := &fakeLetters{}
					plant := newPlant()
					bad := []int64{0, 999, 5000, 5001, 12_345, 19_999}
					for _, o := range bad {
						if hang {
							plant.hangs[o] = true
						} else {
							plant.kills[o] = true
						}
					}
					cfg := testConfig(src, nil)
					cfg.MakeSink, cfg.Letters, cfg.Ordered, cfg.CanCheck = plant.make, letters, ordered, checks
					cfg.Parallelism, cfg.Batch.MaxRecords, cfg.MaxOpenRecords, cfg.PutTimeout = 4, 500, 4000, time.Second
					go src.grow(1000) // A failure is proven by what succeeds after it.
					if _, err := runFor(t, cfg, time.Hour); err != nil {
						t.Fatal(err)
					}
					what := fmt.Sprintf("ordered=%t hang=%t checks=%t", ordered, hang, checks)
					if got := letters.offsets(); !slices.Equal(got, bad) {
						t.Errorf("%s: got letters %v, want %v", what, got, bad)
					}
					for _, l := range letters.letters {
						if l.Message != "kills the sink: "+l.Message[16:] || l.Stage != StagePut {
							t.Errorf("%s: got letter %+v", what, l)
						}
					}
					if got := src.verdicts(); got[Accept] != 21_000 {
						t.Errorf("%s: got %v, want all accepted", what, got)
					}
					if len(src.late) > 0 {
						t.Errorf("%s: %d decisions came after the lock", what, len(src.late))
					}
					if ordered {
						return // A neighbour is put again alone, once.
					}
					for o, n := range plant.puts {
						if !slices.Contains(bad, o) && n > 6 {
							t.Errorf("%s: record %d was put %d times", what, o, n)
						}
					}
				})
			}
		}
	}
}

// TestSuspectsAreLookedForSideBySide by half of the writers, eight at most, so
// that many records that hang do not wait for each other.
func TestSuspectsAreLookedForSideBySide(t *testing.T) {
	for writers, most := range map[int]int{3: 1, 4: 2, 16: 8, 64: 8} {
		synctest.Test(t, func(t *testing.T) {
			const bad = 32
			src := newFakeSource(bad*1000, 15*time.Second)
			plant, letters := newPlant(), &fakeLetters{}
			for i := range int64(bad) {
				plant.hangs[i*1000+i+1] = true
			}
			cfg := testConfig(src, nil)
			cfg.MakeSink, cfg.Letters = plant.make, letters
			cfg.Parallelism, cfg.Batch.MaxRecords, cfg.MaxOpenRecords, cfg.PutTimeout = writers, 500, bad*1000, time.Second
			begin := time.Now()
			go src.grow(3500) // A failure is proven by what succeeds after it.
			if _, err := runFor(t, cfg, time.Hour); err != nil {
				t.Fatal(err)
			}
			// Each hangs a put, three of parts of it, and three alone; then it waits for what proves it.
			if limit, through := time.Duration(bad*8/most)*time.Second+30*time.Second, letters.last.Sub(begin); len(letters.letters) != bad || through > limit {
				t.Errorf("%d writers: %d bad ones were through after %v, want %d within %v", writers, len(letters.letters), through, bad, limit)
			}
			if plant.most != most {
				t.Errorf("%d writers: up to %d suspects were put at a time, want %d", writers, plant.most, most)
			}
		})
	}
}

// TestASharedCrashIsHeldAgainstNobody who was merely there: their records are
// put again once.
func TestASharedCrashIsHeldAgainstNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeSource(5000, 15*time.Second)
		letters := &fakeLetters{}
		plant := newPlant()
		cfg := testConfig(src, nil)
		cfg.MakeSink, cfg.Letters, cfg.Parallelism, cfg.MaxOpenRecords = plant.make, letters, 8, 200
		go func() { // The process is killed from outside again and again.
			for range 20 {
				time.Sleep(37 * time.Millisecond)
				plant.mu.Lock()
				n := plant.shared
				plant.mu.Unlock()
				if n != 0 {
					plant.kill(n)
				}
			}
		}()
		if _, err := runFor(t, cfg, 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := src.verdicts(); got[Accept] != 5000 || len(letters.offsets()) > 0 {
			t.Errorf("got %v and letters %v, want 5000 accepted", got, letters.offsets())
		}
		for o, n := range plant.puts {
			if n > 2 {
				t.Errorf("record %d was put %d times", o, n)
			}
		}
	})
}

func TestSplitKeepsEveryRecordOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &suspect{}
		var want []int64
		for k := range rapid.IntRange(1, 5).Draw(t, "spans") {
			n := rapid.IntRange(1, 60).Draw(t, "records")
			d := &delivery{Acquired: &Acquired{}, slots: make([]slot, n)}
			for i := range n {
				d.Records = append(d.Records, testRecord(int64(1000*k+i)))
				want = append(want, int64(1000*k+i))
			}
			s.spans = append(s.spans, span{d: d, hi: int32(n)})
			s.records += n
		}
		parts := s.split()
		if len(parts) != min(splitParts, s.records) {
			t.Fatalf("%d parts of %d records", len(parts), s.records)
		}
		var got []int64
		for _, p := range parts {
			n := 0
			for _, sp := range p.spans {
				for i := sp.lo; i < sp.hi; i++ {
					got = append(got, sp.d.Records[i].Offset)
					n++
				}
			}
			if n != p.records || n > (s.records+splitParts-1)/splitParts {
				t.Fatalf("a part of %d records says %d; %d in all", n, p.records, s.records)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestSuspectsDoNotWaitForARecordThatAlwaysFails: of one that says of itself
// that the target is away no probe succeeds.
func TestSuspectsDoNotWaitForARecordThatAlwaysFails(t *testing.T) {
	for _, c := range []struct {
		count        int16
		hold, within time.Duration
	}{
		{count: 1, within: 3 * time.Minute},                        // Two probes, and what they wait for.
		{count: 1, within: 5 * time.Minute, hold: 2 * time.Minute}, // The others are given back: one comes to compare with.
		{count: 2, within: 3 * time.Minute, hold: 2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			const bad = 25
			src, letters, start := newFakeSource(400, 30*time.Second), &fakeLetters{}, time.Now()
			for o := range int64(400) {
				src.count[o] = c.count
			}
			var after time.Duration // Of the outage, until something is written.
			cfg := testConfig(src, nil)
			cfg.PutTimeout, cfg.Parallelism, cfg.HoldTimeout, cfg.Letters = 5*time.Second, 3, c.hold, letters
			cfg.MakeSink = func(context.Context, int, bool) (Sink, error) {
				s := &fakeSink{}
				s.put = func(ctx context.Context, b []pluginapi.Record, r []pluginapi.Result) error {
					at := time.Since(start)
					i := slices.IndexFunc(b, func(rec pluginapi.Record) bool { return rec.Offset == bad })
					if i < 0 && at > time.Second && at < 2*time.Minute {
						return hang(ctx, s)
					}
					time.Sleep(300 * time.Millisecond)
					acceptAll(r)
					if i >= 0 {
						r[i] = pluginapi.Retried(pluginapi.NewError(pluginapi.Unavailable, "", "its tenant is down"))
					}
					if at := at - 2*time.Minute; at > 0 && after == 0 && (i < 0 || len(b) > 1) {
						after = at
					}
					return nil
				}
				return s, nil
			}
			if _, err := runFor(t, cfg, 20*time.Minute); err != nil {
				t.Fatal(err)
			}
			if got := src.verdicts(); got[Accept] != 399 || len(letters.offsets()) > 0 {
				t.Errorf("%+v: got %v and letters %v, want 399 accepted", c, got, letters.offsets())
			}
			if after == 0 || after > c.within {
				t.Errorf("%+v: something was written %v after the outage", c, after)
			}
		})
	}
}

// TestAPartitionIsNotStoppedByAnothersKiller: with fewer writers than partitions,
// where order matters, a suspect is put by itself, not with another's.
func TestAPartitionIsNotStoppedByAnothersKiller(t *testing.T) {
	q := newQueue(BatchPolicy{MaxRecords: 10, MaxBytes: 1 << 20, MaxWait: time.Second}, true, 1)
	l, now := newLedger(), time.Unix(100, 0)
	for p := range int32(4) {
		ev := &Acquired{TopicPartition: TopicPartition{Topic: "orders", Partition: p}}
		for o := range int64(3) {
			ev.Records = append(ev.Records, testRecord(o))
		}
		q.push(l.acquire(ev))
	}
	put, n := q.take(0, now, 10)
	if n != 10 {
		t.Fatalf("got a put of %d, want 10", n)
	}
	for _, s := range slices.Backward(put) { // All but the last partition's were lost in a crash.
		if s.d.Partition == put[len(put)-1].d.Partition {
			continue
		}
		for i := range s.d.slots {
			tr, _ := s.d.failed(int32(i), now)
			s.d.slots[i].state, tr.unknown = slotWaiting, true
		}
		q.retry(s, now)
	}
	q.done(put)
	singles := 0
	for range 10 {
		spans, n := q.take(0, now, 10)
		for _, s := range spans {
			if s.d.killed(s.lo) {
				if singles++; n != 1 {
					t.Errorf("record %d of partition %d is put with %d others", s.lo, s.d.Partition, n-1)
				}
			}
		}
		q.done(spans)
	}
	if singles != 9 {
		t.Errorf("%d suspects were put, want 9", singles)
	}
}
