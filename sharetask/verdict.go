package sharetask

import (
	"math/rand/v2"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// RetryPolicy bounds how a record is put again.
type RetryPolicy struct {
	Initial    time.Duration // First backoff.
	Max        time.Duration // Longest backoff, and the longest retry-after that is followed.
	MaxElapsed time.Duration // How long a record may fail while others succeed.
}

// backoff returns the longest wait after the given number of failed attempts,
// from 1: Initial, doubling to Max. The wait itself is drawn from [0, backoff].
func (p RetryPolicy) backoff(attempts int) time.Duration {
	d := p.Initial
	for i := 1; i < attempts && d < p.Max; i++ {
		d *= 2
	}
	return min(d, p.Max)
}

// jitter draws a wait of up to d (full jitter).
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) + 1
}

// action is what follows from one record's result.
type action uint8

const (
	actAccept  action = iota + 1 // The record is written.
	actRetry                     // Held, and put again after the delay.
	actGiveUp                    // Dead-lettered, or what stands for it.
	actRelease                   // Given back: there is no time left to put it again.
)

// causeRetries is the cause of a record that was retried for long enough.
const causeRetries = "retries exhausted"

// failure is all that decides about a record that was not accepted.
type failure struct {
	result    pluginapi.Result
	attempts  int           // This one included, so from 1.
	elapsed   time.Duration // For how long it failed so.
	succeeded bool          // Whether other records succeeded since then.
	leaving   bool          // Whether the partition is being taken away.
}

// transient reports whether r says that only this record was not written now.
func transient(r pluginapi.Result) bool {
	return r.Outcome == pluginapi.Retry && (r.Err == nil || r.Err.Class == pluginapi.Transient || r.Err.Class == pluginapi.NoClass)
}

// judge is the one place where the fate of a record is decided
// (docs/delivery.md has the table). It returns the action, for actRetry the
// longest wait and whether it is to be drawn below it, and for actGiveUp the
// cause.
func judge(f failure, p RetryPolicy) (act action, wait time.Duration, draw bool, cause string) {
	switch f.result.Outcome {
	case pluginapi.Accept:
		return actAccept, 0, false, ""
	case pluginapi.Reject:
		return actGiveUp, 0, false, "rejected"
	case pluginapi.Retry: // As the unknown, with a reason.
	}
	if f.leaving {
		return actRelease, 0, false, ""
	}
	class := pluginapi.Unknown
	var after time.Duration
	if f.result.Outcome == pluginapi.Retry {
		class = pluginapi.Transient
		if e := f.result.Err; e != nil {
			after = e.RetryAfter
			if e.Class != pluginapi.NoClass {
				class = e.Class
			}
		}
	}
	// Only a transient failure can be the record's own: a target that is down
	// or asks for less says nothing about it, and neither does a crash.
	if class == pluginapi.Transient && f.succeeded && f.elapsed >= p.MaxElapsed {
		return actGiveUp, 0, false, causeRetries
	}
	if after > 0 {
		return actRetry, min(after, p.Max), false, ""
	}
	return actRetry, p.backoff(f.attempts), true, ""
}
