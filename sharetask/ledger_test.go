package sharetask

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/pluginapi"
)

var update = flag.Bool("update", false, "rewrite the scripts' expected output")

// TestLedgerScripts runs the scripts in testdata/ledger. A script is blocks of
// commands, a line of dashes, and what the ledger said. -update rewrites the
// latter; review the change as code.
//
//	acquire p=0 offsets=1-5,8 session=1 lock=30s
//	decide p=0 offsets=2-3 verdict=accept
//	lost p=0 session=1 [offsets=1-2]
//	renewed p=0 session=1 [lock=15s]
//	tick 20s
//	flush
//	implicit
//	send
func TestLedgerScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/ledger/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(src))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if got != string(src) {
				t.Errorf("got:\n%s\nwant:\n%s", got, src)
			}
		})
	}
}

// script is a ledger with a clock that only ticks move.
type script struct {
	t       *testing.T
	ledger  *ledger
	now     time.Time
	entered []*delivery
}

func runScript(t *testing.T, src string) string {
	t.Helper()
	s := &script{t: t, ledger: newLedger(), now: time.Unix(0, 0)}
	var out strings.Builder
	skipping := false
	var said []string
	for sc := bufio.NewScanner(strings.NewReader(src)); sc.Scan(); {
		line := sc.Text()
		switch {
		case line == "----":
			skipping = true
			out.WriteString("----\n")
			for _, l := range said {
				out.WriteString(l + "\n")
			}
			said = nil
		case line == "":
			skipping = false
			out.WriteString("\n")
		case skipping:
		default:
			out.WriteString(line + "\n")
			if !strings.HasPrefix(line, "#") {
				said = append(said, s.do(line)...)
			}
		}
	}
	return out.String()
}

func (s *script) do(line string) []string {
	s.t.Helper()
	words := strings.Fields(line)
	arg := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		arg[k] = v
	}
	tp := TopicPartition{Topic: "t", Partition: int32(number(s.t, arg["p"]))}
	session := Session(number(s.t, arg["session"]))
	switch words[0] {
	case "acquire":
		lock, err := time.ParseDuration(arg["lock"])
		if err != nil {
			s.t.Fatal(err)
		}
		ev := &Acquired{TopicPartition: tp, Session: session, Lock: lock, LockedUntil: s.now.Add(lock)}
		for _, r := range ranges(s.t, arg["offsets"]) {
			for o := r.First; o <= r.Last; o++ {
				ev.Records = append(ev.Records, pluginapi.Record{Offset: o})
			}
		}
		s.entered = append(s.entered, s.ledger.acquire(ev))
		return s.open()
	case "decide":
		v := map[string]Verdict{"accept": Accept, "release": Release, "reject": Reject}[arg["verdict"]]
		for _, d := range s.entered {
			for i := range d.slots {
				if d.TopicPartition == tp && inRanges(ranges(s.t, arg["offsets"]), d.Records[i].Offset) {
					s.ledger.decide(span{d: d, lo: int32(i), hi: int32(i) + 1}, v)
				}
			}
		}
		return s.open()
	case "lost":
		ev := &Lost{TopicPartition: tp, Session: session}
		if arg["offsets"] != "" {
			ev.Ranges = ranges(s.t, arg["offsets"])
		}
		return append([]string{fmt.Sprintf("lost %d", s.ledger.lost(ev))}, s.open()...)
	case "renewed":
		for _, p := range s.ledger.partitions {
			if len(p.deliveries) == 0 || p.TopicPartition != tp {
				continue
			}
			lock := p.deliveries[0].Lock
			if arg["lock"] != "" {
				var err error
				if lock, err = time.ParseDuration(arg["lock"]); err != nil {
					s.t.Fatal(err)
				}
			}
			s.ledger.renewed(&Acknowledged{TopicPartition: tp, Session: session, Verdict: Renew, LockedUntil: s.now.Add(lock), Lock: lock})
		}
		return nil
	case "tick":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
		return show(s.ledger.renewals(s.now))
	case "implicit":
		s.ledger.implicit = true
		return nil
	case "send":
		s.ledger.sendAll()
		return nil
	case "flush":
		return show(s.ledger.flush(s.now))
	default:
		s.t.Fatalf("unknown command %q", line)
		return nil
	}
}

func (s *script) open() []string { return []string{fmt.Sprintf("open %d", s.ledger.records)} }

