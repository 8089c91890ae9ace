package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// lag returns how many records a share group has not finished; false while the broker does not say.
func lag(t *testing.T, c *kafkatest.Cluster, group string) (int64, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	admin := c.Admin(t)
	defer admin.Close()
	groups, err := admin.DescribeShareGroupOffsets(ctx, group)
	if err != nil || groups.Error() != nil {
		return 0, false
	}
	sum := int64(0)
	for _, o := range groups[group].Offsets.Sorted() {
		if o.Err != nil || o.Lag < 0 {
			return 0, false
		}
		sum += o.Lag
	}
	return sum, len(groups[group].Offsets) > 0
}

// awaitDrained waits until a share group has finished all there is.
func awaitDrained(t *testing.T, c *kafkatest.Cluster, group string) {
	t.Helper()
	n, ok := int64(0), false
	defer func() {
		if n > 0 || !ok {
			t.Logf("the group has %d records left (told: %v)", n, ok)
		}
	}()
	await(t, time.Minute, "the group has finished every record", func() bool {
		n, ok = lag(t, c, group)
		return ok && n == 0
	})
}

// readers returns how many members of a share group have partitions.
func readers(t *testing.T, c *kafkatest.Cluster, group string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	admin := c.Admin(t)
	defer admin.Close()
	groups, err := admin.DescribeShareGroups(ctx, group)
	if err != nil || groups.Error() != nil {
		return 0
	}
	n := 0
	for _, m := range groups[group].Members {
		if len(m.Assignment) > 0 {
			n++
		}
	}
	return n
}

// shortSessions are broker properties by which a member that is gone keeps its partitions for six seconds, not 45.
func shortSessions() map[string]string {
	return map[string]string{
		"group.share.session.timeout.ms": "6000", "group.share.min.session.timeout.ms": "6000",
		"group.share.heartbeat.interval.ms": "1000", "group.share.min.heartbeat.interval.ms": "1000",
	}
}

// shortLocks are broker properties that allow record locks of a second.
func shortLocks() map[string]string {
	return map[string]string{"group.share.min.record.lock.duration.ms": "1000"}
}
