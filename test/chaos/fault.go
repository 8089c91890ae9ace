package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is what a fault does.
type Kind string

// The kinds of faults.
const (
	WorkerKill  Kind = "worker killed"          // SIGKILL, started again at the end.
	WorkerStop  Kind = "worker stopped"         // SIGSTOP for longer than the lock, then SIGCONT.
	BrokerKill  Kind = "broker killed"          // SIGKILL, started again at the end.
	BrokerStop  Kind = "broker stopped"         // SIGSTOP, then SIGCONT.
	LeaderMove  Kind = "leaders moved"          // Of all partitions, the group's state and coordinator included.
	Refuse      Kind = "target refuses"         // Connections are closed, new ones refused.
	Hang        Kind = "target hangs"           // Requests get no answer and store nothing.
	Unavailable Kind = "target answers 503"     // Nothing is stored.
	Throttle    Kind = "target answers 429"     // With Retry-After; nothing is stored.
	StoreLate   Kind = "target stores late"     // Stored, answered after the sink's timeout.
	StoreCut    Kind = "target stores and cuts" // Stored, then the connection is closed instead of an answer.
	LinkCut     Kind = "target link cut"        // One worker's connections to the target are closed, again and again.
	LinkDelay   Kind = "target link slow"       // What goes over them waits.
	LinkHalf    Kind = "target link dead"       // They stay open, and what is sent vanishes.
	BrokerCut   Kind = "broker link cut"        // The same for one worker's connections to all brokers.
	BrokerDelay Kind = "broker link slow"
	BrokerHalf  Kind = "broker link dead"
)

// trait is what the schedule and the accounting need to know of a kind.
type trait struct {
	class    string        // Two faults with the same class and victim never overlap.
	victims  int           // How many of the class there are; 0: the one target, or the one cluster.
	min, max time.Duration // How long it lasts.
	doubles  bool          // Whether it can be why a record is in two places.
}

const (
	workers = 3
	brokers = 3

	// Lock is the group's record lock, the shortest a broker takes.
	Lock = 15 * time.Second

	// brokerRest is how long after a fault of a broker the next one may come: it has to start and to catch up.
	brokerRest = 15 * time.Second

	together = 2 // Faults at a time.

	// usualPace is the mean time between the starts of two faults.
	usualPace = 5 * time.Second
)

// kinds returns the kinds in a fixed order and their traits. The target's refusals store nothing, so they explain no double.
func kinds() ([]Kind, map[Kind]trait) {
	s := time.Second
	traits := map[Kind]trait{
		WorkerKill:  {"worker", workers, 1 * s, 5 * s, true},
		WorkerStop:  {"worker", workers, Lock + 3*s, Lock + 8*s, true},
		BrokerKill:  {"broker", 0, 3 * s, 10 * s, true},
		BrokerStop:  {"broker", 0, 3 * s, 9 * s, true},
		LeaderMove:  {"broker", 0, 1 * s, 1 * s, true},
		Refuse:      {"target", 0, 2 * s, 10 * s, true},
		Hang:        {"target", 0, 3 * s, 12 * s, false},
		Unavailable: {"target", 0, 2 * s, 12 * s, false},
		Throttle:    {"target", 0, 2 * s, 8 * s, false},
		StoreLate:   {"target", 0, 3 * s, 8 * s, true},
		StoreCut:    {"target", 0, 2 * s, 6 * s, true},
		LinkCut:     {"worker", workers, 2 * s, 8 * s, true},
		LinkDelay:   {"worker", workers, 3 * s, 10 * s, true},
		LinkHalf:    {"worker", workers, 3 * s, 12 * s, true},
		BrokerCut:   {"worker", workers, 2 * s, 8 * s, true},
		BrokerDelay: {"worker", workers, 3 * s, 10 * s, true},
		BrokerHalf:  {"worker", workers, 3 * s, 25 * s, true},
	}
	names := make([]Kind, 0, len(traits))
	for k := range traits {
		names = append(names, k)
	}
	slices.Sort(names)
	return names, traits
}

