package sharegroup

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/test/kafkatest"
)

// BenchmarkAcceptAll reads records of 1 KB and accepts each fetch at once, until
// all are confirmed. Run it with -benchtime=300000x.
func BenchmarkAcceptAll(b *testing.B) {
	for _, partitions := range []int{1, 6} {
		for _, maxRecords := range []int{500, 4000} {
			b.Run(fmt.Sprintf("partitions=%d/max_records=%d", partitions, maxRecords), func(b *testing.B) {
				acceptAll(b, partitions, maxRecords)
			})
		}
	}
}

func acceptAll(b *testing.B, partitions, maxRecords int) {
	c := kafkatest.Shared(b)
	topic := c.Topic(b, partitions)
	configure(b, c.Bootstrap(), topic+"-group", map[string]string{"share.auto.offset.reset": "earliest"})
	producer, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		b.Fatal(err)
	}
	defer producer.Close()
	value := make([]byte, 1024)
	for range b.N {
		producer.Produce(b.Context(), &kgo.Record{Value: value}, nil)
	}
	if err := producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	s, err := New(Options{
		Connection: kafka.Connection{Bootstrap: c.Bootstrap()}, Group: topic + "-group", Topics: []string{topic},
		Lock: 30 * time.Second, MaxRecords: maxRecords,
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	s.Request(sharetask.Room{Records: 1 << 50, Bytes: 1 << 50})
	b.ReportAllocs()
	confirmed := int64(0)
	var began time.Time
	for confirmed < int64(b.N) {
		switch e := (<-s.Events()).(type) {
		case *sharetask.Acquired:
			if began.IsZero() { // Joining takes seconds and is not what is measured.
				began = time.Now()
				b.ResetTimer()
			}
			s.Decide([]sharetask.Decision{{TopicPartition: e.TopicPartition, Session: e.Session, Verdict: sharetask.Accept, Ranges: []sharetask.Range{{First: e.Records[0].Offset, Last: e.Records[len(e.Records)-1].Offset}}}})
			e.Free()
		case *sharetask.Acknowledged:
			for _, r := range e.Ranges {
				confirmed += r.Len()
			}
		case *sharetask.Stalled, *sharetask.Assigned:
		default:
			b.Fatalf("got %T %+v", e, e)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(confirmed)/time.Since(began).Seconds(), "records/s")
	go func() {
		for range s.Events() {
		}
	}()
	if err := s.Close(b.Context()); err != nil {
		b.Error(err)
	}
}
