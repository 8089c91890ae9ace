package e2e

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// TestImplicitAcceptsWait for the rest of what was delivered with them, under renewed locks, and a stop sends them.
func TestImplicitAcceptsWait(t *testing.T) {
	t.Parallel()
	const n, late = 500, 450 // Enough of them not to be copied, which sends the accepts.
	c := kafkatest.Shared(t)
	topic, dlq := c.Topic(t, 1), "dlq."+kafkatest.Name(t)
	c.Produce(t, topic, 0, n, 200)
	dst := newHTTPTarget(t)
	var up atomic.Bool
	dst.answer = func(id int) int {
		if id >= n-late && !up.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusNoContent
	}
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), httpSink(dst.server.URL, dlq, `share {
    acknowledgement_mode     = "implicit"
    acquisition_lock_timeout = "15s"
  }
  breaker {
    failures = 1000
  }
  retry {
    max = "5s"
  }`)))
	w.start()
	await(t, time.Minute, "locks are renewed", func() bool {
		_, ok := w.get(t.Context(), "/healthz")
		return ok && dst.arrived() == n-late && w.metric("sluice_records_renewed_total") >= n/2
	})
	if got := w.metric("sluice_records_accepted_total"); got >= n-late {
		t.Errorf("%v records are accepted while others of their delivery wait", got)
	}
	w.stop()
	up.Store(true)
	w.start()
	await(t, time.Minute, "every record is there", func() bool { return dst.arrived() == n })
	w.stop()
	if _, extra := missing(dst.counts(n)); extra > 0 {
		t.Errorf("%d records came twice", extra)
	}
}

// TestImplicitAcknowledgement: with share.acknowledgement_mode = "implicit" kills lose nothing, a refused record is dead-lettered once, and an
// ordered stop leaves nothing that comes again.
func TestImplicitAcknowledgement(t *testing.T) {
	t.Parallel()
	const n, kills = 20_000, 3
	c := kafkatest.Shared(t)
	topic, dlq := c.Topic(t, 2), "dlq."+kafkatest.Name(t)
	dst := newHTTPTarget(t)
	dst.answer = func(id int) int {
		if id%5000 == 17 {
			return http.StatusUnprocessableEntity
		}
		return http.StatusNoContent
	}
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), httpSink(dst.server.URL, dlq, `parallelism = 4
  share {
    acknowledgement_mode = "implicit"
  }
  batch {
    max_records = 50
  }`)))
	produced := 0
	produce := func(n int) {
		c.Produce(t, topic, produced, n, 200)
		produced += n
	}
	for range kills {
		produce(n / (kills + 1))
		next := dst.arrived() + n/(kills+1)/4
		w.start()
		await(t, 2*time.Minute, "records flow before a kill", func() bool { return dst.arrived() >= next })
		w.kill()
	}
	produce(n / (kills + 1))
	w.start()
	await(t, 3*time.Minute, "every record is there", func() bool { return dst.arrived() == n-n/5000 })
	_, twice := missing(dst.counts(n))
	w.stop()
	t.Logf("%d written twice in %d kills", twice, kills)

	produce(n)
	next := dst.arrived() + n/4
	w.start()
	await(t, 2*time.Minute, "records flow before a stop", func() bool { return dst.arrived() >= next })
	w.stop()
	w.start()
	await(t, 2*time.Minute, "every record is there", func() bool {
		_, ok := w.get(t.Context(), "/healthz")
		return ok && dst.arrived() == 2*(n-n/5000) && w.metric("sluice_records_open") == 0
	})
	w.stop()
	if _, extra := missing(dst.counts(2 * n)); extra > twice {
		t.Errorf("%d records were written twice by an ordered stop", extra-twice)
	}
	letters := map[int]int{}
	for _, r := range c.ReadAll(t, dlq) {
		id, err := kafkatest.ID(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		letters[id]++
	}
	for id := 17; id < 2*n; id += 5000 {
		if letters[id] < 1 || letters[id] > 1+kills || id >= n && letters[id] != 1 {
			t.Errorf("record %d was dead-lettered %d times", id, letters[id])
		}
	}
	if len(letters) != 2*n/5000 {
		t.Errorf("%d records were dead-lettered, want %d", len(letters), 2*n/5000)
	}
}
