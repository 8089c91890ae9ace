package e2e

import (
	"flag"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// outageFlag is how long the outage of TestAnOutageWithRestarts lasts.
var outageFlag = flag.Duration("outage", 50*time.Second, "length of the outage with restarts")

// TestAnOutageWithRestarts: the target goes away in the middle, for many lock periods, and the worker is restarted twice meanwhile;
// once the sink's check fails and once it passes. Nothing is dead-lettered, all is written, and no record is delivered
// more than twice, but for the one that each start tries the target with.
func TestAnOutageWithRestarts(t *testing.T) {
	t.Parallel()
	const n = 5_000
	c := kafkatest.Shared(t)
	for _, check := range []string{"fails", "passes"} {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			topic, dlq := c.Topic(t, 2), "dlq."+kafkatest.Name(t)
			c.Produce(t, topic, 0, n, 200)
			dst := newGate(t)
			w := newWorker(t, definitions(c, topic, kafkatest.Name(t), httpSink("http://"+dst.address, dlq, `parallelism = 2
  share {
    acquisition_lock_timeout = "15s"
  }
  breaker {
    max = "5s"
  }`)))
			w.start()
			await(t, time.Minute, "records flow", func() bool { return dst.arrived() > n/10 })
			dst.down(check == "passes")
			highest := 0.0
			for range 2 {
				pause(t, *outageFlag/3)
				if s, ok := w.status(t.Context(), "c"); !ok || s.Tasks[0].State != "RUNNING" || s.Tasks[0].Degraded == "" {
					if s.Tasks[0].State != "UNASSIGNED" { // A start whose check fails is tried again.
						t.Errorf("status in the outage is %+v, want RUNNING and degraded, or UNASSIGNED", s)
					}
				}
				highest = max(highest, w.metric("sluice_delivery_count_highest"))
				w.stop()
				w.start()
			}
			pause(t, *outageFlag/3)
			dst.up()
			await(t, 3*time.Minute, "every record arrives", func() bool { return dst.arrived() == n })
			highest = max(highest, w.metric("sluice_delivery_count_highest"))
			redelivered := w.metric("sluice_records_redelivered_total")
			w.stop()
			if letters := c.ReadAll(t, dlq); len(letters) != 0 {
				t.Errorf("%d dead letters, want none", len(letters))
			}
			if _, extra := missing(dst.counts(n)); extra > 0 {
				t.Errorf("%d records came twice", extra)
			}
			t.Logf("highest delivery count %.0f, %.0f delivered again in the last run", highest, redelivered)
			if highest > 4 { // The probe record: two, and one for each restart.
				t.Errorf("a record was delivered %.0f times", highest)
			}
		})
	}
}

// gate is an httpTarget that can be away: its port refuses connections, or takes them and answers 503.
type gate struct {
	httpTarget
	t       *testing.T
	address string
	server  *http.Server
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{httpTarget: httpTarget{seen: make([]atomic.Int32, records)}, t: t, address: freeAddress(t)}
	g.listen(http.HandlerFunc(g.serve))
	t.Cleanup(func() { _ = g.server.Close() })
	return g
}

func (g *gate) listen(h http.Handler) {
	g.t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(g.t.Context(), "tcp", g.address)
	if err != nil {
		g.t.Fatal(err)
	}
	g.server = &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func(s *http.Server) { _ = s.Serve(l) }(g.server)
}

// down ends the service in order; connected says that its port still takes connections.
func (g *gate) down(connected bool) {
	g.t.Helper()
	if err := g.server.Shutdown(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	if connected {
		g.listen(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	}
}

func (g *gate) up() {
	g.t.Helper()
	_ = g.server.Close()
	g.listen(http.HandlerFunc(g.serve))
}
