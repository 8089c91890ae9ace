package consumergroup

import (
	"sync"

	"github.com/sluicehq/sluice/sharetask"
)

// gate shares the allowance among the partitions' goroutines.
type gate struct {
	mu      sync.Mutex
	total   sharetask.Room
	had     sharetask.Room // Delivered or reserved.
	changed chan struct{}  // Closed, and replaced, when there may be more room.
}

func newGate() *gate { return &gate{changed: make(chan struct{})} }

func (g *gate) set(total sharetask.Room) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total = total
	g.announce()
}

// announce wakes who waits for room. g.mu must be held.
func (g *gate) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// reserve takes at most records from the allowance. With nothing left it
// returns 0 and a channel that is closed when to ask again.
func (g *gate) reserve(records int) (reserved int, bytes int64, wait <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.total.Records - g.had.Records
	bytes = g.total.Bytes - g.had.Bytes
	if left <= 0 || bytes <= 0 {
		return 0, 0, g.changed
	}
	reserved = int(min(int64(records), left))
	g.had.Records += int64(reserved)
	return reserved, bytes, nil
}

// refund takes back records that were counted and then not delivered.
func (g *gate) refund(records, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.had.Records -= int64(records)
	g.had.Bytes -= int64(bytes)
	g.announce()
}

// settle gives back what of a reservation was not used, and counts the bytes.
func (g *gate) settle(reserved, used, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.had.Records -= int64(reserved - used)
	g.had.Bytes += int64(bytes)
	if used < reserved {
		g.announce()
	}
}