func number(t *testing.T, text string) int64 {
	t.Helper()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ranges(t *testing.T, text string) []Range {
	t.Helper()
	var out []Range
	for part := range strings.SplitSeq(text, ",") {
		first, last, ok := strings.Cut(part, "-")
		if !ok {
			last = first
		}
		out = append(out, Range{First: number(t, first), Last: number(t, last)})
	}
	return out
}

func show(decisions []Decision) []string {
	var out []string
	for _, d := range decisions {
		var b strings.Builder
		fmt.Fprintf(&b, "send %s p=%d session=%d", d.Verdict, d.Partition, d.Session)
		for _, r := range d.Ranges {
			fmt.Fprintf(&b, " [%d,%d]", r.First, r.Last)
		}
		out = append(out, b.String())
	}
	slices.Sort(out)
	return out
}

// Whatever the schedule, each acquired record is decided or lost exactly once,
// ranges are sorted and apart, and memory is given back at the end.
func TestLedgerKeepsEveryRecordExactlyOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLedger()
		l.implicit = rapid.Bool().Draw(rt, "implicit")
		now := time.Unix(0, 0)
		type key struct {
			partition int32
			session   Session
			offset    int64
		}
		fate := map[key]int{}
		var all []*delivery
		next := map[int32]int64{}
		freed, made := 0, 0
		settle := func(ds []Decision) {
			for _, d := range ds {
				last := int64(-1)
				for _, r := range d.Ranges {
					if r.First <= last || r.Last < r.First {
						rt.Fatalf("ranges %v are not sorted and apart", d.Ranges)
					}
					last = r.Last
					for o := r.First; o <= r.Last; o++ {
						k := key{d.Partition, d.Session, o}
						if _, ok := fate[k]; !ok {
							rt.Fatalf("decided offset %d of partition %d was never acquired", o, d.Partition)
						}
						if d.Verdict == Renew {
							if fate[k] != 0 {
								rt.Fatalf("renewed offset %d, which is not open", o)
							}
							continue
						}
						fate[k]++
					}
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"acquire": func(rt *rapid.T) {
				p := rapid.Int32Range(0, 2).Draw(rt, "partition")
				s := Session(rapid.IntRange(1, 2).Draw(rt, "session"))
				made++
				ev := &Acquired{TopicPartition: TopicPartition{Partition: p}, Session: s, Lock: 30 * time.Second, LockedUntil: now.Add(30 * time.Second), Free: func() { freed++ }}
				for range rapid.IntRange(1, 20).Draw(rt, "records") {
					next[p] += int64(rapid.IntRange(1, 2).Draw(rt, "step"))
					ev.Records = append(ev.Records, pluginapi.Record{Offset: next[p], Value: pluginapi.BytesDatum([]byte{1})})
					fate[key{p, s, next[p]}] = 0
				}
				ev.Bytes = len(ev.Records)
				ev.Memory = rapid.IntRange(0, 100).Draw(rt, "memory")
				all = append(all, l.acquire(ev))
			},
			"decide": func(rt *rapid.T) {
				if len(all) == 0 {
					return
				}
				d := rapid.SampledFrom(all).Draw(rt, "delivery")
				lo := rapid.IntRange(0, len(d.slots)-1).Draw(rt, "lo")
				hi := rapid.IntRange(lo+1, len(d.slots)).Draw(rt, "hi")
				l.decide(span{d: d, lo: int32(lo), hi: int32(hi)}, rapid.SampledFrom([]Verdict{Accept, Release, Reject}).Draw(rt, "verdict"))
			},
			"save survivors": func(rt *rapid.T) {
				if len(all) == 0 {
					return
				}
				d := rapid.SampledFrom(all).Draw(rt, "delivery")
				var spans []againSpan
				for i := range d.slots {
					if d.slots[i].state != slotDone && rapid.Bool().Draw(rt, "waits") {
						spans = append(spans, againSpan{span: span{d: d, lo: int32(i), hi: int32(i) + 1}})
					}
				}
				l.saveSurvivors(spans)
				for _, s := range spans {
					if s.d != d && !slices.Contains(all, s.d) {
						all = append(all, s.d)
					}
				}
			},
			"flush": func(*rapid.T) { settle(l.flush(now)) },
			"send":  func(*rapid.T) { l.sendAll() },
			"tick": func(rt *rapid.T) {
				settle(l.flush(now)) // As the task does: decisions go first.
				now = now.Add(time.Duration(rapid.IntRange(1, 20).Draw(rt, "seconds")) * time.Second)
				settle(l.renewals(now))
			},
			"lost": func(rt *rapid.T) {
				settle(l.flush(now))
				p := rapid.Int32Range(0, 2).Draw(rt, "partition")
				s := Session(rapid.IntRange(1, 2).Draw(rt, "session"))
				l.lost(&Lost{TopicPartition: TopicPartition{Partition: p}, Session: s})
				for k := range fate {
					if k.partition == p && k.session == s && fate[k] == 0 {
						fate[k] = 1
					}
				}
			},
			"": func(rt *rapid.T) {
				open := 0
				for _, d := range all {
					open += d.open
				}
				if open != l.records {
					rt.Fatalf("the ledger says %d open, its deliveries %d", l.records, open)
				}
			},
		})
		for _, d := range all {
			l.decide(span{d: d, hi: int32(len(d.slots))}, Accept)
		}
		settle(l.flush(now))
		for k, n := range fate {
			if n != 1 {
				rt.Fatalf("partition %d offset %d ended %d times", k.partition, k.offset, n)
			}
		}
		if l.records != 0 || l.bytes != 0 || len(l.partitions) != 0 || freed != made {
			rt.Fatalf("left over: %d records, %d bytes, %d partitions, %d of %d freed", l.records, l.bytes, len(l.partitions), freed, made)
		}
	})
}

