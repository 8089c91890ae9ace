package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// TestARecordThatKillsItsSinkCostsOnlyItself in a plugin process and in a WASM module, by a crash (a trap) and by hanging: it is
// dead-lettered once, with the cause; every other record is written, on its first delivery; another connector of the same
// plugin notices nothing.
func TestARecordThatKillsItsSinkCostsOnlyItself(t *testing.T) {
	t.Parallel()
	const n, others = 20_000, 2_000
	bad := []int{0, 7_777}
	timeout := map[string]string{"crash": "60s", "hang": "1s"}
	c := kafkatest.Shared(t)
	for _, form := range []string{"process", "wasm"} {
		for _, kind := range []string{"crash", "hang"} {
			t.Run(form+"/"+kind, func(t *testing.T) {
				topic, quiet, dlq := c.Topic(t, 6), c.Topic(t, 1), "dlq."+kafkatest.Name(t)
				c.Produce(t, topic, 0, n, 200)
				c.Produce(t, quiet, 0, others, 200)
				dst, calm := newHTTPTarget(t), newHTTPTarget(t)
				host := hostOfURL.FindStringSubmatch(dst.server.URL)[1]
				calmHost := hostOfURL.FindStringSubmatch(calm.server.URL)[1]
				w := newWorker(t, fmt.Sprintf(`
kafka "main" {
  bootstrap = [%q]
}
plugin "poison" {
  sandbox {
    allow_hosts = [%q, %q]
  }
}
connector "c" {
  topics         = [%q]
  group_protocol = "share"
  group_id       = %q
  sink           = "%s:poison"
  tasks          = 4
  parallelism    = 4
  put_timeout    = %q
  retry {
    max_elapsed = "5s" // The first record kills: more is let in to compare it with after this time.
  }
  dead_letter_queue {
    topic = %q
  }
  config {
    url = %q
    %s  = ["%d", "%d"]
  }
}
connector "quiet" {
  topics         = [%q]
  group_protocol = "share"
  group_id       = %q
  sink           = "%s:poison"
  config {
    url = %q
  }
}`, c.Bootstrap()[0], host, calmHost, topic, kafkatest.Name(t), form, timeout[kind], dlq, dst.server.URL, kind, bad[0], bad[1], quiet, kafkatest.Name(t), form, calm.server.URL))
				w.start()
				begin, produced := time.Now(), n
				await(t, 3*time.Minute, "every good record arrives, every bad one is dead-lettered", func() bool {
					// A failure is held against a record only once others succeed after it; they come in all partitions.
					c.Produce(t, topic, produced, 6, 200)
					produced += 6
					_, ok := w.get(t.Context(), "/healthz")
					return ok && dst.arrived() >= n-len(bad) && w.metric("sluice_dead_letters_total") == float64(len(bad)) && calm.arrived() == others
				})
				t.Logf("%d records with %d that %s in %.1fs", n, len(bad), kind, time.Since(begin).Seconds())
				await(t, time.Minute, "the rest arrives", func() bool { return dst.arrived() == produced-len(bad) })
				if got := int(w.metric("sluice_records_acquired_total")); got != produced+others {
					t.Errorf("%v records were delivered for %d produced: some more than once", got, produced+others)
				}
				if body, _ := w.get(t.Context(), "/metrics"); !strings.Contains(string(body), `sluice_put_errors_total{connector="quiet",task="0"} 0`) {
					t.Error("the other connector had failed puts")
				}
				w.stop()
				var letters []int
				for _, r := range c.ReadAll(t, dlq) {
					id, err := kafkatest.ID(r.Value)
					if err != nil {
						t.Error(err)
					}
					letters = append(letters, id)
					if h := headers(r); h["__sluice.errors.delivery.count"] != "1" || h["__connect.errors.stage"] != "TASK_PUT" || len(h["__connect.errors.exception.message"]) < 20 {
						t.Errorf("dead letter %d has headers %v", id, h)
					}
				}
				slices.Sort(letters)
				if !slices.Equal(letters, bad) {
					t.Errorf("dead letters %v, want %v", letters, bad)
				}
				// A module dies alone. A process takes the puts of the other writers along, which may be stored, and so may
				// be a put that takes longer than its time on a busy machine.
				most := 1
				if form == "process" || kind == "hang" {
					most = 1 + 5*len(bad)
				}
				for id, k := range dst.counts(produced) {
					if k > most {
						t.Errorf("id %d came %d times", id, k)
						break
					}
				}
			})
		}
	}
}

