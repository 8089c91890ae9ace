package consumergroup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/sharetask"
)

// wait bounds every wait for an event; none takes that long when all is well.
const wait = 30 * time.Second

// bench is a cluster to test on.
type bench struct {
	t         *testing.T
	bootstrap []string
	client    *kgo.Client
	group     string
}

func newBench(t *testing.T, bootstrap []string) *bench {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &bench{t, bootstrap, client, "g-" + strconv.FormatInt(time.Now().UnixNano(), 36)}
}

func fake(t *testing.T) *bench {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "100"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return newBench(t, c.ListenAddrs())
}

// topic makes a topic with a name of its own.
func (b *bench) topic(partitions int32) string {
	b.t.Helper()
	name := "t-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	b.create(name, partitions)
	return name
}

func (b *bench) create(name string, partitions int32) {
	b.t.Helper()
	if _, err := kadm.NewClient(b.client).CreateTopic(b.t.Context(), partitions, 1, nil, name); err != nil {
		b.t.Fatal(err)
	}
}

// produce writes n records to a partition.
func (b *bench) produce(topic string, partition int32, n int) {
	b.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: topic, Partition: partition, Value: fmt.Appendf(nil, "v%d", i)}
	}
	b.produceRecords(records...)
}

func (b *bench) produceRecords(records ...*kgo.Record) {
	b.t.Helper()
	if err := b.client.ProduceSync(b.t.Context(), records...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// committed returns the group's position, -1 if it has none.
func (b *bench) committed(topic string, partition int32) int64 {
	b.t.Helper()
	offsets, err := kadm.NewClient(b.client).FetchOffsets(b.t.Context(), b.group)
	// On a new broker the coordinator's topic is only just being made.
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) && !kerr.IsRetriable(err) {
		b.t.Fatal(err)
	}
	if o, ok := offsets.Lookup(topic, partition); ok {
		return o.At
	}
	return -1
}

// commit sets the group's position by hand.
func (b *bench) commit(at kadm.Offset) {
	b.t.Helper()
	var all kadm.Offsets
	all.Add(at)
	if err := kadm.NewClient(b.client).CommitAllOffsets(b.t.Context(), b.group, all); err != nil {
		b.t.Fatal(err)
	}
}

// awaitCommitted waits until the group's position is at.
func (b *bench) awaitCommitted(topic string, partition int32, at int64) {
	b.t.Helper()
	deadline := time.Now().Add(wait)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got := b.committed(topic, partition)
		if got == at {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("committed %d, want %d", got, at)
		}
		<-tick.C
	}
}

func (b *bench) options(topic string) Options {
	return Options{
		Connection: kafka.Connection{Bootstrap: b.bootstrap}, Group: b.group, Topics: []string{topic},
		Reset: Reset{Earliest: true}, CommitInterval: 50 * time.Millisecond,
		SessionTimeout: 6 * time.Second, RebalanceTimeout: 10 * time.Second,
	}
}

// member is a started source and its events.
type member struct {
	*Source
	t *testing.T
}

func (b *bench) join(o Options) *member {
	b.t.Helper()
	s, err := New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := s.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	m := &member{s, b.t}
	b.t.Cleanup(func() { m.leave() })
	return m
}

// drain reads events until the channel is closed.
func (m *member) drain() <-chan []sharetask.Event {
	rest := make(chan []sharetask.Event, 1)
	go func() {
		var all []sharetask.Event
		for e := range m.Events() {
			all = append(all, e)
		}
		rest <- all
	}()
	return rest
}

// leave closes the source and returns its last events.
func (m *member) leave() []sharetask.Event {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	rest := m.drain()
	if err := m.Close(ctx); err != nil {
		m.t.Errorf("Close: %v", err)
	}
	return <-rest
}

// kill ends the source as a crash would: its connections close. Somebody must
// read its events.
func (m *member) kill() {
	m.conns.cutAll()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.Close(ctx) // its error is the cancelled context's
}

