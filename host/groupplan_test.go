package host

import (
	"reflect"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/kafka"
)

func TestPlanPositions(t *testing.T) {
	log := kafka.LogRange{Start: 10, End: 100, Reset: 10}
	for _, tt := range []struct {
		name  string
		log   kafka.LogRange
		share bool
		has   *kafka.GroupPosition
		left  *GroupPosition
		reset kafka.Reset
		want  GroupPosition
	}{
		{
			name: "committed", log: log, has: &kafka.GroupPosition{Offset: 40, Lag: -1},
			want: GroupPosition{Offset: 40, LogEnd: 100, Basis: BasisGroup},
		},
		{
			name: "share, 50 of 60 undecided", log: log, share: true, has: &kafka.GroupPosition{Offset: 40, Lag: 50},
			want: GroupPosition{Offset: 40, LogEnd: 100, Basis: BasisGroup, Twice: 10},
		},
		{
			name: "share, lag not told", log: log, share: true, has: &kafka.GroupPosition{Offset: 40, Lag: -1},
			want: GroupPosition{Offset: 40, LogEnd: 100, Basis: BasisGroup, Twice: 60},
		},
		{
			name: "share, nothing decided", log: log, share: true, has: &kafka.GroupPosition{Offset: -1, Lag: -1},
			want: GroupPosition{Offset: 10, LogEnd: 100, Basis: BasisReset, Note: "the group has no position here: earliest"},
		},
		{
			name: "none, latest", log: kafka.LogRange{Start: 10, End: 100, Reset: 100}, reset: kafka.Latest(),
			want: GroupPosition{Offset: 100, LogEnd: 100, Basis: BasisReset, Note: "the group has no position here: latest"},
		},
		{
			name: "none, back", log: kafka.LogRange{Start: 10, End: 100, Reset: 70}, reset: kafka.Back(time.Hour),
			want: GroupPosition{Offset: 70, LogEnd: 100, Basis: BasisReset, Note: "the group has no position here: by_duration:PT3600S"},
		},
		{
			name: "at the end", log: log, has: &kafka.GroupPosition{Offset: 100, Lag: -1},
			want: GroupPosition{Offset: 100, LogEnd: 100, Basis: BasisGroup},
		},
		{
			name: "beyond the end", log: log, has: &kafka.GroupPosition{Offset: 101, Lag: -1},
			want: GroupPosition{Offset: 10, LogEnd: 100, Basis: BasisReset, Note: "101 is beyond the end of the log: earliest"},
		},
		{
			name: "deleted since", log: log, share: true, has: &kafka.GroupPosition{Offset: 4, Lag: 2},
			want: GroupPosition{Offset: 10, LogEnd: 100, Basis: BasisLogStart, Note: "what follows 4 was deleted from the log", Twice: 90},
		},
		{
			name: "saved, no group", log: log, left: &GroupPosition{Offset: 40, LogEnd: 90, Basis: BasisGroup, Twice: 7},
			want: GroupPosition{Offset: 40, LogEnd: 100, Basis: BasisGroup, Twice: 7},
		},
		{
			name: "saved, and a new group that began at the log's start", log: log, has: &kafka.GroupPosition{Offset: 12, Lag: -1},
			left: &GroupPosition{Offset: 40, Basis: BasisGroup},
			want: GroupPosition{Offset: 40, LogEnd: 100, Basis: BasisGroup},
		},
		{
			name: "saved, and a new group that may have skipped", log: log, has: &kafka.GroupPosition{Offset: 60, Lag: -1},
			left: &GroupPosition{Offset: 40, Basis: BasisGroup},
			want: GroupPosition{Offset: 40, LogEnd: 100, Basis: BasisGroup, Twice: 20},
		},
		{
			name: "saved, and a share group that went on", log: log, share: true, has: &kafka.GroupPosition{Offset: 60, Lag: 35},
			left: &GroupPosition{Offset: 40, Basis: BasisGroup, Twice: 3},
			want: GroupPosition{Offset: 40, LogEnd: 100, Basis: BasisGroup, Twice: 28},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := planInput{
				share: tt.share, reads: []string{"t"}, reset: tt.reset,
				logs: map[string]map[int32]kafka.LogRange{"t": {0: tt.log}},
			}
			if tt.has != nil {
				tt.has.Topic = "t"
				in.has = []kafka.GroupPosition{*tt.has}
			}
			if tt.left != nil {
				tt.left.Topic = "t"
				in.left = []GroupPosition{*tt.left}
			}
			tt.want.Topic = "t"
			plan, skipped := planPositions(in)
			if len(plan) != 1 || plan[0] != tt.want || len(skipped) != 0 {
				t.Errorf("got  %+v, skipped %v\nwant %+v", plan, skipped, tt.want)
			}
		})
	}
}

// A group's topics that the connector does not read any more keep their
// positions, those that are gone are told.
func TestPlanKeepsOtherTopics(t *testing.T) {
	logs := map[string]map[int32]kafka.LogRange{"read": {0: {End: 9}, 1: {End: 9}}, "other": {0: {End: 9}}}
	plan, skipped := planPositions(planInput{
		has: []kafka.GroupPosition{
			{Topic: "other", Offset: 5, Lag: -1},
			{Topic: "gone", Offset: 3, Lag: -1},
			{Topic: "gone", Partition: 1, Offset: -1, Lag: -1},
			{Topic: "read", Partition: 1, Offset: 7, Lag: -1},
		},
		left:  []GroupPosition{{Topic: "shrunk", Partition: 2, Offset: 8}},
		reads: []string{"read"}, logs: logs,
	})
	var got []groupPartition
	for _, p := range plan {
		got = append(got, groupPartition{p.Topic, p.Partition})
	}
	if want := []groupPartition{{"other", 0}, {"read", 0}, {"read", 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got positions for %v, want %v", got, want)
	}
	if len(skipped) != 2 || skipped[0].Topic != "gone" || skipped[0].Offset != 3 || skipped[1].Topic != "shrunk" {
		t.Errorf("got %+v skipped, want gone-0 at 3 and shrunk-2", skipped)
	}
}
