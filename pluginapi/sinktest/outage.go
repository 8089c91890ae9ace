package sinktest

import (
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
)

// wantHeld fails if an outage cost a record anything: what is not stored is
// retried or unknown, never accepted and never rejected.
func wantHeld(t testing.TB, results []pluginapi.Result, err error) {
	t.Helper()
	for i, r := range results {
		switch r.Outcome {
		case pluginapi.Accept:
			t.Errorf("record %d is accepted and the target is not there", i)
		case pluginapi.Reject:
			t.Errorf("record %d: %s, though the target is not there: an outage is not the record's fault", i, describe(r))
		case pluginapi.Retry:
		default:
			if err == nil {
				t.Errorf("record %d is unknown and there is no error", i)
			}
		}
	}
	if err != nil {
		if e := pluginapi.AsError(err, pluginapi.NoClass); e.Class == pluginapi.Fatal || e.Class == pluginapi.Invalid {
			t.Errorf("put: class %s, though the target may come back: %v", e.Class, err)
		}
	}
}

// checkUnreachable: a target that is not there is waited for.
func checkUnreachable(t testing.TB, target *Target) {
	s := target.own(t, target.Unreachable)
	if err := target.call(t, "Start", s.Start); err != nil {
		if e := pluginapi.AsError(err, pluginapi.NoClass); e.Class == pluginapi.Fatal || e.Class == pluginapi.Invalid {
			t.Errorf("start: class %s, though the target may come: %v", e.Class, err)
		}
		return
	}
	batch := target.records("lost", 5, 10)
	results, err := target.put(t, s, batch)
	wantHeld(t, results, err)
	if s.Gone() {
		return
	}
	if err := target.call(t, "Check", s.Check); err != nil {
		if e := pluginapi.AsError(err, pluginapi.NoClass); e.Class == pluginapi.Fatal || e.Class == pluginapi.Invalid {
			t.Errorf("check: class %s, though the target may come: %v", e.Class, err)
		}
	}
}

// checkOutage: a target that goes away and comes back costs no record, and no
// new sink is needed.
func checkOutage(t testing.TB, target *Target) {
	s := target.started(t)
	before, during := target.records("before", 10, 50), target.records("during", 10, 50)
	target.putAll(t, s, before)
	target.FailAfter(t, 0)
	for range 2 {
		results, err := target.put(t, s, during)
		wantHeld(t, results, err)
	}
	target.Repair(t)
	if s.Gone() {
		s = target.started(t)
	}
	target.putAll(t, s, during)
	target.wantStored(t, before, 1)
	// An outage may hide that a record was stored.
	target.wantStored(t, during, 3)
}

// checkMiddle: of a batch that was interrupted, exactly what is accepted is
// sure to be there, and the rest can be put again.
func checkMiddle(t testing.TB, target *Target) {
	for _, after := range []int{1, 5, 19} {
		s := target.started(t)
		batch := target.records("middle"+string(rune('a'+after)), 20, 50)
		target.FailAfter(t, after)
		results, err := target.put(t, s, batch)
		var accepted, again []pluginapi.Record
		for i, r := range results {
			switch r.Outcome {
			case pluginapi.Accept:
				accepted = append(accepted, batch[i])
			case pluginapi.Reject:
				t.Errorf("record %d: %s, though the target failed: an outage is not the record's fault", i, describe(r))
			default:
				if r.Outcome == 0 && err == nil {
					t.Errorf("record %d is unknown and there is no error", i)
				}
				again = append(again, batch[i])
			}
		}
		if len(again) == 0 {
			t.Errorf("all 20 records are accepted and the target failed after %d", after)
		}
		target.Repair(t)
		target.wantStored(t, accepted, 1)
		if s.Gone() {
			s = target.started(t)
		}
		target.putAll(t, s, again)
		target.wantStored(t, batch, 2)
	}
}