// next returns the next event but Assigned, unless that is wanted.
func next[E sharetask.Event](m *member) E {
	m.t.Helper()
	deadline := time.After(wait)
	for {
		select {
		case e, ok := <-m.Events():
			if !ok {
				m.t.Fatalf("events ended, want %T", *new(E))
			}
			if got, ok := e.(E); ok {
				return got
			}
			if _, ok := e.(*sharetask.Assigned); !ok {
				m.t.Fatalf("got %T %+v, want %T", e, e, *new(E))
			}
		case <-deadline:
			m.t.Fatalf("no event, want %T", *new(E))
		}
	}
}

// acquire gathers n records of one partition.
func (m *member) acquire(n int) (*sharetask.Acquired, sharetask.Range) {
	m.t.Helper()
	var first *sharetask.Acquired
	var r sharetask.Range
	for got := 0; got < n; {
		a := next[*sharetask.Acquired](m)
		if first == nil {
			first, r.First = a, a.Records[0].Offset
		}
		got += len(a.Records)
		r.Last = a.Records[len(a.Records)-1].Offset
	}
	return first, r
}

func (m *member) none(d time.Duration) {
	m.t.Helper()
	deadline := time.After(d)
	for {
		select {
		case e := <-m.Events():
			if _, ok := e.(*sharetask.Assigned); !ok {
				m.t.Fatalf("got %T %+v, want no event", e, e)
			}
		case <-deadline:
			return
		}
	}
}

func (m *member) decide(a *sharetask.Acquired, v sharetask.Verdict, ranges ...sharetask.Range) {
	m.Decide([]sharetask.Decision{{TopicPartition: a.TopicPartition, Session: a.Session, Verdict: v, Ranges: ranges}})
}

func span(first, last int64) sharetask.Range { return sharetask.Range{First: first, Last: last} }

func plenty() sharetask.Room { return sharetask.Room{Records: 1 << 20, Bytes: 1 << 30} }

func TestCommitsOnlyTheGaplessPrefix(t *testing.T) {
	testGapless(fake(t))
}

func testGapless(b *bench) {
	t := b.t
	topic := b.topic(1)
	b.produce(topic, 0, 10)
	m := b.join(b.options(topic))
	m.Request(plenty())
	a, _ := m.acquire(10)
	if a.DeliveryCounts != nil || !a.LockedUntil.IsZero() || a.TopicID == (sharetask.TopicPartition{}).TopicID {
		t.Errorf("delivery counts %v, lock %v, topic id %v", a.DeliveryCounts, a.LockedUntil, a.TopicID)
	}
	b.awaitCommitted(topic, 0, 0)
	m.decide(a, sharetask.Accept, span(3, 5), span(7, 9))
	m.none(300 * time.Millisecond)
	m.decide(a, sharetask.Reject, span(0, 1))
	if got := next[*sharetask.Acknowledged](m); got.Verdict != sharetask.Reject || got.Ranges[0] != span(0, 1) {
		t.Errorf("got %v %v, want reject 0 to 1", got.Verdict, got.Ranges)
	}
	b.awaitCommitted(topic, 0, 2)
	m.decide(a, sharetask.Accept, span(2, 2))
	if got := next[*sharetask.Acknowledged](m); got.Verdict != sharetask.Accept || got.Ranges[0] != span(2, 5) {
		t.Errorf("got %v %v, want accept 2 to 5", got.Verdict, got.Ranges)
	}
	m.decide(a, sharetask.Renew, span(6, 6))
	m.decide(a, sharetask.Release, span(6, 6))
	if got := next[*sharetask.Acknowledged](m); got.Verdict != sharetask.Release || got.Ranges[0] != span(6, 6) {
		t.Errorf("got %v %v, want release 6", got.Verdict, got.Ranges)
	}
	lost := false
	for _, e := range m.leave() {
		if e, ok := e.(*sharetask.Lost); ok {
			lost = e.Ranges == nil
		}
	}
	if !lost {
		t.Error("7 to 9 lie behind the released record and were not reported lost")
	}
	b.awaitCommitted(topic, 0, 6)
	again := b.join(b.options(topic))
	again.Request(plenty())
	if _, r := again.acquire(4); r != span(6, 9) {
		t.Errorf("after the restart got %v, want 6 to 9", r)
	}
}