func TestMergeRanges(t *testing.T) {
	for range 200 {
		var in []Range
		want := map[int64]bool{}
		for range rand.N(10) {
			first := rand.Int64N(40)
			r := Range{First: first, Last: first + rand.Int64N(4)}
			in = append(in, r)
			for o := r.First; o <= r.Last; o++ {
				want[o] = true
			}
		}
		got := mergeRanges(in)
		for i, r := range got {
			if i > 0 && got[i-1].Last+1 >= r.First {
				t.Fatalf("ranges %v touch", got)
			}
			for o := r.First; o <= r.Last; o++ {
				if !want[o] {
					t.Fatalf("%v has %d, which was not in", got, o)
				}
				delete(want, o)
			}
		}
		if len(want) > 0 {
			t.Fatalf("%v lacks %v", got, want)
		}
	}
}

// TestPutsOfOnePartition: with OnePartition no put has records of two, and no
// partition waits for ever behind another.
func TestPutsOfOnePartition(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		l := newLedger()
		q := newQueue(BatchPolicy{MaxRecords: 100, MaxBytes: 1 << 20, OnePartition: true}, ordered, 1)
		now, want := time.Unix(100, 0), 0
		for i := range 12 {
			ev := &Acquired{TopicPartition: TopicPartition{Partition: int32(i % 3)}, Records: make([]pluginapi.Record, 20+i)}
			for k := range ev.Records {
				ev.Records[k].Offset = int64(100*i + k)
			}
			want += len(ev.Records)
			q.push(l.acquire(ev))
		}
		var sizes []int
		for got := 0; got < want; {
			spans, n := q.take(0, now, 100)
			if n == 0 {
				t.Fatalf("ordered %t: %d of %d records come", ordered, got, want)
			}
			got += n
			sizes = append(sizes, n)
			for _, s := range spans {
				if s.d.TopicPartition != spans[0].d.TopicPartition {
					t.Errorf("ordered %t: a put has partitions %d and %d", ordered, spans[0].d.Partition, s.d.Partition)
				}
			}
			q.done(spans)
		}
		if q.ready(0, now, true) {
			t.Errorf("ordered %t: something is left", ordered)
		}
		if len(sizes) > 6 { // Of 98, 102 and 106 records in runs of 20 to 31.
			t.Errorf("ordered %t: puts of %v records, want few", ordered, sizes)
		}
	}
}