// dieOf kills the worker if the record that does so has come, and starts another.
func (w *worker) dieOf(poisoned <-chan struct{}, deaths *atomic.Int64) {
	select {
	case <-poisoned:
		deaths.Add(1)
		w.kill()
		w.start()
	default:
	}
}

// TestARecordThatKillsTheWorker is dead-lettered alone, after the deliveries it may have; its neighbours are written.
func TestARecordThatKillsTheWorker(t *testing.T) {
	t.Parallel()
	const n, poison = 2_000, 700
	c := kafkatest.Shared(t)
	topic, dlq := c.Topic(t, 1), "dlq."+kafkatest.Name(t) // A dead member keeps its partitions for 45 s.
	c.Produce(t, topic, 0, n, 200)
	dst := newHTTPTarget(t)
	var deaths atomic.Int64
	poisoned := make(chan struct{})
	dst.answer = func(id int) int {
		if id == poison {
			poisoned <- struct{}{} // The worker dies while it waits for the answer.
			return http.StatusServiceUnavailable
		}
		return http.StatusNoContent
	}
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), httpSink(dst.server.URL, dlq, `parallelism = 4`)))
	w.start()
	await(t, 3*time.Minute, "every record arrives but the one that kills", func() bool {
		w.dieOf(poisoned, &deaths)
		_, ok := w.get(t.Context(), "/healthz")
		return ok && dst.arrived() == n-1 && w.metric("sluice_dead_letters_total") == 1
	})
	w.stop()
	letters := c.ReadAll(t, dlq)
	if len(letters) != 1 || deaths.Load() != 5 {
		t.Fatalf("%d dead letters after %d deaths, want 1 after 5", len(letters), deaths.Load())
	}
	if id, err := kafkatest.ID(letters[0].Value); err != nil || id != poison || headers(letters[0])["__connect.errors.exception.message"] != "deliveries exhausted" {
		t.Errorf("dead letter %d, %v, %v", id, err, headers(letters[0]))
	}
}

// TestAWorkerKilledTwelveTimes while it holds the same records: none is archived by the broker, and all are written but a few, which
// were among those it held each time.
func TestAWorkerKilledTwelveTimes(t *testing.T) {
	t.Parallel()
	const n, kills = 600, 12
	c := kafkatest.Shared(t)
	topic, dlq := c.Topic(t, 1), "dlq."+kafkatest.Name(t)
	c.Produce(t, topic, 0, n, 200)
	dst := newHTTPTarget(t)
	var up atomic.Bool
	var taken atomic.Int64 // One record of each run, so that the worker opens up.
	dst.answer = func(int) int {
		if !up.Load() && taken.Add(1) > 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusNoContent
	}
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), httpSink(dst.server.URL, dlq, "")))
	for k := range kills {
		held := n / 2.0
		if k >= 2 { // They come a third time.
			held = 1
		}
		taken.Store(0)
		w.start()
		await(t, time.Minute, "the worker holds what it takes", func() bool {
			_, ok := w.get(t.Context(), "/healthz")
			return ok && w.metric("sluice_records_open") >= held && taken.Load() > 0
		})
		w.kill()
	}
	up.Store(true)
	w.start()
	await(t, 2*time.Minute, "every record is written or dead-lettered", func() bool {
		places := dst.counts(n)
		for _, r := range c.ReadAll(t, dlq) {
			id, err := kafkatest.ID(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			places[id]++
		}
		lost, _ := missing(places)
		return lost == 0
	})
	w.stop()
	dead := len(c.ReadAll(t, dlq))
	t.Logf("%d written, %d dead-lettered", dst.arrived(), dead)
	if most := 2 * (kills - 2); dead > most {
		t.Errorf("%d were dead-lettered, want at most %d: two for each kill after the second", dead, most)
	}
}