func TestRoomPausesThePartitions(t *testing.T) {
	b := fake(t)
	topic := b.topic(1)
	b.produce(topic, 0, 50)
	m := b.join(b.options(topic))
	m.none(time.Second)
	m.Request(sharetask.Room{Records: 5, Bytes: 1 << 20})
	if a, r := m.acquire(5); r != span(0, 4) || len(a.Records) > 5 {
		t.Errorf("got %v, want 0 to 4", r)
	}
	m.none(300 * time.Millisecond)
	m.Request(sharetask.Room{Records: 1000, Bytes: 13}) // "v0" to "v4" were 10 bytes.
	if _, r := m.acquire(2); r != span(5, 6) {
		t.Errorf("got %v, want 5 to 6: two records fill three bytes", r)
	}
	m.none(300 * time.Millisecond)
	m.Request(plenty())
	if _, r := m.acquire(43); r != span(7, 49) {
		t.Errorf("got %v, want 7 to 49", r)
	}
}

// The first start finds the end of the log at 10. What comes while nobody reads
// must be there at the second start.
func TestFirstPositionIsKept(t *testing.T) {
	b := fake(t)
	topic := b.topic(1)
	b.produce(topic, 0, 10)
	o := b.options(topic)
	o.Reset = Reset{}
	m := b.join(o)
	m.Request(plenty())
	b.awaitCommitted(topic, 0, 10)
	m.leave()
	b.produce(topic, 0, 3)
	again := b.join(o)
	again.Request(plenty())
	if _, r := again.acquire(3); r != span(10, 12) {
		t.Errorf("got %v, want 10 to 12", r)
	}
}

func TestResetByDuration(t *testing.T) {
	b := fake(t)
	topic := b.topic(1)
	now := time.Now()
	for i := range 6 {
		b.produceRecords(&kgo.Record{Topic: topic, Value: []byte("x"), Timestamp: now.Add(time.Duration(i-6) * time.Hour)})
	}
	o := b.options(topic)
	o.Reset = Reset{By: 150 * time.Minute}
	m := b.join(o)
	m.Request(plenty())
	if _, r := m.acquire(2); r != span(4, 5) {
		t.Errorf("got %v, want the records of the last two hours, 4 to 5", r)
	}
}

func TestOffsetOutOfRangeFollowsThePolicy(t *testing.T) {
	b := fake(t)
	topic := b.topic(1)
	b.produce(topic, 0, 10)
	b.commit(kadm.Offset{Topic: topic, At: 500, LeaderEpoch: -1})
	m := b.join(b.options(topic))
	m.Request(plenty())
	if _, r := m.acquire(10); r != span(0, 9) {
		t.Errorf("got %v, want 0 to 9", r)
	}
	b.awaitCommitted(topic, 0, 0)
}

