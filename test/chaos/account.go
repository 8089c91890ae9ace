package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Place is where a record stands in its topic.
type Place struct {
	Partition int32
	Offset    int64
}

// unconfirmed is the offset of a record that the broker did not confirm.
const unconfirmed = -1

// Event is one arrival of a record: at the target, or in the dead letter topic.
type Event struct {
	ID     int
	Place  Place
	At     time.Duration // Since the start of the run.
	Worker string        // Who wrote it, a worker or the id and epoch of a producer; empty for a dead letter at least once.
	Letter *Letter       // Nil at the target.
}

// Letter is what a dead letter says of its record.
type Letter struct {
	Headers    map[string]string
	Deliveries int
}

// Double is one arrival too many.
type Double struct {
	First, Second Event
	Fault         int // Index of the fault that explains it; -1: none does.
}

// kind names where the two arrivals are.
func (d *Double) kind() string {
	switch {
	case d.First.Letter == nil && d.Second.Letter == nil:
		return "written more than once"
	case d.First.Letter != nil && d.Second.Letter != nil:
		return "dead-lettered more than once"
	default:
		return "in two places"
	}
}

// Account says where every confirmed record ended.
type Account struct {
	Once         bool // No fault may be why a record is in two places.
	Confirmed    int
	Written      int // Confirmed records at the target.
	DeadLettered int // Confirmed records in the dead letter topic.
	Both         int // Counted in both of the above.
	Lost         []int
	GoodDead     []Event // Dead letters of records that the target would have taken.
	BadWritten   int     // Records the target must refuse, and has.
	Doubles      []Double
	Unconfirmed  int // Records that arrived though the broker never confirmed them to the producer.
	OtherPlace   int // Arrivals from another place than the confirmed one: the producer wrote the record twice.
	Deliveries   int // Highest delivery count of a dead letter.
}

// Unexplained returns the doubles that no fault covers.
func (a *Account) Unexplained() []Double {
	var out []Double
	for _, d := range a.Doubles {
		if d.Fault < 0 {
			out = append(out, d)
		}
	}
	return out
}

// Excess returns the doubles that must not be: with Once all of them, else those that no fault covers.
func (a *Account) Excess() []Double {
	if a.Once {
		return a.Doubles
	}
	return a.Unexplained()
}

// Failed reports whether something happened that must not.
func (a *Account) Failed() bool {
	return len(a.Lost) > 0 || len(a.GoodDead) > 0 || a.BadWritten > 0 || len(a.Excess()) > 0
}

// Tally accounts for every confirmed record. confirmed has the place of each record by its id, with the offset -1 where there is
// none. bad reports which records the target refuses. A double belongs to the fault within whose window, and grace after it, the
// second arrival falls; of several the latest that began after the first arrival, else the latest. Faults whose kind stores nothing
// explain no double. What a killed worker wrote last is explained by its kill for longer, see orphaned. events is sorted.
func Tally(confirmed []Place, events []Event, bad func(id int) bool, faults []Fault, grace time.Duration) *Account {
	a := &Account{}
	written, dead := make([]bool, len(confirmed)), make([]bool, len(confirmed))
	slices.SortFunc(events, func(x, y Event) int {
		return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Place.Partition, y.Place.Partition),
			cmp.Compare(x.Place.Offset, y.Place.Offset), cmp.Compare(x.At, y.At))
	})
	for i, e := range events {
		if e.ID >= len(confirmed) || confirmed[e.ID].Offset == unconfirmed {
			a.Unconfirmed++
		} else {
			if e.Place != confirmed[e.ID] {
				a.OtherPlace++
			}
			written[e.ID] = written[e.ID] || e.Letter == nil
			dead[e.ID] = dead[e.ID] || e.Letter != nil
		}
		if e.Letter != nil {
			a.Deliveries = max(a.Deliveries, e.Letter.Deliveries)
			if !bad(e.ID) {
				a.GoodDead = append(a.GoodDead, e)
			}
		} else if bad(e.ID) {
			a.BadWritten++
		}
		if i > 0 && events[i-1].ID == e.ID && events[i-1].Place == e.Place {
			a.Doubles = append(a.Doubles, Double{First: events[i-1], Second: e, Fault: blame(events[i-1], e, faults, grace)})
		}
	}
	for id, p := range confirmed {
		if p.Offset == unconfirmed {
			continue
		}
		a.Confirmed++
		if written[id] {
			a.Written++
		}
		if dead[id] {
			a.DeadLettered++
		}
		if written[id] && dead[id] {
			a.Both++
		}
		if !written[id] && !dead[id] {
			a.Lost = append(a.Lost, id)
		}
	}
	return a
}

// blame returns the index of the fault that explains why second came after first, or -1.
func blame(first, second Event, faults []Fault, grace time.Duration) int {
	_, traits := kinds()
	found, between := -1, false
	for i := range faults {
		f := &faults[i]
		if f.Skipped != "" || !traits[f.Kind].doubles || second.At < f.Start || second.At > f.End+grace && !orphaned(first, second, f) {
			continue
		}
		open := f.End >= first.At // It was open, or began, between the two.
		if found < 0 || open && !between || open == between && f.Start >= faults[found].Start {
			found, between = i, open
		}
	}
	return found
}

// sessionTimeout is the brokers' default of share.session.timeout.ms: for so long a killed worker keeps the partitions it was
// assigned, and nobody else reads them.
const sessionTimeout = 45 * time.Second

// orphaned reports whether first is what a killed worker wrote in its last moments, which could not be acknowledged any more, and
// second came when another worker got its partitions. A dead letter does not say who wrote it: it has to be of the very second. What
// was written in that second may come as late as it likes: other faults may keep the partition from being read.
func orphaned(first, second Event, f *Fault) bool {
	since := f.Start - Lock
	if first.Letter != nil {
		since = f.Start - time.Second
	} else if first.Worker != fmt.Sprintf("w%d", f.Victim+1) {
		return false
	}
	if f.Kind != WorkerKill || first.At <= since || first.At >= f.Start+time.Second {
		return false
	}
	return first.At > f.Start-time.Second || second.At < f.Start+sessionTimeout+5*time.Second
}
