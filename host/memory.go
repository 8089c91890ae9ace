package host

import (
	"math"
	"runtime/debug"
)

// defaultMemory is the budget of all records in flight without a limit to
// derive it from.
const defaultMemory = 1 << 30

// memory returns the budget in bytes of all records in flight: what the worker
// block says, else half of GOMEMLIMIT, else 1 GiB.
func memory(configured int64) int {
	if configured > 0 {
		return int(configured)
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return int(limit / 2)
	}
	return defaultMemory
}
