package e2e

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// TestAKilledWorkerTakesItsPlaceAgain: what is produced into all partitions after a kill arrives long before the group would have
// noticed it, 45 seconds later.
func TestAKilledWorkerTakesItsPlaceAgain(t *testing.T) {
	t.Parallel()
	const n = 600
	c := kafkatest.Shared(t)
	topic, dlq := c.Topic(t, 6), "dlq."+kafkatest.Name(t)
	c.Produce(t, topic, 0, n, 200)
	dst := newHTTPTarget(t)
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), httpSink(dst.server.URL, dlq, "")))
	w.start()
	await(t, time.Minute, "records arrive", func() bool { return dst.arrived() == n })
	w.kill()
	c.Produce(t, topic, n, n, 200)
	w.start()
	begin := time.Now()
	await(t, 30*time.Second, "the rest arrives", func() bool { return dst.arrived() == 2*n })
	t.Logf("all %v after the start", time.Since(begin))
	w.stop()
}