func TestRecordsAsProduced(t *testing.T) {
	b := fake(t)
	topic := b.topic(1)
	at := time.UnixMilli(1700000000123)
	b.produceRecords(
		&kgo.Record{Topic: topic, Value: []byte{}, Timestamp: at, Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "", Value: []byte{}}}},
		&kgo.Record{Topic: topic, Key: []byte{}, Timestamp: at})
	m := b.join(b.options(topic))
	m.Request(plenty())
	a := next[*sharetask.Acquired](m)
	if len(a.Records) == 1 {
		a.Records = append(a.Records, next[*sharetask.Acquired](m).Records...)
	}
	r := a.Records[0]
	if !r.Key.IsAbsent() || r.Value.IsAbsent() || a.Records[1].Key.IsAbsent() || !a.Records[1].Value.IsAbsent() {
		t.Error("null and empty are mixed up")
	}
	if !r.Timestamp.Equal(at) || r.TimestampType != 1 {
		t.Errorf("timestamp %v type %d", r.Timestamp, r.TimestampType)
	}
	if len(r.Headers) != 3 || r.Headers[0].Key != "a" || !r.Headers[1].Value.IsAbsent() || r.Headers[2].Value.IsAbsent() {
		t.Errorf("headers %v", r.Headers)
	}
}

func TestExpressionFollowsTheTopics(t *testing.T) {
	b := fake(t)
	b.create("orders-a", 1)
	b.create("other", 1)
	b.produce("orders-a", 0, 1)
	b.produce("other", 0, 1)
	o := b.options("")
	o.Topics, o.TopicRegex, o.MetadataInterval = nil, "^orders-", 100*time.Millisecond
	m := b.join(o)
	m.Request(plenty())
	a, _ := m.acquire(1)
	m.decide(a, sharetask.Accept, span(0, 0))
	next[*sharetask.Acknowledged](m)
	b.create("orders-b", 1)
	b.produce("orders-b", 0, 1)
	if got := next[*sharetask.Acquired](m); got.Topic != "orders-b" || got.Session == a.Session {
		t.Errorf("got topic %s session %d, want orders-b and another than %d", got.Topic, got.Session, a.Session)
	}
}

func TestRevokeWaitsForWhatIsHandedOut(t *testing.T) {
	testRevoke(fake(t))
}

func testRevoke(b *bench) {
	t := b.t
	topic := b.topic(2)
	b.produce(topic, 0, 4)
	b.produce(topic, 1, 4)
	m := b.join(b.options(topic))
	m.Request(plenty())
	var held []*sharetask.Acquired // The first of each partition. A fetch may bring less than there is.
	for got := 0; got < 8; {
		a := next[*sharetask.Acquired](m)
		got += len(a.Records)
		if len(held) == 0 || held[0].Partition != a.Partition && len(held) == 1 {
			held = append(held, a)
		}
	}
	first, second := held[0], held[1]
	other := b.join(b.options(topic))
	other.Request(plenty())
	r1, r2 := next[*sharetask.Revoking](m), next[*sharetask.Revoking](m)
	if r1.Partition == r2.Partition || r1.Session != first.Session || time.Until(r1.Deadline) <= 0 {
		t.Fatalf("revoking %+v and %+v", r1, r2)
	}
	m.decide(first, sharetask.Accept, span(0, 3))
	other.none(500 * time.Millisecond) // One partition is not finished.
	m.decide(second, sharetask.Accept, span(0, 1))
	m.decide(second, sharetask.Release, span(2, 3))
	accepted := int64(0)
	for accepted < 6 {
		if a := next[*sharetask.Acknowledged](m); a.Verdict == sharetask.Accept {
			for _, r := range a.Ranges {
				accepted += r.Len()
			}
		}
	}
	b.awaitCommitted(topic, first.Partition, 4)
	b.awaitCommitted(topic, second.Partition, 2)
	// The released ones come to whoever has the partition now.
	got := make(chan *sharetask.Acquired, 2)
	for _, each := range []*member{m, other} {
		go func() {
			for e := range each.Events() {
				if a, ok := e.(*sharetask.Acquired); ok {
					got <- a
				}
			}
		}()
	}
	select {
	case a := <-got:
		if a.Partition != second.Partition || a.Records[0].Offset != 2 {
			t.Errorf("got %s-%d from %d, want the released records", a.Topic, a.Partition, a.Records[0].Offset)
		}
	case <-time.After(wait):
		t.Error("the released records came to nobody")
	}
}
