// Package sinktest is the conformance kit of sinks: the cases every sink must
// pass, whatever form it runs in. A plugin's tests call [Run] with a [Target],
// which says how to make a sink and how to look at what it stored.
//
// The kit needs no broker. It is imported by tests only.
package sinktest

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// Target is a place sinks write to, fresh for each case, and the ways to make
// sinks for it. Its functions are called from the test's goroutine and may fail
// the test or register a cleanup. What is nil leaves out the checks that need it.
type Target struct {
	// New makes a sink that writes to the target, not started yet. It is
	// called several times for one target. Required.
	New func(t testing.TB) Sink

	// Stored returns the id of every record the target holds, as often as it
	// holds it, in any order. The id stands in the record's value, see Data.
	Stored func(t testing.TB) []string

	// Data gives records a key and a value of data: a string, and a map of
	// "id" and "pad", both strings. Otherwise they are bytes: the key the id,
	// the value the JSON object {"id":"…","pad":"…"}.
	Data bool

	// Folds says that the target keeps one copy of a record that is put again.
	Folds bool

	// LargestRecord is the size in bytes of the large record; 0 means 1 MiB.
	LargestRecord int

	// Bad returns a record that the sink or its target rejects.
	Bad func(t testing.TB) pluginapi.Record

	// FailAfter makes the target fail once it stored so many more records,
	// as it would in an outage; Repair ends that. Both or none.
	FailAfter func(t testing.TB, records int)
	Repair    func(t testing.TB)

	// Unreachable makes a sink whose settings are right and whose target is
	// not there.
	Unreachable func(t testing.TB) Sink

	// Misconfigured makes a sink whose settings can never be right.
	Misconfigured func(t testing.TB) Sink

	timeout time.Duration // Of a call and its grace, in place of the kit's own; for its tests.
}

// testCase is one case of the kit.
type testCase struct {
	name  string
	skip  func(*Target) string // Why the case does not apply; empty means it does. May be nil.
	check func(testing.TB, *Target)
}

func cases() []testCase {
	return []testCase{
		{name: "order and number of results", check: checkResults},
		{name: "empty batch", check: checkEmpty},
		{name: "accepted is stored", check: checkStored, skip: needsStored},
		{name: "batch is not kept", check: checkNotKept, skip: needsStored},
		{name: "tombstones", check: checkTombstones},
		{name: "large batch", check: checkLargeBatch},
		{name: "large record", check: checkLargeRecord},
		{name: "unicode and binary keys", check: checkKeys},
		{name: "cancelled context", check: checkCancelled},
		{name: "start and check write nothing", check: checkWritesNothing, skip: needsStored},
		{name: "start error", check: checkStartError, skip: func(target *Target) string {
			return unless(target.Misconfigured != nil, "no settings are wrong")
		}},
		{name: "restart", check: checkRestart},
		{name: "two instances at once", check: checkTwo},
		{name: "unreachable target", check: checkUnreachable, skip: func(target *Target) string {
			return unless(target.Unreachable != nil, "the target is always there")
		}},
		{name: "outage", check: checkOutage, skip: needsFailure},
		{name: "target fails in the middle", check: checkMiddle, skip: needsFailure},
		{name: "duplicates by id", check: checkDuplicates},
	}
}

// Run runs every case as a subtest. newTarget makes the target of one case.
func Run(t *testing.T, newTarget func(t testing.TB) Target) {
	t.Helper()
	for _, tc := range cases() {
		t.Run(tc.name, func(t *testing.T) {
			target := newTarget(t)
			if tc.skip != nil {
				if why := tc.skip(&target); why != "" {
					t.Skip(why)
				}
			}
			tc.check(t, &target)
		})
	}
}

func unless(ok bool, why string) string {
	if ok {
		return ""
	}
	return why
}

func needsStored(target *Target) string {
	return unless(target.Stored != nil, "what is stored cannot be read back")
}

func needsFailure(target *Target) string {
	return unless(target.FailAfter != nil && target.Repair != nil, "the target cannot be made to fail")
}
