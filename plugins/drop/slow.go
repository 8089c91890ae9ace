package drop

import (
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// maxPutOff bounds the records a sink has put off. Beyond it records are
// accepted at once: a host that never comes back must not fill the memory.
const maxPutOff = 100_000

// slow puts single records off, as a target does that is busy with one of them.
type slow struct {
	every   int64
	wait    time.Duration
	waiting map[place]time.Time // Records put off, until when.
}

// place is where a record was read.
type place struct {
	topic     string
	partition int32
	offset    int64
}

func newSlow(every int64, wait time.Duration) *slow {
	return &slow{every: every, wait: wait, waiting: map[place]time.Time{}}
}

// judge writes the answers for the records that are put off into results and
// returns how many these are.
func (s *slow) judge(batch []pluginapi.Record, results []pluginapi.Result, now time.Time) int {
	n := 0
	for i := range batch {
		r := &batch[i]
		if r.Offset%s.every != s.every/2 {
			continue
		}
		at := place{r.Topic, r.Partition, r.Offset}
		until, waits := s.waiting[at]
		switch {
		case waits && !now.Before(until):
			delete(s.waiting, at)
			continue
		case !waits && len(s.waiting) >= maxPutOff:
			continue
		case !waits:
			until = now.Add(s.wait)
			s.waiting[at] = until
		}
		results[i] = pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Transient, Code: "slow", RetryAfter: until.Sub(now)})
		n++
	}
	return n
}
