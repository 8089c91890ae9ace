package sharegroup

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/test/kafkatest"
)

// TestKafkaAMemberTakesItsPlaceAgain: a member that died and joins with the id it had is told all its partitions at once, and gets
// what it held, mostly at once too. Where the broker notices late that its connections are closed, that is when the locks end, still
// before the dead member's session does. One with a new id shares the partitions with the dead one.
func TestKafkaAMemberTakesItsPlaceAgain(t *testing.T) {
	t.Parallel()
	const partitions, records = 6, 600
	c := kafkatest.Shared(t)
	for _, same := range []bool{true, false} {
		topic := c.Topic(t, partitions)
		group := topic + "-group"
		configure(t, c.Bootstrap(), group, map[string]string{"share.auto.offset.reset": "earliest"})
		c.Produce(t, topic, 0, records, 100)
		o := options(c.Bootstrap(), topic, group)
		o.MemberID = NewMemberID()
		first := join(t, o)
		first.Request(plenty())
		held := 0
		for held < records {
			held += len(next[*sharetask.Acquired](first).Records)
		}
		first.kill()
		if !same {
			o.MemberID = ""
		}
		begin := time.Now()
		second := join(t, o)
		second.Request(plenty())
		seen, n := map[int32]bool{}, 0
		wait := 10 * time.Second // Far less than a session.
		if same {
			wait = 40 * time.Second // A lock and a third.
		}
		limit := time.NewTimer(wait)
		for over := false; n < records && !over; {
			select {
			case e := <-second.Events():
				a, ok := e.(*sharetask.Acquired)
				if !ok {
					continue
				}
				if len(seen) == 0 {
					t.Logf("same=%t: the first after %v", same, time.Since(begin))
				}
				n += len(a.Records)
				seen[a.Partition] = true
				if a.DeliveryCounts[0] != 2 { // 1 was seen of one partition in two of four runs.
					t.Logf("same=%t: delivery count %d of partition %d", same, a.DeliveryCounts[0], a.Partition)
				}
				second.decide(a, sharetask.Accept, span(a))
			case <-limit.C:
				over = true
			}
		}
		t.Logf("same=%t: %d records of %d partitions after %v", same, n, len(seen), time.Since(begin))
		if same != (n == records) || same != (len(seen) == partitions) {
			t.Errorf("same=%t: %d records of %d partitions", same, n, len(seen))
		}
	}
}
