package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// A group's positions are set and read in both kinds; with members, nothing of
// it can be changed.
func TestGroupPositions(t *testing.T) {
	cluster, a := shared(t)
	topic := cluster.Topic(t, 2)
	cluster.Produce(t, topic, 0, 100, 100)
	for _, kind := range []GroupKind{KindClassic, KindShare} {
		t.Run(string(kind), func(t *testing.T) {
			group := kafkatest.Name(t)
			if got, err := a.GroupPositions(t.Context(), group, kind); err != nil || len(got) != 0 {
				t.Errorf("got %v, %v, want none of a group that is not there", got, err)
			}
			want := []GroupPosition{{topic, 0, 20, -1}, {topic, 1, 30, -1}}
			if err := a.SetGroupPositions(t.Context(), group, kind, want); err != nil {
				t.Fatal(err)
			}
			if kind == KindShare {
				want[0].Lag, want[1].Lag = 30, 20
			}
			got, err := a.GroupPositions(t.Context(), group, kind)
			if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
			opt := kgo.ConsumerGroup(group)
			if kind == KindShare {
				opt = kgo.ShareGroup(group)
			}
			client := cluster.Client(t, opt, kgo.ConsumeTopics(topic))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			first := client.PollFetches(ctx).Records()
			if len(first) == 0 || first[0].Offset != want[first[0].Partition].Offset {
				t.Errorf("got %v, want a record at a position that was set", first)
			}
			if n, err := a.GroupMembers(t.Context(), group, kind); err != nil || n != 1 {
				t.Errorf("got %d members, %v, want 1", n, err)
			}
			if err := a.SetGroupPositions(t.Context(), group, kind, want); !errors.Is(err, ErrGroupInUse) {
				t.Errorf("set: got %v, want %v", err, ErrGroupInUse)
			}
			if err := a.DeleteGroup(t.Context(), group); !errors.Is(err, ErrGroupInUse) {
				t.Errorf("delete: got %v, want %v", err, ErrGroupInUse)
			}
			client.Close()
			if n, err := a.GroupMembers(t.Context(), group, kind); err != nil || n != 0 {
				t.Errorf("got %d members, %v, want none", n, err)
			}
			for range 2 { // That it is gone is no error.
				if err := a.DeleteGroup(t.Context(), group); err != nil {
					t.Error(err)
				}
			}
			if is, err := a.GroupKind(t.Context(), group); err != nil || is != KindNone {
				t.Errorf("got %q, %v, want no group", is, err)
			}
		})
	}
}

func TestLogRanges(t *testing.T) {
	cluster, a := shared(t)
	topic := cluster.Topic(t, 1)
	cluster.Produce(t, topic, 0, 50, 100)
	for _, tt := range []struct {
		reset Reset
		want  int64
	}{{Earliest(), 0}, {Latest(), 50}, {Back(time.Hour), 0}, {Back(time.Millisecond), 50}} {
		got, err := a.LogRanges(t.Context(), tt.reset, topic, kafkatest.Name(t))
		if want := (LogRange{End: 50, Reset: tt.want}); err != nil || len(got) != 1 || got[topic][0] != want {
			t.Errorf("%s: got %v, %v, want %v of one topic", tt.reset, got, err, want)
		}
	}
	if id, err := a.ClusterID(t.Context()); err != nil || id == "" {
		t.Errorf("got cluster id %q, %v", id, err)
	}
}

// What is missing is named, and the group is as it was.
func TestGroupPositionsWithoutRights(t *testing.T) {
	cluster, admin, worker := guarded(t)
	ctx := t.Context()
	topic := cluster.Topic(t, 1)
	positions := []GroupPosition{{topic, 0, 0, -1}}
	if err := admin.SetGroupPositions(ctx, "g", KindClassic, positions); err != nil {
		t.Fatal(err)
	}
	_, err := worker.GroupPositions(ctx, "g", KindClassic)
	wantPermission(t, err, `DESCRIBE on GROUP "g" and on its topics`, "")
	_, err = worker.GroupMembers(ctx, "g", KindClassic)
	wantPermission(t, err, `DESCRIBE on GROUP "g"`, "")
	allow(t, cluster, "topic", topic, "READ", "DESCRIBE")
	allow(t, cluster, "group", "g", "DESCRIBE")
	wantPermission(t, worker.DeleteGroup(ctx, "g"), `DELETE on GROUP "g"`, "")
	if got, err := worker.GroupPositions(ctx, "g", KindClassic); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v, want the group as it was", got, err)
	}
	allow(t, cluster, "group", "g", "DELETE")
	for _, kind := range []GroupKind{KindShare, KindClassic} {
		if err := worker.DeleteGroup(ctx, "g"); err != nil {
			t.Fatal(err)
		}
		if kind == KindShare {
			wantPermission(t, worker.SetGroupPositions(ctx, "g", kind, positions), `READ on GROUP "g" and on its topics`, "")
			allow(t, cluster, "group", "g", "READ")
		}
		if err := worker.SetGroupPositions(ctx, "g", kind, positions); err != nil {
			t.Fatal(err)
		}
		if got, err := worker.GroupPositions(ctx, "g", kind); err != nil || len(got) != 1 {
			t.Errorf("%s: got %v, %v, want one", kind, got, err)
		}
	}
}
