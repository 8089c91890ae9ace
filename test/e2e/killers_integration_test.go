package e2e

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/e2e/testdata/poison"
	"github.com/sluicehq/sluice/test/kafkatest"
)

// The load of TestKillersUnderLoad. At length: -killers-rate 10000 -killers-for 1m -killers-every 100000, and -killers-every 1000 to see
// what many of them cost.
var (
	killersRateFlag  = flag.Int("killers-rate", 1000, "records a second")
	killersForFlag   = flag.Duration("killers-for", 4*time.Second, "how long records are offered")
	killersEveryFlag = flag.Int("killers-every", 2000, "one record of so many kills or hangs its sink")
	killersKindsFlag = flag.String("killers-kinds", "both", "crash, hang or both, by commas")
	killersLimitFlag = flag.Duration("killers-limit", time.Minute, "time for what is left after the last record")
)

// TestKillersUnderLoad: while records come at a rate, some of them kill their sink or hang it, in a plugin process and in a WASM module. The
// others are all written on their first delivery, soon after the last record nothing is left, each bad one is dead-lettered once, with the
// cause, and another connector of the same plugin notices nothing.
func TestKillersUnderLoad(t *testing.T) {
	t.Parallel()
	every := *killersEveryFlag
	n := int(killersForFlag.Seconds() * float64(*killersRateFlag))
	if every < 8 || n < every {
		t.Fatal("no record would be bad, or each its neighbour")
	}
	c := kafkatest.Shared(t)
	for _, form := range []string{"process", "wasm"} {
		for kind := range strings.SplitSeq(*killersKindsFlag, ",") {
			t.Run(form+"/"+kind, func(t *testing.T) {
				if *killersRateFlag <= 2000 { // Else one at a time: it is measured.
					t.Parallel()
				}
				k := killers{form: form, below: n}
				switch kind {
				case "crash":
					k.crash = every
				case "hang":
					k.hang = every
				default:
					k.crash, k.hang = 2*every, 2*every
				}
				k.run(t, c)
			})
		}
	}
}

// killers are the bad ones among the ids below a number.
type killers struct {
	form               string
	crash, hang, below int
}

// ids are the bad ids.
func (k *killers) ids() (out []int) {
	for id := range k.below {
		if poison.Kills(id, k.crash) || poison.Hangs(id, k.hang) {
			out = append(out, id)
		}
	}
	return out
}

func (k *killers) run(t *testing.T, c *kafkatest.Cluster) {
	const trickle = 6 // A failure is held against a record only once others succeed after it; they come in all partitions.
	bad := k.ids()
	n, most := k.below, k.below+trickle*int(killersLimitFlag.Milliseconds())/100
	calmRate := max(*killersRateFlag/20, 10)
	calmRecords := int(killersForFlag.Seconds() * float64(calmRate))
	topic, calmTopic, dlq := c.Topic(t, 6), c.Topic(t, 1), "dlq."+kafkatest.Name(t)
	dst, calm := newHTTPTargetOf(t, most), newHTTPTargetOf(t, calmRecords)
	w := newWorker(t, k.definitions(c, topic, calmTopic, dlq, dst.server.URL, calm.server.URL))
	w.start()
	await(t, 2*time.Minute, "both connectors run", func() bool {
		for _, name := range []string{"c", "calm"} {
			if s, ok := w.status(t.Context(), name); !ok || len(s.Tasks) == 0 || s.Tasks[0].State != "RUNNING" {
				return false
			}
		}
		return true
	})
	begin := time.Now()
	others := offer(t, c, calmTopic, calmRecords, calmRate)
	offered := offer(t, c, topic, n, *killersRateFlag)
	if err := cmp.Or(<-offered, <-others); err != nil {
		t.Fatal(err)
	}
	last, produced := time.Now(), n
	left, _ := lag(t, c, "c-"+topic)
	written := dst.arrived()
	defer func() {
		_, extra := missing(dst.counts(produced))
		t.Logf("%d records in %.1fs, %d of them bad: %d were written and %d left when the last had come; %.1fs later there are %d of %d good ones, %d copies",
			n, last.Sub(begin).Seconds(), len(bad), written, left, time.Since(last).Seconds(), dst.arrived(), produced-len(bad), extra)
	}()
	next := time.Now()
	await(t, *killersLimitFlag, "every good record is written, every bad one dead-lettered", func() bool {
		if w.metricOf("sluice_dead_letters_total", "c") == float64(len(bad)) {
			return dst.arrived() == produced-len(bad)
		}
		if time.Now().After(next) {
			c.Produce(t, topic, produced, trickle, 200)
			produced += trickle
			next = time.Now().Add(100 * time.Millisecond)
		}
		return false
	})
	awaitDrained(t, c, "c-"+topic)
	if got, highest := int(w.metricOf("sluice_records_acquired_total", "c")), w.metricOf("sluice_delivery_count_highest", "c"); got != produced || highest != 0 {
		t.Errorf("%d records were delivered for %d produced, highest delivery count of one that came again %.0f; want each once", got, produced, highest)
	}
	k.calmed(t, w, calm, calmRecords)
	w.stop()
	k.letters(t, c.ReadAll(t, dlq), bad)
	copies := slices.Max(dst.counts(produced))
	t.Logf("a record was written %d times at most", copies)
	if copies > 6 { // Five more for a neighbour of a bad one; a put that took longer than it may was perhaps stored too.
		t.Errorf("a record was written %d times", copies)
	}
}

