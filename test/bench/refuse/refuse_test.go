package refuse_test

import (
	"log/slog"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/test/bench/refuse"
)

func TestOneOfSoManyIsRefused(t *testing.T) {
	for every, want := range map[int64]int{0: 0, 100: 10, 1000: 1} {
		plugin := refuse.Plugin()
		s := plugin.New()
		if err := s.Start(t.Context(), pluginapi.Config{Logger: slog.New(slog.DiscardHandler), Values: map[string]any{"refuse_every": every}}); err != nil {
			t.Fatal(err)
		}
		refused := 0
		for first := int64(0); first < 1000; first += 500 {
			batch := make([]pluginapi.Record, 500)
			for i := range batch {
				batch[i].Offset = first + int64(i)
			}
			results, err := s.Put(t.Context(), batch)
			if err != nil || len(results) != len(batch) {
				t.Fatalf("%d results, %v", len(results), err)
			}
			for i, r := range results {
				switch bad := every > 0 && batch[i].Offset%every == every/2; {
				case bad && r.Outcome == pluginapi.Reject:
					refused++
				case bad || r.Outcome != pluginapi.Accept:
					t.Errorf("1 in %d: record %d is %s", every, batch[i].Offset, r.Outcome)
				}
			}
		}
		if refused != want {
			t.Errorf("1 in %d: %d of 1000 were refused, want %d", every, refused, want)
		}
	}
}
