package host

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/host/metrics"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/sharetask"
)

// fakeLag answers with a lag, or an error.
type fakeLag struct {
	asked  atomic.Int64
	fails  atomic.Bool
	closed atomic.Bool
}

func (f *fakeLag) Close() { f.closed.Store(true) }

func (f *fakeLag) Read(context.Context) ([]kafka.GroupPosition, error) {
	f.asked.Add(1)
	if f.fails.Load() {
		return nil, errors.New("coordinator is away")
	}
	return []kafka.GroupPosition{{Topic: "t1", Partition: 3, Lag: 7}, {Topic: "unread", Lag: 9}}, nil
}

func shown(r *metrics.Registry) string {
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// TestLagIsAskedForSeldom: not unless the metrics are, every 30s at most, and a
// failure is said once and shows no old value.
func TestLagIsAskedForSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry, reader, log := metrics.New("", ""), &fakeLag{}, &safeBuffer{}
		c := &connector{
			def: &config.Connector{Name: "c", GroupID: "g", GroupProtocol: config.GroupShare, Topics: []string{"t1"}},
			log: slog.New(slog.NewTextHandler(log, nil)), lag: registry.Lag("c"), scraped: make(chan struct{}, 1),
			lagOf: func() (lagReader, error) { return reader, nil },
		}
		ctx, cancel := context.WithCancel(t.Context())
		go c.watchLag(ctx)
		scrape := func(d time.Duration) {
			for range d / time.Second {
				c.measure()
				time.Sleep(time.Second)
			}
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		if n := reader.asked.Load(); n != 0 {
			t.Errorf("asked %d times without a scrape", n)
		}
		scrape(5 * time.Minute)
		if n := reader.asked.Load(); n < 10 || n > 11 {
			t.Errorf("asked %d times in five minutes, want 10 or 11", n)
		}
		const want = `sluice_partition_lag{connector="c",partition="3",topic="t1"} 7`
		if text := shown(registry); !strings.Contains(text, want) || strings.Contains(text, "unread") {
			t.Errorf("got %s, want %s alone", text, want)
		}
		reader.fails.Store(true)
		scrape(5 * time.Minute)
		if text := shown(registry); strings.Contains(text, "sluice_partition_lag{") {
			t.Error("an old lag is shown")
		}
		reader.fails.Store(false)
		scrape(5 * time.Minute)
		if text := log.String(); strings.Count(text, "coordinator is away") != 1 || strings.Count(text, "known again") != 1 {
			t.Errorf("got log %s, want the failure and its end once", text)
		}
		cancel()
		synctest.Wait()
		if !reader.closed.Load() || strings.Contains(shown(registry), "sluice_partition_lag{") {
			t.Error("the end leaves a connection or a value")
		}
	})
}

type fakeMember map[sharetask.TopicPartition]int64

func (m fakeMember) Lags() map[sharetask.TopicPartition]int64 { return m }

// TestLagOfAConsumerGroup is what its members know.
func TestLagOfAConsumerGroup(t *testing.T) {
	registry := metrics.New("", "")
	first, second := newSlot(), newSlot()
	first.lag = fakeMember{{Topic: "t1", Partition: 0}: 5}
	second.lag = fakeMember{{Topic: "t1", Partition: 1}: 0}
	c := &connector{
		def: &config.Connector{Name: "c", GroupProtocol: config.GroupConsumer}, lag: registry.Lag("c"),
		tasks: []*taskSlot{first, second, newSlot()},
	}
	c.measure()
	second.lag = fakeMember{}
	text := shown(registry)
	for _, want := range []string{`partition="0",topic="t1"} 5`, `partition="1",topic="t1"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	c.measure()
	if strings.Contains(shown(registry), `partition="1",topic="t1"`) {
		t.Error("a partition that was taken away is shown")
	}
}
