package sharetask

import "fmt"

// ratioRecords is over how many records the share of those given up on is
// looked at.
const ratioRecords = 1000

// ratio notices that too many records are given up on: a wrong setting or a
// changed format, more likely than that many bad records.
type ratio struct {
	most    float64 // 0 is off.
	records int
	givenUp int
}

// add enters records that were decided, and reports whether too many of the
// last ratioRecords were given up on.
func (r *ratio) add(records, givenUp int) bool {
	r.records += records
	r.givenUp += givenUp
	if r.records < ratioRecords {
		return false
	}
	over := r.most > 0 && float64(r.givenUp) > r.most*float64(r.records)
	if !over {
		r.records, r.givenUp = 0, 0
	}
	return over
}

// err says why the task stops.
func (r *ratio) err(last error) error {
	return fmt.Errorf("%d of the last %d records were given up on, more than dead_letter_queue.max_ratio = %g allows; the last: %w. "+
		"Restart the connector once the cause is found, or set max_ratio = 0", r.givenUp, r.records, r.most, firstErr(last, errNoResult))
}
