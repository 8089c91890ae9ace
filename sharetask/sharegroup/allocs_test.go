//go:build !race

package sharegroup

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/sharetask/sharegroup/recordbatch"
)

// TestAllocationsDoNotGrowWithRecords: from the response to the events, and
// from the decisions to the next request.
func TestAllocationsDoNotGrowWithRecords(t *testing.T) {
	few, many := sourceAllocations(t, 50), sourceAllocations(t, 2000)
	if many > few+2 { // A collection may empty a pool in between.
		t.Errorf("%v allocations for 50 records, %v for 2000", few, many)
	}
}

func sourceAllocations(t *testing.T, n int) float64 {
	t.Helper()
	bootstrap, topic, group := fake(t, 1, nil)
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Value: make([]byte, 1024)}
	}
	produce(t, bootstrap, topic, records...)
	raw := fetchRaw(t, bootstrap, topic)

	s, err := New(options(bootstrap, topic, group))
	if err != nil {
		t.Fatal(err)
	}
	p := &partition{}
	p.Topic = topic
	key := partitionKey{p.TopicID, 0}
	l := &leader{s: s, session: newSession(limits{locks: 1 << 20, records: 4000, bytes: 16 << 20, maxWait: idleWait}, s.nextSession), wake: make(chan struct{}, 1)}
	l.session.place(key, p)
	s.parts[key], s.leaders[0] = p, l
	l.session.epoch, l.session.known[key] = 1, true
	decoder := recordbatch.NewDecoder(s.pool)
	decisions := []sharetask.Decision{{TopicPartition: p.TopicPartition, Session: p.session, Verdict: sharetask.Accept, Ranges: []sharetask.Range{{}}}}
	part := &partAnswer{acquired: []acquired{{sharetask.Range{First: 0, Last: int64(n) - 1}, 1}}, raw: raw}
	answers := answer{lock: 30 * time.Second, parts: map[partitionKey]*partAnswer{key: part}}
	confirmed := answer{lock: 30 * time.Second, parts: map[partitionKey]*partAnswer{key: {}}}
	now := time.Unix(1000, 0)
	return testing.AllocsPerRun(50, func() {
		if req, _ := l.session.plan(now, room{records: 4000, bytes: 16 << 20}); req == nil || req.kind != fetch {
			t.Fatal("no fetch")
		}
		out := l.session.answered(answers, now)
		for i := range out.fetched {
			s.coming.Records += int64(n)
			l.decode(decoder, &out.fetched[i], len(raw))
		}
		a, ok := (<-s.events).(*sharetask.Acquired)
		if !ok || len(a.Records) != n {
			t.Fatalf("got %d records of %d", len(a.Records), n)
		}
		a.Free()
		decisions[0].Ranges[0] = sharetask.Range{First: 0, Last: int64(n) - 1}
		s.Decide(decisions)
		if req, _ := l.session.plan(now, room{records: 4000, bytes: 16 << 20}); req == nil || len(req.acks) != 1 {
			t.Fatal("no acknowledgement")
		}
		l.session.answered(confirmed, now)
	})
}

// fetchRaw returns what a topic's only partition has, as the broker sends it.
func fetchRaw(t *testing.T, bootstrap []string, topic string) []byte {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	known := metadata(t, client, topic)
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes = 64<<20, 1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = topic, known.TopicID
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.PartitionMaxBytes = 64 << 20
	ft.Partitions = append(ft.Partitions, fp)
	req.Topics = append(req.Topics, ft)
	resp, err := client.Broker(int(known.Partitions[0].Leader)).Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
}