func (k *killers) definitions(c *kafkatest.Cluster, topic, calmTopic, dlq, url, calmURL string) string {
	return fmt.Sprintf(`
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
  group_id       = "c-%s"
  sink           = "%s:poison"
  tasks          = 4
  parallelism    = 4
  put_timeout    = "1s"
  dead_letter_queue {
    topic = %q
  }
  config {
    url         = %q
    crash_every = %d
    hang_every  = %d
    below       = %d
  }
}
connector "calm" {
  topics         = [%q]
  group_protocol = "share"
  group_id       = "calm-%s"
  sink           = "%s:poison"
  config {
    url = %q
  }
}`, c.Bootstrap()[0], hostOfURL.FindStringSubmatch(url)[1], hostOfURL.FindStringSubmatch(calmURL)[1],
		topic, topic, k.form, dlq, url, k.crash, k.hang, k.below, calmTopic, calmTopic, k.form, calmURL)
}

// calmed checks that the other connector noticed nothing.
func (k *killers) calmed(t *testing.T, w *worker, calm *httpTarget, n int) {
	t.Helper()
	await(t, 10*time.Second, "the other connector has written all", func() bool { return calm.arrived() == n })
	for name, want := range map[string]float64{
		"sluice_records_acquired_total": float64(n), "sluice_put_errors_total": 0, "sluice_task_restarts_total": 0, "sluice_records_retried_total": 0,
	} {
		if got := w.metricOf(name, "calm"); got != want {
			t.Errorf("%s of the other connector is %.0f, want %.0f", name, got, want)
		}
	}
	for _, l := range w.complaints(time.Time{}) {
		if l.Connector == "calm" {
			t.Errorf("of the other connector the log says %s", l.Text)
		}
	}
	if _, extra := missing(calm.counts(n)); extra > 0 {
		t.Errorf("%d records of the other connector came twice", extra)
	}
}

// letters checks that each bad record is there once, with its cause.
func (k *killers) letters(t *testing.T, got []*kgo.Record, bad []int) {
	t.Helper()
	var ids []int
	causes := map[string]int{}
	for _, r := range got {
		id, err := kafkatest.ID(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		h := headers(r)
		message := h["__connect.errors.exception.message"]
		causes[message]++
		if h["__sluice.errors.delivery.count"] != "1" || h["__connect.errors.stage"] != "TASK_PUT" || len(message) < 20 {
			t.Errorf("dead letter %d has headers %v", id, h)
		}
	}
	if slices.Sort(ids); !slices.Equal(ids, bad) {
		t.Errorf("dead letters %v, want %v", ids, bad)
	}
	if len(causes) < 6 {
		t.Logf("causes: %v", causes)
	}
}

// offer produces the ids 0 to n-1 to a topic at a rate, and says when the brokers have confirmed all.
func offer(t *testing.T, c *kafkatest.Cluster, topic string, n, rate int) <-chan error {
	t.Helper()
	client := c.Client(t, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(5*time.Millisecond), kgo.DefaultProduceTopic(topic))
	done := make(chan error, 1)
	go func() { done <- produceAt(t.Context(), client, n, rate) }()
	return done
}

func produceAt(ctx context.Context, client *kgo.Client, n, rate int) error {
	failed := kgo.AbortingFirstErrPromise(client)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	begin, sent := time.Now(), 0
	for sent < n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			for due := min(n, int(now.Sub(begin).Seconds()*float64(rate))); sent < due; sent++ {
				client.Produce(ctx, &kgo.Record{Key: fmt.Appendf(nil, "id-%d", sent), Value: kafkatest.Value(sent, 200)}, failed.Promise())
			}
		}
	}
	return failed.Err()
}
