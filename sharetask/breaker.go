package sharetask

import "time"

// BreakerPolicy says when an outage is assumed.
type BreakerPolicy struct {
	Failures int           // Whole batches that must fail in a row; at least 1.
	Max      time.Duration // Longest wait between probes.
}

// breaker tells an outage of the target from a bad record. It has no clock.
// Closed, puts flow. After Failures whole batches failed and none succeeded it
// opens: nothing is acquired or put until probeAt; then one put, the probe, is
// let through, and only its success closes the breaker.
type breaker struct {
	policy   BreakerPolicy
	retry    RetryPolicy
	failures int       // Whole batches failed since the last success.
	opens    int       // Probes failed in this outage.
	probeAt  time.Time // Zero while closed.
	probing  bool
	success  time.Time // Of the last batch in which any record succeeded.
}

func (b *breaker) open() bool { return !b.probeAt.IsZero() }

// succeeded enters a put in which the target took or judged a record.
func (b *breaker) succeeded(now time.Time) {
	b.failures, b.opens, b.probing, b.probeAt = 0, 0, false, time.Time{}
	b.success = now
}

// failed enters a put of which no record succeeded.
func (b *breaker) failed(now time.Time) {
	b.failures++
	if b.failures < b.policy.Failures && !b.open() {
		return
	}
	if b.open() && !b.probing {
		return // A put from before it opened.
	}
	b.probing = false
	b.opens++
	p := b.retry
	p.Max = b.policy.Max
	b.probeAt = now.Add(jitter(p.backoff(b.opens)))
}

// allow reports whether a put may start now, and takes the probe if it is one.
func (b *breaker) allow(now time.Time) bool {
	if !b.open() {
		return true
	}
	if b.probing || now.Before(b.probeAt) {
		return false
	}
	b.probing = true
	return true
}

// abandon gives an unused probe back.
func (b *breaker) abandon() { b.probing = false }
