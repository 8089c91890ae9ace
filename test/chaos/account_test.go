package chaos

import (
	"slices"
	"testing"
	"time"
)

func at(id int, seconds float64) Event {
	return Event{ID: id, Place: Place{Offset: int64(id)}, At: time.Duration(seconds * float64(time.Second)), Worker: "w1"}
}

func letter(id int, seconds float64, deliveries int) Event {
	e := at(id, seconds)
	e.Worker, e.Letter = "", &Letter{Deliveries: deliveries}
	return e
}

// Everything that can go wrong is planted, and must be found.
func TestTallyFindsWhatIsPlanted(t *testing.T) {
	const n = 12
	confirmed := make([]Place, n)
	for id := range confirmed {
		confirmed[id] = Place{Offset: int64(id)}
	}
	confirmed[11].Offset = unconfirmed
	faults := []Fault{
		{Kind: Unavailable, Start: 8 * time.Second, End: 12 * time.Second},
		{Kind: WorkerKill, Start: 20 * time.Second, End: 22 * time.Second},
		{Kind: BrokerKill, Start: 21 * time.Second, End: 25 * time.Second, Skipped: "planted"},
		{Kind: WorkerStop, Start: 30 * time.Second, End: 50 * time.Second},
	}
	elsewhere := at(10, 3)
	elsewhere.Place.Offset = 100
	events := []Event{
		at(0, 1),
		// 1 is lost.
		letter(2, 2, 1),    // Bad, as it should be.
		at(3, 1), at(3, 2), // No fault.
		at(4, 9), at(4, 10), // In a fault that stores nothing.
		at(5, 19), at(5, 23), // The kill.
		at(6, 22.5), at(6, 39.9), // After the kill, within its grace, and the stop too, which is later.
		at(7, 52), at(7, 62.1), // After the stop's grace.
		at(8, 19.5), letter(8, 21, 6), // Good, in both places, by the kill.
		letter(9, 1, 1), letter(9, 33, 2), // Bad, dead-lettered twice, in the stop.
		at(10, 2), elsewhere, // The producer wrote it twice.
		at(11, 1),
	}
	a := Tally(confirmed, events, func(id int) bool { return id == 2 || id == 9 }, faults, 12*time.Second)
	if a.Confirmed != 11 || a.Written != 8 || a.DeadLettered != 3 || a.Both != 1 {
		t.Errorf("confirmed, written, dead-lettered, both = %d, %d, %d, %d, want 11, 8, 3, 1", a.Confirmed, a.Written, a.DeadLettered, a.Both)
	}
	if !slices.Equal(a.Lost, []int{1}) {
		t.Errorf("lost %v, want [1]", a.Lost)
	}
	if len(a.GoodDead) != 1 || a.GoodDead[0].ID != 8 || a.Deliveries != 6 {
		t.Errorf("good dead letters %+v, highest delivery count %d, want record 8 and 6", a.GoodDead, a.Deliveries)
	}
	if a.Unconfirmed != 1 || a.OtherPlace != 1 {
		t.Errorf("unconfirmed %d, other place %d, want 1 and 1", a.Unconfirmed, a.OtherPlace)
	}
	type double struct {
		id, fault int
		kind      string
	}
	var got []double
	for _, d := range a.Doubles {
		got = append(got, double{d.Second.ID, d.Fault, d.kind()})
	}
	want := []double{
		{3, -1, "written more than once"},
		{4, -1, "written more than once"},
		{5, 1, "written more than once"},
		{6, 3, "written more than once"},
		{7, -1, "written more than once"},
		{8, 1, "in two places"},
		{9, 3, "dead-lettered more than once"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("doubles %+v, want %+v", got, want)
	}
	if len(a.Unexplained()) != 3 || !a.Failed() {
		t.Errorf("%d unexplained, failed %v; want 3 and true", len(a.Unexplained()), a.Failed())
	}
}

// Each thing that must fail a run does so alone.
func TestOneFindingFails(t *testing.T) {
	confirmed := []Place{{Offset: 0}, {Offset: 1}}
	kill := []Fault{{Kind: WorkerKill, Start: 0, End: time.Second}}
	for _, tc := range []struct {
		name   string
		events []Event
		faults []Fault
		fails  bool
	}{
		{"all well", []Event{at(0, 1), letter(1, 1, 1)}, nil, false},
		{"lost", []Event{at(0, 1)}, kill, true},
		{"good one dead-lettered", []Event{letter(0, 1, 1), letter(1, 1, 1)}, kill, true},
		{"bad one written", []Event{at(0, 1), at(1, 1)}, kill, true},
		{"doubled", []Event{at(0, 0.5), at(0, 1), letter(1, 1, 1)}, nil, true},
		{"doubled by a fault", []Event{at(0, 0.5), at(0, 1), letter(1, 1, 1)}, kill, false},
		{"dead-lettered twice", []Event{at(0, 1), letter(1, 1, 1), letter(1, 2, 1)}, nil, true},
	} {
		a := Tally(confirmed, tc.events, func(id int) bool { return id == 1 }, tc.faults, Lock)
		if a.Failed() != tc.fails {
			t.Errorf("%s: failed = %v, want %v: %+v", tc.name, a.Failed(), tc.fails, a)
		}
	}
}

// A killed worker's partitions are read again after its session's end: only what it wrote itself, just before, is explained so late.
func TestKillExplainsItsOwnLastRecordsForLonger(t *testing.T) {
	kill := []Fault{{Kind: WorkerKill, Victim: 2, Start: 100 * time.Second, End: 102 * time.Second}}
	for _, tc := range []struct {
		name          string
		by            string
		first, second float64
		fault         int
	}{
		{"by the victim, at its end", "w3", 100.01, 145.3, 0},
		{"by the victim, long before", "w3", 80, 145.3, -1},
		{"by another", "w1", 100.01, 145.3, -1},
		{"in its last second, after the session's end", "w3", 99.5, 500, 0},
		{"before that, after the session's end", "w3", 98.5, 151, -1},
	} {
		first, second := at(0, tc.first), at(0, tc.second)
		first.Worker = tc.by
		if got := blame(first, second, kill, graceAfter); got != tc.fault {
			t.Errorf("%s: fault %d, want %d", tc.name, got, tc.fault)
		}
	}
}

func TestScheduleKeepsItsRules(t *testing.T) {
	all, traits := kinds()
	seen := map[Kind]int{}
	for seed := range uint64(50) {
		const length = 5 * time.Minute
		faults := Schedule(seed, length, usualPace, all)
		if !slices.Equal(faults, Schedule(seed, length, usualPace, all)) {
			t.Fatalf("seed %d gives two schedules", seed)
		}
		if len(faults) < 17 {
			t.Errorf("seed %d: %d faults in %v", seed, len(faults), length)
		}
		for i, f := range faults {
			seen[f.Kind]++
			if f.Start < 5*time.Second || f.End > length-2*time.Second || f.End < f.Start {
				t.Errorf("seed %d: %v lasts from %v to %v", seed, &f, f.Start, f.End)
			}
			open := 0
			for _, o := range faults[:i] {
				if o.End < f.Start {
					continue
				}
				open++
				if traits[o.Kind].class == traits[f.Kind].class && (o.Victim == f.Victim || traits[f.Kind].class == "broker") {
					t.Errorf("seed %d: %v and %v overlap", seed, &o, &f)
				}
			}
			if open >= together {
				t.Errorf("seed %d: %v is one of %d at once", seed, &f, open+1)
			}
		}
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d kinds were used: %v", len(seen), len(all), seen)
	}
	if slices.Equal(Schedule(1, time.Minute, usualPace, all), Schedule(2, time.Minute, usualPace, all)) {
		t.Error("two seeds give the same schedule")
	}
}
