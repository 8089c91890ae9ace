package sharetask

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

func TestJudge(t *testing.T) {
	policy := RetryPolicy{Initial: 300 * time.Millisecond, Max: time.Minute, MaxElapsed: 5 * time.Minute}
	retry := func(c pluginapi.Class, after time.Duration) pluginapi.Result {
		return pluginapi.Retried(&pluginapi.Error{Class: c, RetryAfter: after})
	}
	for _, tc := range []struct {
		name  string
		f     failure
		act   action
		wait  time.Duration
		cause string
	}{
		{"accept", failure{result: pluginapi.Result{Outcome: pluginapi.Accept}}, actAccept, 0, ""},
		{"reject", failure{result: pluginapi.Rejected("1", "no")}, actGiveUp, 0, "rejected"},
		{"reject while leaving", failure{result: pluginapi.Rejected("1", "no"), leaving: true}, actGiveUp, 0, "rejected"},
		{"first retry", failure{result: retry(pluginapi.Transient, 0), attempts: 1}, actRetry, 300 * time.Millisecond, ""},
		{"third retry", failure{result: retry(pluginapi.Transient, 0), attempts: 3}, actRetry, 1200 * time.Millisecond, ""},
		{"hundredth retry", failure{result: retry(pluginapi.Unavailable, 0), attempts: 100}, actRetry, time.Minute, ""},
		{"retry after", failure{result: retry(pluginapi.Throttled, 7*time.Second), attempts: 1}, actRetry, 7 * time.Second, ""},
		{"retry after too long", failure{result: retry(pluginapi.Throttled, time.Hour), attempts: 1}, actRetry, time.Minute, ""},
		{"retry while leaving", failure{result: retry(pluginapi.Transient, 0), attempts: 1, leaving: true}, actRelease, 0, ""},
		{"unknown", failure{attempts: 1}, actRetry, 300 * time.Millisecond, ""},
		{"an outcome out of range", failure{result: pluginapi.Result{Outcome: 9}, attempts: 1}, actRetry, 300 * time.Millisecond, ""},
		{"transient long, others succeed", failure{result: retry(pluginapi.Transient, 0), attempts: 9, elapsed: 5 * time.Minute, succeeded: true}, actGiveUp, 0, "retries exhausted"},
		{"no class counts as transient", failure{result: pluginapi.Result{Outcome: pluginapi.Retry}, attempts: 9, elapsed: 5 * time.Minute, succeeded: true}, actGiveUp, 0, "retries exhausted"},
		{"transient long, nothing succeeds", failure{result: retry(pluginapi.Transient, 0), attempts: 1, elapsed: time.Hour}, actRetry, 300 * time.Millisecond, ""},
		{"throttled long, others succeed", failure{result: retry(pluginapi.Throttled, 0), attempts: 1, elapsed: time.Hour, succeeded: true}, actRetry, 300 * time.Millisecond, ""},
		{"unavailable long, others succeed", failure{result: retry(pluginapi.Unavailable, 0), attempts: 1, elapsed: time.Hour, succeeded: true}, actRetry, 300 * time.Millisecond, ""},
		{"unknown long, others succeed", failure{attempts: 1, elapsed: time.Hour, succeeded: true}, actRetry, 300 * time.Millisecond, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			act, wait, _, cause := judge(tc.f, policy)
			if act != tc.act || wait != tc.wait || cause != tc.cause {
				t.Errorf("got %d, %s, %q; want %d, %s, %q", act, wait, cause, tc.act, tc.wait, tc.cause)
			}
		})
	}
}

func testBreaker() breaker {
	return breaker{policy: BreakerPolicy{Failures: 3, Max: time.Minute}, retry: RetryPolicy{Initial: time.Second, Max: time.Hour, MaxElapsed: 5 * time.Minute}}
}

func TestBreaker(t *testing.T) {
	now := time.Unix(1000, 0)
	b := testBreaker()
	b.failed(now)
	b.failed(now)
	b.succeeded(now, now)
	b.failed(now)
	b.failed(now)
	if b.opened {
		t.Fatal("open after two failures in a row, want three")
	}
	b.failed(now)
	if !b.opened || !b.down() || b.allow(now) || b.room() != 0 {
		t.Fatal("want open, and no put and no room before the probe")
	}
	for i := range 20 { // Each probe fails; no wait is longer than Max.
		if wait := b.probeAt.Sub(now); wait <= 0 || wait > time.Minute+1 {
			t.Fatalf("probe %d after %s", i, wait)
		}
		now = b.probeAt
		if !b.wantsCheck(now) || b.allow(now) || b.room() != 0 {
			t.Fatal("want a check before the probe")
		}
		b.check()
		if b.wantsCheck(now) {
			t.Fatal("want one check at a time")
		}
		at := b.probeAt
		if i%2 == 0 { // It fails.
			b.failed(now)
		} else {
			b.passed(now, 1)
			now = later(now, b.probeAt)
			if b.room() == 0 || !b.allow(now) {
				t.Fatal("want the probe allowed once the check passed")
			}
			if b.allow(now) {
				t.Fatal("want one probe at a time")
			}
			b.failed(now)
		}
		if !b.probeAt.After(at) {
			t.Fatal("what failed must wait for the next")
		}
	}
	now = b.probeAt
	b.check()
	b.passed(now, 1)
	now = later(now, b.probeAt)
	b.allow(now)
	b.abandon()
	if !b.allow(now) {
		t.Fatal("an unused probe must be there again")
	}
	b.succeeded(now, now)
	if b.opened || !b.allow(now) {
		t.Fatal("want closed after a success")
	}
}

// TestBreakerWidens: one record that fails by itself is not taken for an outage
// for ever: more is let in to compare it with.
func TestBreakerWidens(t *testing.T) {
	now := time.Unix(1000, 0)
	b := testBreaker()
	b.begin(now)
	if b.down() || b.room() != 1 {
		t.Fatalf("at the start room is %d, want 1 and no outage", b.room())
	}
	b.allow(now)
	b.inconclusive()
	if b.room() != 2 {
		t.Errorf("after a probe that says nothing room is %d, want 2", b.room())
	}
	b = testBreaker()
	b.begin(now)
	var rooms []int
	for range 60 {
		b.allow(now)
		b.failed(now)
		now = b.probeAt
		if b.wantsCheck(now) {
			b.check()
			b.passed(now, 1)
		}
		if n := b.room(); len(rooms) == 0 || rooms[len(rooms)-1] != n {
			rooms = append(rooms, n)
		}
	}
	if len(rooms) < 3 || rooms[0] != 1 || rooms[1] != 2 || rooms[2] != 4 {
		t.Errorf("room was %v, want it to double every max_elapsed", rooms)
	}
}
