package consumergroup

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/test/kafkatest"
)

func realBroker(t *testing.T) *bench {
	t.Helper()
	return newBench(t, kafkatest.Shared(t).Bootstrap())
}

func TestKafkaCommitsOnlyTheGaplessPrefix(t *testing.T) {
	t.Parallel()
	testGapless(realBroker(t))
}

func TestKafkaRevokeWaitsForWhatIsHandedOut(t *testing.T) {
	t.Parallel()
	testRevoke(realBroker(t))
}

// Transaction markers take offsets and are not records.
func TestKafkaTransactionMarkersAreNotInTheWay(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	topic := b.topic(1)
	producer, err := kgo.NewClient(kgo.SeedBrokers(b.bootstrap...), kgo.TransactionalID(b.group))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := producer.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	o := b.options(topic) // Offsets 0 record, 1 marker, 2 aborted, 3 marker, 4 record, 5 marker.
	o.ReadCommitted = true
	m := b.join(o)
	m.Request(plenty())
	a, r := m.acquire(2)
	if r != span(0, 4) {
		t.Errorf("got %v, want the records at 0 and 4", r)
	}
	m.decide(a, sharetask.Accept, r)
	b.awaitCommitted(topic, 0, 5)
}

func TestKafkaGroupOfAnotherKind(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	topic := b.topic(1)
	share, err := kgo.NewClient(kgo.SeedBrokers(b.bootstrap...), kgo.ShareGroup(b.group), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer share.Close()
	deadline := time.Now().Add(wait)
	for {
		s, err := New(b.options(topic))
		if err != nil {
			t.Fatal(err)
		}
		err = s.Start(t.Context())
		if errors.Is(err, sharetask.ErrGroupKind) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Start: %v, want ErrGroupKind", err)
		}
		if err == nil { // The share group was not there yet, or we came first.
			m := &member{s, t}
			rest := m.leave()
			if n := len(rest); n > 0 {
				if f, ok := rest[n-1].(*sharetask.Failed); ok && errors.Is(f.Err, sharetask.ErrGroupKind) {
					return
				}
			}
		}
	}
}

// Members come and go, one of them without a word, while records are accepted
// out of order. Each record is accepted, and none is skipped by a commit.
func TestKafkaNothingIsSkippedOverRebalances(t *testing.T) {
	t.Parallel()
	const partitions, each = 4, 2000
	b := realBroker(t)
	topic := b.topic(partitions)
	for p := range int32(partitions) {
		b.produce(topic, p, each)
	}
	var mu sync.Mutex
	accepted := make(map[[2]int64]int)
	enough := make(chan struct{})
	var once sync.Once
	work := func(m *member) {
		for e := range m.Events() {
			switch e := e.(type) {
			case *sharetask.Acquired:
				mu.Lock()
				for _, r := range e.Records {
					accepted[[2]int64{int64(r.Partition), r.Offset}]++
				}
				if len(accepted) == partitions*each {
					once.Do(func() { close(enough) })
				}
				mu.Unlock()
				first, last := e.Records[0].Offset, e.Records[len(e.Records)-1].Offset
				middle := (first + last) / 2
				if middle < last {
					m.decide(e, sharetask.Accept, span(middle+1, last))
				}
				time.AfterFunc(20*time.Millisecond, func() { m.decide(e, sharetask.Accept, span(first, middle)) })
			case *sharetask.Failed:
				t.Errorf("failed: %v", e.Err)
			}
		}
	}
	o := b.options(topic)
	o.MaxRecords = 50
	slowly := func(m *member) { // So that records are left when the others come.
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for n := int64(50); n <= 2*partitions*each && t.Context().Err() == nil; n += 50 {
			m.Request(sharetask.Room{Records: n, Bytes: 1 << 40})
			<-pace.C
		}
	}
	var all sync.WaitGroup
	start := func() *member {
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		m := &member{s, t}
		all.Go(func() { work(m) })
		go slowly(m)
		return m
	}
	stop := func(m *member) {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	one := start()
	two := start()
	b.awaitSome(topic)
	stop(one)
	three := start()
	b.awaitSome(topic)
	two.kill()
	four := start()
	select {
	case <-enough:
	case <-time.After(2 * wait):
		mu.Lock()
		t.Errorf("%d of %d records came", len(accepted), partitions*each)
		mu.Unlock()
	}
	for p := range int32(partitions) {
		b.awaitCommitted(topic, p, each)
	}
	stop(three)
	stop(four)
	all.Wait()
}

// awaitSome waits until the group has moved further.
func (b *bench) awaitSome(topic string) {
	b.t.Helper()
	before := b.committed(topic, 0)
	deadline := time.Now().Add(wait)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for b.committed(topic, 0) <= before {
		if time.Now().After(deadline) {
			b.t.Fatal("the group does not move")
		}
		<-tick.C
	}
}
