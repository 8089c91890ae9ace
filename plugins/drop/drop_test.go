package drop_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

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
