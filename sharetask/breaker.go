package sharetask

import "time"

// BreakerPolicy says when an outage is assumed.
type BreakerPolicy struct {
	Failures int           // Whole puts that must fail in a row; at least 1.
	Max      time.Duration // Longest wait between probes.
}

// breaker tells an outage of the target from a bad record. It has no clock.
//
// Closed, puts flow. It opens after Failures whole puts failed and none
// succeeded; in a share group it begins open, since nothing is known of the
// target yet (slow start). Open, nothing is acquired or put until probeAt; then
// the sink's Check has to succeed; then one put, the probe, is let through: of
// what is held or else of what room lets in for it. Only a success closes it.
type breaker struct {
	policy   BreakerPolicy
	retry    RetryPolicy
	opened   bool
	failures int       // Whole puts failed since the last success.
	opens    int       // Probes and checks failed since it opened.
	since    time.Time // End of the first failure since the last success.
	probeAt  time.Time
	checked  bool // Check has succeeded since the last failure.
	probing  bool // A check or probe is under way.
	// success is when the put began that began last of those that succeeded: what
	// failed before then failed while the target took others.
	success time.Time
	closed  time.Time // When the last outage ended.
	// wide is how many records may be held for the probe. It doubles where the
	// one that is held tells nothing, which may be its own fault: at once if
	// its put said nothing, at widenAt if it keeps failing.
	wide    int
	widenAt time.Time
}

// widenWait is how long what is acquired to compare with is waited for.
const widenWait = 2 * time.Second

// maxWide bounds wide: what is held when a worker is started again spends a
// delivery.
const maxWide = 64

// begin opens it at a task's start, when the sink's Check has succeeded.
func (b *breaker) begin(now time.Time) {
	b.open(now)
	b.checked, b.probeAt = true, now
}

func (b *breaker) open(now time.Time) {
	b.opened, b.opens, b.wide, b.widenAt = true, 0, 1, now.Add(b.retry.MaxElapsed)
}

// down reports whether the target is taken to be down: enough has failed.
func (b *breaker) down() bool { return b.opened && b.failures >= b.policy.Failures }

// succeeded enters a put, begun at began, in which the target took or judged a
// record.
func (b *breaker) succeeded(began, now time.Time) {
	closed := b.closed
	if b.opened {
		closed = now
	}
	*b = breaker{policy: b.policy, retry: b.retry, success: later(b.success, began), closed: closed}
}

// failed enters a put of which no record succeeded, or a failed check.
func (b *breaker) failed(now time.Time) {
	b.failures++
	if b.since.IsZero() {
		b.since = now
	}
	switch {
	case !b.opened && b.failures < b.policy.Failures:
		return
	case !b.opened:
		b.open(now)
	case !b.probing: // A put from before it opened.
		return
	}
	b.probing, b.checked = false, false
	b.opens++
	p := b.retry
	p.Max = b.policy.Max
	b.probeAt = now.Add(jitter(p.backoff(b.opens)))
}

// passed enters a check that succeeded. The probe waits a little for what may be
// acquired for it.
func (b *breaker) passed(now time.Time, held int) {
	b.probing, b.checked = false, true
	if !now.Before(b.widenAt) {
		b.wide, b.widenAt = min(2*b.wide, maxWide), now.Add(b.retry.MaxElapsed)
	}
	if held > 0 && held < b.wide {
		b.probeAt = now.Add(widenWait)
	}
}

// abandon gives an unused probe back.
func (b *breaker) abandon() { b.probing = false }

// inconclusive enters a probe that says nothing of the target, such as one
// whose records were all dropped on purpose. Where nothing speaks against the
// target either, it closes after a few.
func (b *breaker) inconclusive() {
	b.probing = false
	if !b.opened || b.opens > 0 {
		return
	}
	if b.wide *= 2; b.wide > maxWide {
		b.opened = false
	}
}

// ready reports whether a probe may start now, wantsCheck whether a check has
// to come first.
func (b *breaker) ready(now time.Time) bool { return b.due(now) && b.checked }

func (b *breaker) wantsCheck(now time.Time) bool { return b.due(now) && !b.checked }

func (b *breaker) due(now time.Time) bool {
	return b.opened && !b.probing && !now.Before(b.probeAt)
}

// allow reports whether a put may start now, and takes the probe if it is one.
func (b *breaker) allow(now time.Time) bool {
	if !b.opened {
		return true
	}
	if !b.ready(now) {
		return false
	}
	b.probing = true
	return true
}

// mayPut reports what allow would, and takes nothing.
func (b *breaker) mayPut(now time.Time) bool { return !b.opened || b.ready(now) }

// check takes the probe for a check.
func (b *breaker) check() { b.probing = true }

// room returns how many records may be held, open.
func (b *breaker) room() int {
	if !b.checked {
		return 0
	}
	return b.wide
}
