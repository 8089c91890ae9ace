package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/kafkatest"
)

func TestRefusedRecordsAloneAreDeadLettered(t *testing.T) {
	const n = 20_000
	c := kafkatest.Shared(t)
	topic, dlq := c.Topic(t, 2), "dlq."+kafkatest.Name(t)
	c.Produce(t, topic, 0, n, 200)
	dst := newHTTPTarget(t)
	dst.answer = refuseOneInAThousand
	group := kafkatest.Name(t)
	w := newWorker(t, definitions(c, topic, group, httpSink(dst.server.URL, dlq, `tasks = 2`)))
	w.start()
	await(t, 2*time.Minute, "every good record arrives, every bad one is dead-lettered", func() bool {
		_, ok := w.get(t.Context(), "/healthz")
		return dst.arrived() == n-n/1000 && ok && w.metric("sluice_dead_letters_total") == n/1000 &&
			w.metric("sluice_records_accepted_total")+w.metric("sluice_records_rejected_total") == n
	})
	for id, k := range dst.counts(n) {
		if want := 1; id%1000 != 500 && k != want {
			t.Errorf("id %d came %d times", id, k)
		}
	}
	// Acquired as often as there are records: no neighbour was delivered twice.
	if got := w.metric("sluice_records_acquired_total"); got != n {
		t.Errorf("%v records were delivered for %d produced: some more than once", got, n)
	}
	w.stop()

	letters := c.ReadAll(t, dlq)
	if len(letters) != n/1000 {
		t.Fatalf("%d dead letters, want %d", len(letters), n/1000)
	}
	for _, r := range letters {
		id, err := kafkatest.ID(r.Value)
		if err != nil || id%1000 != 500 || string(r.Key) != fmt.Sprintf("id-%d", id) {
			t.Errorf("dead letter %d with key %q: %v", id, r.Key, err)
		}
		h := headers(r)
		for key, want := range map[string]string{
			"__connect.errors.topic": topic, "__connect.errors.connector.name": "c",
			"__connect.errors.stage": "TASK_PUT", "__sluice.errors.delivery.count": "1",
			"__sluice.errors.group": group, "__sluice.errors.code": "422",
		} {
			if h[key] != want {
				t.Errorf("header %s = %q, want %q", key, h[key], want)
			}
		}
		for _, key := range []string{"__connect.errors.partition", "__connect.errors.offset", "__connect.errors.task.id", "__connect.errors.exception.message"} {
			if h[key] == "" {
				t.Errorf("header %s is missing", key)
			}
		}
	}
}

func headers(r *kgo.Record) map[string]string {
	out := map[string]string{}
	for _, h := range r.Headers {
		out[h.Key] = string(h.Value)
	}
	return out
}

func TestOutageOfTwoMinutesDeadLettersNothing(t *testing.T) {
	t.Parallel()
	const n = 5_000
	c := kafkatest.Shared(t)
	topic, dlq := c.Topic(t, 2), "dlq."+kafkatest.Name(t)
	c.Produce(t, topic, 0, n, 200)
	dst := newHTTPTarget(t)
	var down atomic.Bool
	var refused atomic.Int64
	down.Store(true)
	dst.answer = func(int) int {
		if down.Load() {
			refused.Add(1)
			return http.StatusServiceUnavailable
		}
		return http.StatusNoContent
	}
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), httpSink(dst.server.URL, dlq, `share {
    acquisition_lock_timeout = "15s"
    hold_timeout             = "30s"
  }
  retry {
    max = "5s"
  }`)))
	w.start()
	await(t, time.Minute, "the target refuses a record", func() bool { return refused.Load() > 0 })
	outage := time.NewTimer(2 * time.Minute)
	defer outage.Stop()
	<-outage.C
	if s, ok := w.status(t.Context(), "c"); !ok || s.Tasks[0].State != "RUNNING" || s.Tasks[0].Degraded == "" {
		t.Errorf("status in the outage is %+v, want RUNNING and degraded", s)
	}
	// Nothing was known of the target: one record was acquired to try it, given back once after hold_timeout, and held from then on.
	if acquired, open := w.metric("sluice_records_acquired_total"), w.metric("sluice_records_open"); acquired != 2 || open != 1 {
		t.Errorf("in the outage records were delivered %v times and %v are held, want 2 and 1", acquired, open)
	}
	down.Store(false)
	await(t, 2*time.Minute, "every record arrives", func() bool { return dst.arrived() == n })
	if got := w.metric("sluice_records_acquired_total"); got != n+1 {
		t.Errorf("%v deliveries for %d records produced, want one more: an outage spent deliveries", got, n)
	}
	if w.metric("sluice_records_renewed_total") == 0 {
		t.Error("no lock was renewed")
	}
	w.stop()
	if letters := c.ReadAll(t, dlq); len(letters) != 0 {
		t.Errorf("%d dead letters, want none", len(letters))
	}
	if _, extra := missing(dst.counts(n)); extra > 0 {
		t.Errorf("%d records came twice", extra)
	}
}

func TestPluginKilledWithTheWorker(t *testing.T) {
	c := kafkatest.Shared(t)
	topic := c.Topic(t, 1)
	c.Produce(t, topic, 0, 10, 100)
	path := filepath.Join(t.TempDir(), "out.jsonl")
	dst := &fileTarget{t: t, path: path}
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), fmt.Sprintf("group_protocol = \"share\"\n sink = \"process:file\"\n config {\n path = %q\n }", path)))
	w.start()
	await(t, time.Minute, "the records arrive", func() bool { return dst.arrived() == 10 })
	children := childrenOf(t, w.cmd.Process.Pid)
	if len(children) == 0 {
		t.Fatal("the worker has no plugin process")
	}
	w.kill()
	await(t, 10*time.Second, "the plugin process ends with its worker", func() bool {
		for _, pid := range children {
			if alive(pid) {
				return false
			}
		}
		return true
	})
}