// ofTarget reports whether the kind is about the http target, or about what is between it and the workers.
func (k Kind) ofTarget() bool {
	switch k {
	case LinkCut, LinkDelay, LinkHalf:
		return true
	default:
		_, traits := kinds()
		return traits[k].class == "target"
	}
}

// Fault is one fault of a schedule. Times are since the start of the run.
type Fault struct {
	Kind       Kind
	Victim     int           // Index of the worker or broker; 0 for the target and for leaders.
	Share      float64       // Of the requests a fault of the target hits, 0 to 1.
	Delay      time.Duration // Of slow links.
	Start, End time.Duration // As planned, then as it was.
	Skipped    string        // Why it was not done; empty if it was.
}

// String says what the fault does to whom.
func (f *Fault) String() string {
	_, traits := kinds()
	switch {
	case traits[f.Kind].class == "worker" && f.Delay > 0:
		return fmt.Sprintf("%s (w%d, %v)", f.Kind, f.Victim+1, f.Delay)
	case traits[f.Kind].class == "worker":
		return fmt.Sprintf("%s (w%d)", f.Kind, f.Victim+1)
	case f.Kind == BrokerKill, f.Kind == BrokerStop:
		return fmt.Sprintf("%s (%d)", f.Kind, f.Victim+1)
	case f.Share > 0 && f.Share < 1:
		return fmt.Sprintf("%s (%.0f%%)", f.Kind, f.Share*100)
	default:
		return string(f.Kind)
	}
}

// Schedule returns faults for a run of that length, in order of their starts: the same for the same arguments. Nothing begins in the
// first five seconds, or is open in the last two; at most two overlap, never two of the same victim, of the target, or of brokers.
// Only the kinds given are used, each as often as it is given before any comes again. pace is the mean time between two starts; a
// killed worker is not down for longer.
func Schedule(seed uint64, length, pace time.Duration, only []Kind) []Fault {
	if len(only) == 0 {
		return nil
	}
	_, traits := kinds()
	if kill := traits[WorkerKill]; pace < kill.max {
		kill.min, kill.max = min(kill.min, pace/4), pace
		traits[WorkerKill] = kill
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	between := func(lo, hi time.Duration) time.Duration {
		return lo + time.Duration(rng.Int64N(int64(hi-lo)+1)).Round(time.Millisecond)
	}
	var out []Fault
	var deck []Kind
	for at := 5 * time.Second; at < length; at += between(pace*2/5, pace*8/5) {
		if len(deck) == 0 {
			deck = slices.Clone(only)
			rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		// The first of the deck that fits now.
		for i, kind := range deck {
			f := Fault{Kind: kind, Start: at}
			t := traits[kind]
			f.End = at + between(t.min, t.max)
			switch {
			case t.victims > 0:
				f.Victim = rng.IntN(t.victims)
			case kind == BrokerKill, kind == BrokerStop:
				f.Victim = rng.IntN(brokers)
			case t.class == "target" && kind != Refuse:
				f.Share = []float64{0.3, 1}[rng.IntN(2)]
			}
			if kind == LinkDelay || kind == BrokerDelay {
				f.Delay = between(100*time.Millisecond, 3*time.Second)
			}
			if f.End <= length-2*time.Second && fits(f, out, traits) {
				out = append(out, f)
				deck = slices.Delete(deck, i, i+1)
				break
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Fault) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// fits reports whether f may be added to the faults before it, none of which starts later.
func fits(f Fault, before []Fault, traits map[Kind]trait) bool {
	open := 0
	class := traits[f.Kind].class
	for _, o := range before {
		same := traits[o.Kind].class == class
		if same && class == "broker" && f.Start < o.End+brokerRest {
			return false
		}
		if o.End < f.Start {
			continue
		}
		open++
		if same && o.Victim == f.Victim {
			return false
		}
	}
	return open < together
}
