package sharetask

import "time"

// caution bounds what a share group's task holds while its sessions break one
// after the other: each time all that is held spends a delivery and comes again
// at once. With each loss it becomes half of what was held, down to one put's
// worth; it is doubled every regainTime without one.
type caution struct {
	least, most int
	now         int // 0 before the first loss: most.
	at          time.Time
}

const (
	// lossTime is how long losses count as one: a broker that goes away takes
	// many partitions along.
	lossTime   = 500 * time.Millisecond
	regainTime = 5 * time.Second
)

// lost enters that a session was lost, with how many records of all.
func (c *caution) lost(held int, now time.Time) {
	if c.now > 0 && now.Before(c.at.Add(lossTime)) {
		return
	}
	c.now, c.at = max(min(held, c.bound(now))/2, min(c.least, c.most)), now
}

// bound returns how many records may be held.
func (c *caution) bound(now time.Time) int {
	for c.now > 0 && c.now < c.most && !now.Before(c.at.Add(regainTime)) {
		c.now, c.at = min(2*c.now, c.most), c.at.Add(regainTime)
	}
	if c.now == 0 {
		return c.most
	}
	return c.now
}