// A put of one partition is of the one with most, or of the oldest that has waited long enough, and none is made of less than can soon
// be had: each costs a transaction.
func TestAPutOfOnePartitionIsWaitedFor(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		l := newLedger()
		q := newQueue(BatchPolicy{MaxRecords: 100, MaxBytes: 1 << 20, MaxWait: time.Second, OnePartition: true}, ordered, 1)
		start := time.Unix(100, 0)
		now := start
		push := func(partition int32, first int64, n int) {
			ev := &Acquired{TopicPartition: TopicPartition{Partition: partition}, Records: make([]pluginapi.Record, n)}
			for i := range ev.Records {
				ev.Records[i].Offset = first + int64(i)
			}
			d := l.acquire(ev)
			d.since = now
			q.push(d)
		}
		take := func(ready bool, of int32, want int) {
			t.Helper()
			if got := q.ready(0, now, false); got != ready {
				t.Errorf("ordered %t: ready is %t, want %t", ordered, got, ready)
			}
			if !ready {
				return
			}
			spans, n := q.take(0, now, 100)
			if n != want || spans[0].d.Partition != of {
				t.Errorf("ordered %t: %d records of partition %d, want %d of %d", ordered, n, spans[0].d.Partition, want, of)
			}
			q.done(spans)
		}
		for p := range int32(3) { // 120 in all, and no partition has enough.
			push(p, 0, 40)
			now = now.Add(time.Millisecond)
		}
		take(false, 0, 0)
		now = start.Add(500 * time.Millisecond)
		push(2, 40, 60)
		take(true, 2, 100)
		take(false, 0, 0)
		idle := []*writer{{}}
		if at := q.wake(idle); !at.Equal(start.Add(time.Second)) {
			t.Errorf("ordered %t: the next is due after %v", ordered, at.Sub(start))
		}
		now = start.Add(time.Second + 5*time.Millisecond)
		push(2, 100, 100)
		take(true, 0, 40) // It has waited long enough.
		take(true, 1, 40)
		take(true, 2, 100)
		if at := q.wake(idle); !at.IsZero() {
			t.Errorf("ordered %t: something is due with nothing left", ordered)
		}
	}
}

// What was acquired together is put and decided together where it fits: the
// broker keeps its accounts by it.
func TestPutsAreMadeOfWholeRuns(t *testing.T) {
	l := newLedger()
	q := newQueue(BatchPolicy{MaxRecords: 100, MaxBytes: 1 << 20, MaxWait: time.Second}, false, 1)
	now := time.Unix(100, 0)
	first := int64(0)
	push := func(n int) {
		ev := &Acquired{Records: make([]pluginapi.Record, n)}
		for i := range ev.Records {
			ev.Records[i].Offset = first + int64(i)
		}
		first += int64(n)
		d := l.acquire(ev)
		d.since = now
		q.push(d)
	}
	for _, n := range []int{70, 40, 50, 230} {
		push(n)
	}
	for _, want := range []int{70, 90, 100, 100, 30} {
		if want != 30 && !q.ready(0, now, false) {
			t.Errorf("not ready with %d and more", want)
		}
		if want == 30 && q.ready(0, now, false) {
			t.Error("ready with 30 of 100, before its time")
		}
		if _, n := q.take(0, now, 100); n != want {
			t.Errorf("got a put of %d, want %d", n, want)
		}
	}
}

// What a put left over waits from when it came, not from when the queue was last
// empty, which it may never be.
func TestWhatIsLeftOverWaitsFromItsArrival(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		l := newLedger()
		q := newQueue(BatchPolicy{MaxRecords: 100, MaxBytes: 1 << 20, MaxWait: time.Second}, ordered, 1)
		start := time.Unix(100, 0)
		second := start.Add(500 * time.Millisecond)
		for i, at := range []time.Time{start, second} {
			ev := &Acquired{Records: make([]pluginapi.Record, 60)}
			for k := range ev.Records {
				ev.Records[k].Offset = int64(60*i + k)
			}
			d := l.acquire(ev)
			d.since = at
			q.push(d)
		}
		if !q.ready(0, second, false) {
			t.Fatalf("ordered %t: not ready with 120 of 100", ordered)
		}
		spans, n := q.take(0, second, 100)
		q.done(spans)
		due := second.Add(time.Second)
		if q.ready(0, due.Add(-time.Millisecond), false) {
			t.Errorf("ordered %t: the %d left over go before their time", ordered, 120-n)
		}
		if at := q.wake([]*writer{{}}); !at.Equal(due) {
			t.Errorf("ordered %t: what is left over is due at %s, want %s", ordered, at, due)
		}
		if !q.ready(0, due, false) {
			t.Errorf("ordered %t: what is left over does not go when its time has come", ordered)
		}
	}
}
