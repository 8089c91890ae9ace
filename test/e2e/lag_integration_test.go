package e2e

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// TestPartitionLag is what is not decided, by both group protocols, and nothing in the end.
func TestPartitionLag(t *testing.T) {
	t.Parallel()
	const n = 600
	c := kafkatest.Shared(t)
	for _, protocol := range []string{"share", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			topic := c.Topic(t, 3)
			c.Produce(t, topic, 0, n, 200)
			dst := newHTTPTarget(t)
			var up atomic.Bool
			dst.answer = func(int) int {
				if up.Load() {
					return http.StatusNoContent
				}
				return http.StatusServiceUnavailable
			}
			w := newWorker(t, definitions(c, topic, kafkatest.Name(t), fmt.Sprintf(`group_protocol = %q
  sink = "builtin:http"
  breaker {
    max = "2s"
  }
  retry {
    max = "2s"
  }
  config {
    url = %q
  }`, protocol, dst.server.URL)))
			w.start()
			await(t, time.Minute, "all records are behind", func() bool {
				_, ok := w.get(t.Context(), "/healthz")
				return ok && w.metric("sluice_partition_lag") == n
			})
			up.Store(true)
			await(t, 2*time.Minute, "none is", func() bool { return dst.arrived() == n && w.metric("sluice_partition_lag") == 0 })
			c.Produce(t, topic, n, n, 200)
			await(t, 2*time.Minute, "none is, of more", func() bool { return dst.arrived() == 2*n && w.metric("sluice_partition_lag") == 0 })
			w.stop()
		})
	}
}
