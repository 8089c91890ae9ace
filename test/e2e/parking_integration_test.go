package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// The long form of TestLateRecordsAreParked is -park.length 6m -park.delay 3m -park.rate 5000.
var (
	parkLength = flag.Duration("park.length", 12*time.Second, "how long records come")
	parkDelay  = flag.Duration("park.delay", 6*time.Second, "how long after its first try a late record is taken")
	parkRate   = flag.Int("park.rate", 2000, "records a second")
	parkOff    = flag.Bool("park.off", false, "without parking, to compare")
)

// tally is a target that counts arrivals by id.
type tally struct {
	seen     []atomic.Int32
	distinct atomic.Int64
	server   *httptest.Server
}

func newTally(t *testing.T, n int) *tally {
	c := &tally{seen: make([]atomic.Int32, n)}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for line := range bytes.Lines(body) {
			id, err := kafkatest.ID(line)
			if err != nil || id < 0 || id >= n {
				http.Error(w, "not a record of ours", http.StatusBadRequest)
				return
			}
			if c.seen[id].Add(1) == 1 {
				c.distinct.Add(1)
			}
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(c.server.Close)
	return c
}

// TestLateRecordsAreParked: one record in 1,000 is taken only long after its first try. The others flow, since those wait in the
// retry topic and not in the record-lock windows; all are written once, and the sink gets each with the coordinates it had.
func TestLateRecordsAreParked(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t)
	n := int(parkLength.Seconds()) * *parkRate
	topic, dlq, retry := c.Topic(t, 6), "dlq."+kafkatest.Name(t), "retry."+kafkatest.Name(t)
	dst := newTally(t, n)
	parking := fmt.Sprintf("park_after = \"1s\"\n topic = %q", retry)
	if *parkOff {
		parking = ""
	}
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), fmt.Sprintf(`group_protocol = "share"
  sink        = "process:poison"
  parallelism = 2
  share {
    acquisition_lock_timeout = "15s"
    max_record_locks         = 500
  }
  batch {
    max_records = 100
  }
  retry {
    max_elapsed = "15m"
    %s
  }
  dead_letter_queue {
    topic = %q
  }
  config {
    url        = %q
    late_every = 1000
    late_by    = %q
  }`, parking, dlq, dst.server.URL, parkDelay.String())))
	w.start()
	await(t, time.Minute, "the worker runs", func() bool {
		s, ok := w.status(t.Context(), "c")
		return ok && s.Tasks[0].State == "RUNNING"
	})
	begin := time.Now()
	if err := <-offer(t, c, topic, n, *parkRate); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	flowed := dst.distinct.Load()
	t.Logf("%d of %d records were written when the last was produced, after %.1fs", flowed, n, took.Seconds())
	if *parkLength >= time.Minute && flowed < int64(n)*9/10 { // A short run beside other tests tells how busy the machine is.
		t.Errorf("%d of %d records were written when the last was produced: late ones held them up", flowed, n)
	}
	await(t, 3*time.Minute+2**parkDelay, "every record arrives", func() bool { return dst.distinct.Load() == int64(n) })
	t.Logf("all were written %.1fs later, parked %.0f times, highest delivery count %.0f", time.Since(begin.Add(took)).Seconds(),
		w.metric("sluice_records_parked_total"), w.metric("sluice_delivery_count_highest"))
	if w.metric("sluice_records_parked_total") == 0 && !*parkOff {
		t.Error("nothing was parked")
	}
	await(t, time.Minute, "all is acknowledged", func() bool { return w.metric("sluice_records_open") == 0 })
	w.stop()
	if letters := c.ReadAll(t, dlq); len(letters) != 0 {
		t.Errorf("%d dead letters, want none", len(letters))
	}
	for id := range dst.seen {
		if k := dst.seen[id].Load(); k != 1 {
			t.Errorf("id %d came %d times", id, k)
			break
		}
	}
}

// TestParkedRecordsSurviveKills: a worker that dies twice while records are parked loses none and gives none up.
func TestParkedRecordsSurviveKills(t *testing.T) {
	t.Parallel()
	const n, every, kills = 4_000, 50, 2
	c := kafkatest.Shared(t)
	topic, dlq, retry := c.Topic(t, 2), "dlq."+kafkatest.Name(t), "retry."+kafkatest.Name(t)
	dst := newTally(t, n)
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), fmt.Sprintf(`group_protocol = "share"
  sink        = "process:poison"
  parallelism = 2
  share {
    acquisition_lock_timeout = "15s"
  }
  batch {
    max_records = 100
  }
  retry {
    initial     = "10s"
    max         = "10s"
    max_elapsed = "15m"
    park_after  = "1s"
    topic       = %q
  }
  dead_letter_queue {
    topic = %q
  }
  config {
    url        = %q
    late_every = %d
    late_by    = "3s"
  }`, retry, dlq, dst.server.URL, every)))
	c.Produce(t, topic, 0, n, 200)
	w.start()
	await(t, time.Minute, "what is not late arrives", func() bool { return dst.distinct.Load() >= n-n/every })
	// Only then: of what it begins with each time, a worker holds one record in place. So it does now with those that fail while
	// it takes the target for unavailable, and they are written when the parked ones are due: most, not all, are seen parked.
	await(t, time.Minute, "most of what is late is parked", func() bool { return len(c.ReadAll(t, retry)) >= n/every*3/4 })
	for range kills {
		// One at least: of records that all fail, a worker holds one as its probe.
		await(t, time.Minute, "parked records are held", func() bool {
			_, ok := w.get(t.Context(), "/metrics")
			return ok && w.metric("sluice_records_open") > 0
		})
		w.kill()
		w.start()
	}
	await(t, 3*time.Minute, "every record arrives", func() bool { return dst.distinct.Load() == n })
	await(t, time.Minute, "all is acknowledged", func() bool { return w.metric("sluice_records_open") == 0 })
	t.Logf("highest delivery count %.0f", w.metric("sluice_delivery_count_highest"))
	w.stop()
	if letters := c.ReadAll(t, dlq); len(letters) != 0 {
		t.Errorf("%d dead letters, want none", len(letters))
	}
	copies := len(c.ReadAll(t, retry))
	t.Logf("%d copies of %d late records", copies, n/every)
	if most := n / every * (kills + 3); copies > most { // Once more for each life in which it was due and late again.
		t.Errorf("%d copies, want %d at most", copies, most)
	}
	for id := range dst.seen {
		if k := dst.seen[id].Load(); k > 1+kills || k > 1 && id%every != 0 {
			t.Errorf("id %d came %d times", id, k)
			break
		}
	}
}
