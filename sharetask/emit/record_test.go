package emit

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A transaction writes what has no key to one partition, the next one to another; a key and a chosen partition count more.
func TestSteady(t *testing.T) {
	var s Steady
	topic := s.ForTopic("t")
	if _, ok := topic.(kgo.TopicPartitionerOnNewBatch); ok {
		t.Error("a new batch would choose another partition")
	}
	last, seen := -1, map[int]bool{}
	for range 50 {
		s.Turn()
		at := topic.Partition(&kgo.Record{Partition: Unplaced}, 6)
		for range 100 {
			if got := topic.Partition(&kgo.Record{Partition: Unplaced}, 6); got != at {
				t.Fatalf("partition %d after %d, without a turn", got, at)
			}
		}
		if at == last {
			t.Errorf("partition %d again after a turn", at)
		}
		last, seen[at] = at, true
		if got := topic.Partition(&kgo.Record{Partition: 5}, 6); got != 5 {
			t.Errorf("a record for partition 5 goes to %d", got)
		}
	}
	if len(seen) != 6 {
		t.Errorf("only the partitions %v are used", seen)
	}
	keyed := &kgo.Record{Partition: Unplaced, Key: []byte("k")}
	at := topic.Partition(keyed, 6)
	if s.Turn(); topic.Partition(keyed, 6) != at || !topic.RequiresConsistency(keyed) {
		t.Error("a key does not stay on its partition")
	}
}
