package drop_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/sinktest"
	"github.com/sluicehq/sluice/plugins/drop"
	"github.com/sluicehq/sluice/test/plugintest"
)

func TestConformance(t *testing.T) {
	plugintest.EachForm(t, drop.Plugin(), true, func(t *testing.T, newSink plugintest.Maker) {
		sinktest.Run(t, func(testing.TB) sinktest.Target {
			return sinktest.Target{New: func(t testing.TB) sinktest.Sink { return newSink(t, nil) }}
		})
	})
}

func TestStopSaysHowMany(t *testing.T) {
	var log bytes.Buffer
	plugin := drop.Plugin()
	s := plugin.New()
	if err := s.Start(t.Context(), pluginapi.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 0, 500, 2} {
		results, err := s.Put(t.Context(), make([]pluginapi.Record, n))
		if err != nil || len(results) != n {
			t.Fatalf("got %d results for %d records, %v", len(results), n, err)
		}
		for i, r := range results {
			if r.Outcome != pluginapi.Accept {
				t.Fatalf("record %d of %d: %s", i, n, r.Outcome)
			}
		}
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "records=505") {
		t.Errorf("got log %q, want records=505", log.String())
	}
}

// started returns a sink with these settings and what it logs.
func started(t *testing.T, values map[string]any) (pluginapi.Sink, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	plugin := drop.Plugin()
	s := plugin.New()
	if err := s.Start(t.Context(), pluginapi.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Values: values}); err != nil {
		t.Fatal(err)
	}
	return s, &log
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := started(t, map[string]any{"delay": 50 * time.Millisecond})
		begin := time.Now()
		if _, err := s.Put(t.Context(), make([]pluginapi.Record, 10)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 50*time.Millisecond {
			t.Errorf("the put took %s, want 50ms", took)
		}
	})
}

func TestSlowRecordsArePutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := started(t, map[string]any{"slow_every": int64(10), "slow_for": 2 * time.Second})
		batch := make([]pluginapi.Record, 20)
		for i := range batch {
			batch[i] = pluginapi.Record{Topic: "t", Offset: int64(i)}
		}
		put := func(batch []pluginapi.Record) (waits []time.Duration) {
			t.Helper()
			results, err := s.Put(t.Context(), batch)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				if r.Outcome == pluginapi.Retry {
					if batch[i].Offset%10 != 5 {
						t.Errorf("record %d is put off", batch[i].Offset)
					}
					waits = append(waits, r.Err.RetryAfter)
				}
			}
			return waits
		}
		if got := put(batch); len(got) != 2 || got[0] != 2*time.Second {
			t.Errorf("first put: waits %v, want 2s twice", got)
		}
		time.Sleep(time.Second)
		if got := put(batch[5:6]); len(got) != 1 || got[0] != time.Second {
			t.Errorf("after 1s: waits %v, want 1s", got)
		}
		time.Sleep(time.Second)
		if got := put([]pluginapi.Record{batch[5], batch[15]}); len(got) != 0 {
			t.Errorf("after 2s: waits %v, want none", got)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "records=20 ") {
			t.Errorf("got log %q, want records=20", log.String())
		}
	})
}

func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := started(t, map[string]any{"ages": true})
		batch := make([]pluginapi.Record, 100)
		for i := range batch {
			batch[i] = pluginapi.Record{Timestamp: time.Now().Add(-time.Duration(i+1) * time.Millisecond), TimestampType: pluginapi.CreateTime}
		}
		batch[99].TimestampType = pluginapi.NoTimestamp
		if _, err := s.Put(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := "records=99 p50=50.1ms p99=99ms max=99ms"; !strings.Contains(log.String(), want) {
			t.Errorf("got log %q, want %q", log.String(), want)
		}
	})
}
