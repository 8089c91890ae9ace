package chaos

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What a fault explains at least once fails a run that writes once.
func TestNoFaultExcusesACopyWrittenOnce(t *testing.T) {
	confirmed := []Place{{Offset: 0}, {Offset: 1}}
	kill := []Fault{{Kind: WorkerKill, Start: 0, End: time.Second}}
	for _, tc := range []struct {
		name   string
		events []Event
		fails  bool
	}{
		{"all well", []Event{at(0, 1), letter(1, 1, 1)}, false},
		{"written twice", []Event{at(0, 0.5), at(0, 1), letter(1, 1, 1)}, true},
		{"dead-lettered twice", []Event{at(0, 1), letter(1, 0.5, 1), letter(1, 1, 1)}, true},
		{"in two places", []Event{at(0, 1), at(1, 0.5), letter(1, 1, 1)}, true},
		{"lost", []Event{at(0, 1)}, true},
	} {
		a := Tally(confirmed, tc.events, func(id int) bool { return id == 1 }, kill, Lock)
		a.Once = true
		if a.Failed() != tc.fails {
			t.Errorf("%s: failed = %v, want %v: %+v", tc.name, a.Failed(), tc.fails, a)
		}
	}
}

// A record that the producer wrote twice is no copy of the connector's, a third one is.
func TestAssign(t *testing.T) {
	events := []Event{at(0, 1), at(1, 1), at(1, 2), at(1, 3), at(2, 1), letter(3, 1, 1)}
	for i := range events {
		if events[i].Letter == nil {
			events[i].Place = Place{}
		}
	}
	confirmed := []Place{{Offset: 10}, {Offset: 11}, {Offset: unconfirmed}, {Offset: 3}}
	assign(events, confirmed, map[int][]Place{1: {{Offset: 11}, {Offset: 21}}, 2: {{Offset: 22}}})
	var got []int64
	for _, e := range events {
		got = append(got, e.Place.Offset)
	}
	if want := []int64{10, 11, 21, 11, 22, 3}; !slices.Equal(got, want) {
		t.Fatalf("places %v, want %v", got, want)
	}
	if a := Tally(confirmed, events, Bad, nil, Lock); len(a.Doubles) != 1 || a.Unconfirmed != 1 || a.OtherPlace != 1 {
		t.Errorf("%d doubles, %d unconfirmed, %d from another place; want one each", len(a.Doubles), a.Unconfirmed, a.OtherPlace)
	}
}

// The kills profile kills a hundred workers and ten brokers in ten minutes, without a fault of the target.
func TestManyKills(t *testing.T) {
	chosen := mustChoose(t, kills)
	for seed := range uint64(20) {
		killed := map[Kind]int{}
		for _, f := range Schedule(seed, 10*time.Minute, 2*time.Second, chosen) {
			killed[f.Kind]++
			if f.Kind == WorkerKill && f.End-f.Start > 2*time.Second || f.Kind.ofTarget() {
				t.Errorf("seed %d: %v for %v", seed, &f, f.End-f.Start)
			}
		}
		if killed[WorkerKill] < 100 || killed[BrokerKill] < 10 {
			t.Errorf("seed %d: %v", seed, killed)
		}
	}
}

func TestOfTarget(t *testing.T) {
	all, _ := kinds()
	left := slices.DeleteFunc(all, Kind.ofTarget)
	want := []Kind{BrokerCut, BrokerHalf, BrokerDelay, BrokerKill, BrokerStop, LeaderMove, WorkerKill, WorkerStop}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}

// What is said of a record has the claims on it, and only these, with their ends.
func TestLedgerTellsOfClaims(t *testing.T) {
	begin := time.Unix(100, 0)
	line := func(producer int64, second int, text string) *kgo.Record {
		return &kgo.Record{ProducerID: producer, Timestamp: begin.Add(time.Duration(second) * time.Second), Value: []byte(text)}
	}
	end := func(producer int64, second int, kind byte) *kgo.Record {
		r := line(producer, second, "")
		r.Key, r.Attrs = []byte{0, 0, 0, kind}, kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Transactional: true, Control: true})
		return r
	}
	l := &ledger{begin: begin, about: []Place{{Partition: 2, Offset: 5}}, found: make([][]*claim, 1), open: map[string][]*claim{}}
	var out bytes.Buffer
	for _, r := range []*kgo.Record{
		line(1, 1, `{"writer":"a","partition":2,"offsets":[[1,3],[5,5]]}`),
		line(2, 2, `{"writer":"b","partition":2,"offsets":[[4,6]]}`),
		line(3, 3, `{"writer":"c","partition":2,"offsets":[[4,4],[6,9]]}`),
		line(4, 4, `{"writer":"d","partition":1,"offsets":[[4,6]]}`),
		end(2, 5, 1), end(1, 6, 0), end(3, 7, 1),
	} {
		l.add(&out, r)
	}
	want := "claims on partition 2, offset 5: a (producer 1/0) at 1.000 s, abort at 6.000 s; b (producer 2/0) at 2.000 s, commit at 5.000 s;"
	if got := l.story(0); got != want || l.err != nil {
		t.Errorf("got %q, %v, want %q", got, l.err, want)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 7 {
		t.Errorf("%d lines written, want 7", n)
	}
}
