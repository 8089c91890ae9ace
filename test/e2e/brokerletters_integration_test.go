package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// TestTheBrokerWritesDeadLetters: with dead_letter_queue.broker a refused record lands in the topic once, by the broker's hand,
// and where the broker would drop it the connector fails and says why.
func TestTheBrokerWritesDeadLetters(t *testing.T) {
	t.Parallel()
	const n = 5_000
	c := kafkatest.Shared(t)
	topic, dlq := c.Topic(t, 2), "dlq."+kafkatest.Name(t)
	c.Produce(t, topic, 0, n, 200)
	dst := newHTTPTarget(t)
	dst.answer = refuseOneInAThousand
	group := kafkatest.Name(t)
	sink := func(url, dlq string) string {
		return strings.Replace(httpSink(url, dlq, ""), "dead_letter_queue {", "dead_letter_queue {\n    broker = true", 1)
	}
	w := newWorker(t, definitions(c, topic, group, sink(dst.server.URL, dlq)))
	w.start()
	await(t, time.Minute, "every good record arrives, every bad one is rejected", func() bool {
		_, ok := w.get(t.Context(), "/healthz")
		return dst.arrived() == n-n/1000 && ok && w.metric("sluice_records_rejected_total") == n/1000 &&
			w.metric("sluice_records_accepted_total") == n-n/1000
	})
	if got := w.metric("sluice_dead_letters_total"); got != n/1000 {
		t.Errorf("%v dead letters counted, want %d", got, n/1000)
	}
	await(t, time.Minute, "the broker has written all it was left", func() bool { return len(c.ReadAll(t, dlq)) >= n/1000 })
	w.stop()
	var got []int
	for _, r := range c.ReadAll(t, dlq) {
		id, err := kafkatest.ID(r.Value)
		if err != nil {
			t.Error(err)
		}
		got = append(got, id)
		if h := headers(r); h["__dlq.errors.topic"] != topic || h["__dlq.errors.group"] != group || h["__connect.errors.topic"] != "" {
			t.Errorf("dead letter %d has headers %v, want the broker's alone", id, h)
		}
	}
	slices.Sort(got)
	if want := []int{500, 1500, 2500, 3500, 4500}; !slices.Equal(got, want) {
		t.Errorf("dead letters %v, want %v", got, want)
	}

	plain := "dlq." + kafkatest.Name(t)
	c.CreateTopic(t, plain, 1, 1, nil)
	for name, reason := range map[string]string{
		plain:                   "errors.deadletterqueue.group.enable=true",
		"x" + kafkatest.Name(t): `does not begin with "dlq."`,
	} {
		w := newWorker(t, definitions(c, topic, kafkatest.Name(t), sink(dst.server.URL, name)))
		w.start()
		await(t, time.Minute, fmt.Sprintf("the connector fails with %s", reason), func() bool {
			s, ok := w.status(t.Context(), "c")
			trace := s.Connector.Trace
			return ok && s.Connector.State == "FAILED" && strings.Contains(trace, reason) &&
				strings.Contains(trace, "or remove the setting and the host writes them itself")
		})
		if s, _ := w.status(t.Context(), "c"); name == plain {
			t.Log(s.Connector.Trace)
		}
		w.stop()
	}
}