// TestPauseHoldsNothing: a paused connector leaves all to the others of its group at once, keeps its plugin, and resumes.
func TestPauseHoldsNothing(t *testing.T) {
	t.Parallel()
	const n = 5_000
	c := kafkatest.Shared(t)
	topic := c.Topic(t, 2)
	c.Produce(t, topic, 0, n, 200)
	dst := newHTTPTarget(t)
	var slow atomic.Bool
	slow.Store(true)
	dst.answer = func(int) int {
		if slow.Load() {
			time.Sleep(20 * time.Millisecond) // A slow service: nothing is waited for.
		}
		return http.StatusNoContent
	}
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), fmt.Sprintf(`group_protocol = "share"
  sink = "builtin:http"
  config {
    url = %q
  }`, dst.server.URL)))
	w.start()
	await(t, time.Minute, "records flow", func() bool { return dst.arrived() > 100 })
	state := func(want string) func() bool {
		return func() bool {
			s, ok := w.status(t.Context(), "c")
			return ok && s.Connector.State == want && s.Tasks[0].State == want
		}
	}
	if code := w.call(t, http.MethodPut, "/connectors/c/pause"); code != http.StatusAccepted {
		t.Fatalf("pause answers %d", code)
	}
	await(t, time.Minute, "it is paused and holds nothing", func() bool { return state("PAUSED")() && w.metric("sluice_records_open") == 0 })
	before := dst.arrived()
	if now := dst.arrived(); now != before {
		t.Errorf("%d records were put while it was paused", now-before)
	}
	slow.Store(false)
	if code := w.call(t, http.MethodPut, "/connectors/c/resume"); code != http.StatusAccepted {
		t.Fatalf("resume answers %d", code)
	}
	await(t, time.Minute, "all the rest arrives", func() bool { return state("RUNNING")() && dst.arrived() == n })
	if code := w.call(t, http.MethodPost, "/connectors/c/restart?includeTasks=true"); code != http.StatusAccepted {
		t.Fatalf("restart answers %d", code)
	}
	c.Produce(t, topic, n, 100, 200)
	await(t, time.Minute, "records flow after a restart", func() bool { return state("RUNNING")() && dst.arrived() == n+100 })
	w.stop()
}

// TestAnOldBroker has no limit of deliveries per group and no dead letter topic of its own: the host does without.
func TestAnOldBroker(t *testing.T) {
	t.Parallel()
	const n, poison = 5_000, 700
	c := kafkatest.New(t, kafkatest.Options{Version: kafkatest.Old, Properties: shortSessions()})
	topic, dlq := c.Topic(t, 1), "dlq."+kafkatest.Name(t)
	c.Produce(t, topic, 0, n, 200)
	dst := newHTTPTarget(t)
	var deaths atomic.Int64
	poisoned := make(chan struct{})
	dst.answer = func(id int) int {
		switch {
		case id == poison:
			poisoned <- struct{}{}
			return http.StatusServiceUnavailable
		case id%1000 == 500:
			return http.StatusUnprocessableEntity
		default:
			return http.StatusNoContent
		}
	}
	w := newWorker(t, definitions(c, topic, kafkatest.Name(t), httpSink(dst.server.URL, dlq, `parallelism = 4`)))
	w.start()
	const letters = n/1000 + 1
	await(t, 3*time.Minute, "every record is written or dead-lettered", func() bool {
		w.dieOf(poisoned, &deaths)
		_, ok := w.get(t.Context(), "/healthz")
		return ok && dst.arrived() == n-letters && w.metric("sluice_records_open") == 0 && len(c.ReadAll(t, dlq)) >= letters
	})
	w.stop()
	if got := c.ReadAll(t, dlq); len(got) != letters || deaths.Load() != 3 {
		t.Errorf("%d dead letters after %d deaths, want %d after 3: the broker's limit is 5", len(got), deaths.Load(), letters)
	}
}
