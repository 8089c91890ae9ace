package drop

import (
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

const (
	ageStep  = 100 * time.Microsecond
	ageSteps = 10_000 // Ages of a second and more share the last one.
)

// ages says how old records were: a histogram with steps of a tenth of a
// millisecond.
type ages struct {
	records int64
	oldest  time.Duration
	counts  [ageSteps]uint32
}

func (a *ages) add(batch []pluginapi.Record, now time.Time) {
	for i := range batch {
		if batch[i].TimestampType == pluginapi.NoTimestamp {
			continue
		}
		age := max(now.Sub(batch[i].Timestamp), 0)
		a.counts[min(age/ageStep, ageSteps-1)]++
		a.oldest = max(a.oldest, age)
		a.records++
	}
}

// quantile returns the age that a part of q of the records did not pass.
func (a *ages) quantile(q float64) time.Duration {
	left := int64(q * float64(a.records))
	for i, n := range a.counts {
		if left -= int64(n); left < 0 {
			return min(time.Duration(i+1)*ageStep, a.oldest)
		}
	}
	return a.oldest
}
