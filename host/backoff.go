package host

import (
	"context"
	"math/rand/v2"
	"time"
)

// restartBackoff is the wait before something is started again: a second,
// doubling to a minute, half of it drawn. What ran for steadyAfter starts over
// at a second.
type restartBackoff struct{ attempt int }

const (
	restartFirst = time.Second
	restartMax   = time.Minute
	steadyAfter  = 2 * time.Minute
)

// wait waits, unless ctx ends first, and reports whether to go on.
func (b *restartBackoff) wait(ctx context.Context, ran time.Duration) bool {
	if ran >= steadyAfter {
		b.attempt = 0
	}
	d := min(restartFirst<<min(b.attempt, 10), restartMax)
	b.attempt++
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
