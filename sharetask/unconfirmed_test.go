package sharetask

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicehq/sluice/pluginapi"
)

// TestUnconfirmedIsAPlainSet compares it with a map under random confirmations.
func TestUnconfirmedIsAPlainSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, model := unconfirmed{}, map[Session]map[int64]int64{1: {}, 2: {}}
		next := int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			s := Session(rapid.IntRange(1, 2).Draw(t, "session"))
			if rapid.Bool().Draw(t, "add") {
				next += int64(rapid.IntRange(0, 3).Draw(t, "gap"))
				d := &delivery{Acquired: &Acquired{TopicPartition: orders, Session: s}}
				for range rapid.IntRange(1, 6).Draw(t, "records") {
					r := pluginapi.Record{Offset: next, Timestamp: time.Unix(0, 1000+next)}
					d.Records = append(d.Records, r)
					model[s][next] = 1000 + next
					next++
				}
				u.add(d, 0, int32(len(d.Records)))
				continue
			}
			var ranges []Range
			at := int64(0)
			for range rapid.IntRange(0, 3).Draw(t, "ranges") {
				first := at + int64(rapid.IntRange(0, 6).Draw(t, "skip"))
				r := Range{First: first, Last: first + int64(rapid.IntRange(0, 8).Draw(t, "len"))}
				ranges, at = append(ranges, r), r.Last+1
			}
			want := map[int64]int64{}
			for o, stamp := range model[s] {
				if ranges == nil || inRanges(ranges, o) {
					want[o] = stamp
					delete(model[s], o)
				}
			}
			got := map[int64]int64{}
			u.settle(orders, s, ranges, func(o, stamp int64) { got[o] = stamp })
			if !maps.Equal(got, want) {
				t.Fatalf("ranges %v of session %d: got %v, want %v", ranges, s, got, want)
			}
		}
		for s := range model {
			var left []int64
			u.settle(orders, s, nil, func(o, _ int64) { left = append(left, o) })
			if want := slices.Sorted(maps.Keys(model[s])); !slices.Equal(slices.Sorted(slices.Values(left)), want) {
				t.Fatalf("session %d: %v left, want %v", s, left, want)
			}
		}
		if len(u) != 0 {
			t.Fatalf("%d partitions are kept with nothing in them", len(u))
		}
	})
}
