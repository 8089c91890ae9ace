package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// peakMemory is the most resident memory a process ever had, in bytes.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("no /proc: the memory of a process is not known")
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// TestFullQueuesStayWithinTheBudget: the target hangs while ten times the
// budget waits in the topic. Everything between the broker and the target fills
// up, and no further; when the target goes on, every record arrives.
func TestFullQueuesStayWithinTheBudget(t *testing.T) {
	const (
		n      = 16_000
		size   = 20_000
		budget = 32 << 20
		// One fetch may go beyond the budget, and what is read of Kafka is
		// there twice for a moment.
		beyond = 16 << 20
		peak   = 240 << 20
	)
	t.Parallel()
	c := kafkatest.Shared(t)
	topic := kafkatest.Name(t)
	c.CreateTopic(t, topic, 3, -1, nil)
	c.Produce(t, topic, 0, n, size)
	for _, mode := range []string{"share", "consumer"} {
		t.Run(mode, func(t *testing.T) {
			dst := newHTTPTarget(t)
			held := make(chan struct{})
			goOn := sync.OnceFunc(func() { close(held) })
			t.Cleanup(goOn)       // The service cannot close before.
			var first atomic.Bool // A task that knows nothing of its target holds one record.
			dst.answer = func(int) int {
				if first.Swap(true) {
					<-held
				}
				return http.StatusNoContent
			}
			w := newWorker(t, definitions(c, topic, kafkatest.Name(t), fmt.Sprintf(`group_protocol = %q
  sink        = "builtin:http"
  parallelism = 4
  config {
    url = %q
  }`, mode, dst.server.URL)), fmt.Sprintf(`memory = "%dMiB"`, budget>>20))
			w.start()
			await(t, time.Minute, "the queues are full", func() bool {
				_, ok := w.get(t.Context(), "/healthz")
				return ok && w.metric("sluice_records_open_bytes") > budget*3/4
			})
			for range 30 {
				if got := w.metric("sluice_records_open_bytes"); got > budget+beyond {
					t.Fatalf("%.0f bytes are held, the budget is %d", got, budget)
				}
				pause(t, 100*time.Millisecond)
			}
			goOn()
			await(t, 3*time.Minute, "every record is there", func() bool { return dst.arrived() == n })
			if got := peakMemory(t, w.cmd.Process.Pid); got > peak {
				t.Errorf("the worker had %d MB, want %d at most with a budget of %d", got>>20, peak>>20, budget>>20)
			}
			w.stop()
		})
	}
}

// pause lets time pass in which something must not happen.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
