package sharegroup

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/test/kafkatest"
)

// shared returns a topic and a group on the broker all tests share. The group
// begins at the topic's start and has the shortest lock a broker allows.
func shared(t *testing.T, partitions int) (bootstrap []string, topic, group string) {
	t.Helper()
	c := kafkatest.Shared(t)
	topic = c.Topic(t, partitions)
	group = topic + "-group"
	configure(t, c.Bootstrap(), group, shortLocks())
	return c.Bootstrap(), topic, group
}

func shortLocks() map[string]string {
	return map[string]string{"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "15000", "share.assignment.interval.ms": "0"}
}

func TestKafkaVerdicts(t *testing.T) {
	t.Parallel()
	bootstrap, topic, group := shared(t, 1)
	produce(t, bootstrap, topic, numbered(6)...)
	m := join(t, options(bootstrap, topic, group))
	m.Request(plenty())
	a := next[*sharetask.Acquired](m)
	if len(a.Records) != 6 || a.Lock != 15*time.Second {
		t.Fatalf("got %d records, lock %v; want 6, 15s", len(a.Records), a.Lock)
	}
	if left := time.Until(a.LockedUntil); left > 15*time.Second || left < 13*time.Second {
		t.Errorf("lock ends in %v, want a little less than 15s", left)
	}
	m.Decide([]sharetask.Decision{
		{TopicPartition: a.TopicPartition, Session: a.Session, Verdict: sharetask.Renew, Ranges: []sharetask.Range{span(a)}},
		{TopicPartition: a.TopicPartition, Session: a.Session, Verdict: sharetask.Accept, Ranges: []sharetask.Range{{First: 0, Last: 1}, {First: 4, Last: 4}}},
		{TopicPartition: a.TopicPartition, Session: a.Session, Verdict: sharetask.Reject, Ranges: []sharetask.Range{{First: 3, Last: 3}}},
	})
	var got []string
	for range 3 {
		e := next[*sharetask.Acknowledged](m)
		got = append(got, fmt.Sprint(e.Verdict, e.Ranges))
	}
	slices.Sort(got)
	want := []string{"accept [{0 1} {4 4}]", "reject [{3 3}]", "renew [{2 2} {5 5}]"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// While 5 is held, 2 comes again.
	m.decide(a, sharetask.Release, sharetask.Range{First: 2, Last: 2})
	var again *sharetask.Acquired
	for released := false; again == nil || !released; {
		switch e := next[sharetask.Event](m).(type) {
		case *sharetask.Acquired:
			again = e
		case *sharetask.Acknowledged:
			released = e.Verdict == sharetask.Release
		case *sharetask.Assigned, *sharetask.Stalled:
		default:
			t.Fatalf("got %T %+v", e, e)
		}
	}
	if len(again.Records) != 1 || again.Records[0].Offset != 2 || again.DeliveryCounts[0] != 2 {
		t.Errorf("got %d records from %d, count %d; want the released one, count 2", len(again.Records), again.Records[0].Offset, again.DeliveryCounts[0])
	}
	m.decide(a, sharetask.Accept, sharetask.Range{First: 5, Last: 5})
	next[*sharetask.Acknowledged](m)
	m.decide(again, sharetask.Accept, span(again))
	next[*sharetask.Acknowledged](m)
	m.none(time.Second)
}

// Records are held for three lock periods; a second member on the same
// partition gets what comes meanwhile and never these.
func TestKafkaHoldByRenewal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 45 seconds")
	}
	t.Parallel()
	bootstrap, topic, group := shared(t, 1)
	produce(t, bootstrap, topic, numbered(5)...)
	m := join(t, options(bootstrap, topic, group))
	m.Request(sharetask.Room{Records: 5, Bytes: 1 << 20})
	a := next[*sharetask.Acquired](m)
	if len(a.Records) != 5 {
		t.Fatalf("got %d records, want 5", len(a.Records))
	}
	other := join(t, options(bootstrap, topic, group))
	other.Request(plenty())
	produce(t, bootstrap, topic, numbered(3)...)
	b := next[*sharetask.Acquired](other)
	if b.Records[0].Offset != 5 {
		t.Errorf("the second member got offset %d, want 5", b.Records[0].Offset)
	}
	other.decide(b, sharetask.Accept, sharetask.Range{First: 5, Last: 7})
	next[*sharetask.Acknowledged](other)
	until := a.LockedUntil
	for end := time.Now().Add(3 * a.Lock); time.Now().Before(end); {
		other.none(5 * time.Second)
		m.decide(a, sharetask.Renew, span(a))
		e := next[*sharetask.Acknowledged](m)
		if e.Verdict != sharetask.Renew || !e.LockedUntil.After(until) {
			t.Fatalf("got %v until %v, want renew beyond %v", e.Verdict, e.LockedUntil, until)
		}
		until = e.LockedUntil
	}
	m.decide(a, sharetask.Accept, span(a))
	if e := next[*sharetask.Acknowledged](m); e.Verdict != sharetask.Accept {
		t.Errorf("got %v, want accept", e.Verdict)
	}
}

// A lock that is not renewed ends: the late accept is refused and lost, and the
// record comes again.
func TestKafkaLockEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 seconds")
	}
	t.Parallel()
	bootstrap, topic, group := shared(t, 1)
	produce(t, bootstrap, topic, numbered(2)...)
	m := join(t, options(bootstrap, topic, group))
	m.Request(sharetask.Room{Records: 2, Bytes: 1 << 20})
	a := next[*sharetask.Acquired](m)
	other := join(t, options(bootstrap, topic, group))
	other.Request(plenty())
	b := next[*sharetask.Acquired](other)
	if early := time.Until(a.LockedUntil); early > 0 {
		t.Errorf("the other member had the records %v before the lock's end we told", early)
	}
	if b.DeliveryCounts[0] != 2 {
		t.Errorf("delivery count %d, want 2", b.DeliveryCounts[0])
	}
	m.decide(a, sharetask.Accept, span(a))
	if e := next[*sharetask.Lost](m); e.Verdict != sharetask.Accept || e.Ranges[0] != span(a) {
		t.Errorf("lost %v %v, want the accept", e.Verdict, e.Ranges)
	}
	other.decide(b, sharetask.Accept, span(b))
	next[*sharetask.Acknowledged](other)
}

func TestKafkaCloseAndKillGiveBack(t *testing.T) {
	t.Parallel()
	bootstrap, topic, group := shared(t, 1)
	produce(t, bootstrap, topic, numbered(4)...)
	for i, end := range []func(*member){func(m *member) { m.leave() }, func(m *member) { m.kill() }} {
		m := join(t, options(bootstrap, topic, group))
		m.Request(plenty())
		a := next[*sharetask.Acquired](m)
		if a.DeliveryCounts[0] != int16(i+1) {
			t.Errorf("member %d: delivery count %d, want %d", i, a.DeliveryCounts[0], i+1)
		}
		m.decide(a, sharetask.Accept, sharetask.Range{First: int64(i), Last: int64(i)})
		next[*sharetask.Acknowledged](m)
		end(m)
	}
	last := join(t, options(bootstrap, topic, group))
	last.Request(plenty())
	a := next[*sharetask.Acquired](last)
	if len(a.Records) != 2 || a.Records[0].Offset != 2 || a.DeliveryCounts[0] != 3 {
		t.Errorf("got %d records from %d, count %d; want 2 from 2, count 3", len(a.Records), a.Records[0].Offset, a.DeliveryCounts[0])
	}
}

// Room for one record brings one producer batch, not the whole partition.
func TestKafkaRoomForOne(t *testing.T) {
	t.Parallel()
	bootstrap, topic, group := shared(t, 1)
	for _, r := range numbered(20) { // A producer batch each.
		produce(t, bootstrap, topic, r)
	}
	m := join(t, options(bootstrap, topic, group))
	m.none(time.Second)
	m.Request(sharetask.Room{Records: 1, Bytes: 1 << 20})
	a := next[*sharetask.Acquired](m)
	if len(a.Records) != 1 {
		t.Errorf("room for one record brought %d", len(a.Records))
	}
	m.decide(a, sharetask.Accept, span(a))
	next[*sharetask.Acknowledged](m)
	m.none(time.Second)
	m.Request(plenty())
	got := 0
	for got < 19 {
		a := next[*sharetask.Acquired](m)
		got += len(a.Records)
		if a.DeliveryCounts[0] != 1 {
			t.Errorf("delivery count %d, want 1", a.DeliveryCounts[0])
		}
		m.decide(a, sharetask.Accept, span(a))
		next[*sharetask.Acknowledged](m)
	}
}

func TestKafkaGroupOfAnotherKind(t *testing.T) {
	t.Parallel()
	bootstrap, topic, group := shared(t, 1)
	produce(t, bootstrap, topic, numbered(1)...)
	consumer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	if fetches := consumer.PollFetches(t.Context()); fetches.NumRecords() == 0 {
		t.Fatal("the consumer group read nothing")
	}
	s, err := New(options(bootstrap, topic, group))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); !errors.Is(err, sharetask.ErrGroupKind) {
		t.Errorf("Start: %v, want ErrGroupKind", err)
	}
}

// The name is taken after the source looked.
func TestKafkaGroupOfAnotherKindLater(t *testing.T) {
	t.Parallel()
	bootstrap, topic, group := shared(t, 1)
	s, err := New(options(bootstrap, topic, group))
	if err != nil {
		t.Fatal(err)
	}
	produce(t, bootstrap, topic, numbered(1)...)
	consumer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	if fetches := consumer.PollFetches(t.Context()); fetches.NumRecords() == 0 {
		t.Fatal("the consumer group read nothing")
	}
	client, err := kgo.NewClient(s.conn...)
	if err != nil {
		t.Fatal(err)
	}
	s.begin(client) // Start without its look.
	m := &member{s, t}
	m.Request(plenty())
	if e := next[*sharetask.Failed](m); !errors.Is(e.Err, sharetask.ErrGroupKind) {
		t.Errorf("failed with %v, want ErrGroupKind", e.Err)
	}
	if _, ok := <-m.Events(); ok {
		t.Error("events go on after Failed")
	}
}

// The broker goes away and comes back while records are held: they are lost,
// and delivered again in another session. What was accepted is not.
func TestKafkaBrokerRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker")
	}
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{})
	topic := c.Topic(t, 1)
	group := topic + "-group"
	configure(t, c.Bootstrap(), group, shortLocks())
	produce(t, c.Bootstrap(), topic, numbered(6)...)
	m := join(t, options(c.Bootstrap(), topic, group))
	m.Request(plenty())
	a := next[*sharetask.Acquired](m)
	m.decide(a, sharetask.Accept, sharetask.Range{First: 0, Last: 1})
	next[*sharetask.Acknowledged](m)
	c.Stop(t, 0)
	m.decide(a, sharetask.Accept, sharetask.Range{First: 2, Last: 3})
	c.Start(t, 0)
	// The accept is lost, or comes after all of the session was, which makes it void.
	e := next[*sharetask.Lost](m)
	if e.Ranges != nil && e.Verdict == sharetask.Accept {
		e = next[*sharetask.Lost](m)
	}
	if e.Ranges != nil || e.Session != a.Session || e.Cause == nil {
		t.Errorf("lost %+v, want all of session %d", e, a.Session)
	}
	again := next[*sharetask.Acquired](m)
	if again.Session == a.Session || again.Records[0].Offset != 2 || len(again.Records) != 4 {
		t.Errorf("got %d records from %d in session %d, want 4 from 2 in another than %d", len(again.Records), again.Records[0].Offset, again.Session, a.Session)
	}
	m.decide(a, sharetask.Reject, sharetask.Range{First: 2, Last: 5}) // Of the old session: void.
	m.decide(again, sharetask.Accept, span(again))
	if e := next[*sharetask.Acknowledged](m); e.Verdict != sharetask.Accept || e.Session != again.Session {
		t.Errorf("got %v in session %d, want accept in %d", e.Verdict, e.Session, again.Session)
	}
}

// holdOfEach asks for records and returns one delivery of each partition.
func (m *member) holdOfEach(partitions int) map[int32]*sharetask.Acquired {
	m.t.Helper()
	m.Request(plenty())
	held := map[int32]*sharetask.Acquired{}
	for len(held) < partitions {
		a := next[*sharetask.Acquired](m)
		held[a.Partition] = a
	}
	return held
}

// threeBrokers starts three brokers with a topic of three partitions, a record
// in each, and a group as that of shared.
func threeBrokers(t *testing.T) (c *kafkatest.Cluster, topic, group string) {
	t.Helper()
	c = kafkatest.New(t, kafkatest.Options{Brokers: 3})
	topic = c.Topic(t, 3)
	group = topic + "-group"
	configure(t, c.Bootstrap(), group, shortLocks())
	for p := range int32(3) {
		produce(t, c.Bootstrap(), topic, &kgo.Record{Partition: p, Value: []byte("v")})
	}
	return c, topic, group
}

// The partition gets another leader: what is held of it is lost, at once, and
// comes again from there, while the others' go on.
func TestKafkaPartitionMoves(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three brokers")
	}
	t.Parallel()
	c, topic, group := threeBrokers(t)
	m := join(t, options(c.Bootstrap(), topic, group))
	held := m.holdOfEach(3)
	admin := c.Admin(t)
	topics, err := admin.ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	from := topics[topic].Partitions[0].Leader
	to := topics[topic].Partitions[1].Leader // A broker with a session of ours.
	if to == from {
		to = topics[topic].Partitions[2].Leader
	}
	req := kadm.AlterPartitionAssignmentsReq{}
	req.Assign(topic, 0, []int32{to})
	moved, err := admin.AlterPartitionAssignments(t.Context(), req)
	if err == nil {
		err = moved.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	lost := next[*sharetask.Lost](m)
	if lost.Partition != 0 || lost.Session != held[0].Session || lost.Ranges != nil {
		t.Errorf("lost %+v, want all of partition 0", lost)
	}
	a := next[*sharetask.Acquired](m)
	if a.Partition != 0 || a.Session == held[0].Session || a.Records[0].Offset != 0 {
		t.Errorf("got partition %d in session %d, want 0 in a new one", a.Partition, a.Session)
	}
	held[0] = a
	for _, a := range held {
		m.decide(a, sharetask.Accept, span(a))
	}
	for got := map[int32]bool{}; len(got) < 3; {
		got[next[*sharetask.Acknowledged](m).Partition] = true
	}
}

// A partition is taken away while records of it are held (SHARE-16): they are
// still ours to decide.
func TestKafkaUnassignedWhileHeld(t *testing.T) {
	t.Parallel()
	bootstrap, topic, group := shared(t, 2)
	for p := range int32(2) {
		produce(t, bootstrap, topic, &kgo.Record{Partition: p, Value: []byte("v")})
	}
	m := join(t, options(bootstrap, topic, group))
	held := m.holdOfEach(2)
	m.Source.assign([]partitionKey{{held[1].TopicID, 1}})
	for _, a := range held {
		m.decide(a, sharetask.Accept, span(a))
	}
	for got := map[int32]bool{}; len(got) < 2; {
		got[next[*sharetask.Acknowledged](m).Partition] = true
	}
	produce(t, bootstrap, topic, &kgo.Record{Partition: 0, Value: []byte("w")}, &kgo.Record{Partition: 1, Value: []byte("w")})
	if a := next[*sharetask.Acquired](m); a.Partition != 1 {
		t.Errorf("got a record of partition %d, which is not assigned", a.Partition)
	}
	m.none(time.Second)
	m.Source.assign([]partitionKey{{held[0].TopicID, 0}, {held[1].TopicID, 1}})
	if a := next[*sharetask.Acquired](m); a.Partition != 0 || a.DeliveryCounts[0] != 1 {
		t.Errorf("got partition %d with count %d, want 0 again, with 1", a.Partition, a.DeliveryCounts[0])
	}
}

// Of a partition that was taken away the records are decided one after the
// other: none of the requests that carry the verdicts may ask for more of it,
// which nobody would know of.
func TestKafkaUnassignedAndDecidedLater(t *testing.T) {
	t.Parallel()
	bootstrap, topic, group := shared(t, 2)
	for p := range int32(2) {
		produce(t, bootstrap, topic, &kgo.Record{Partition: p, Value: []byte("v")}, &kgo.Record{Partition: p, Value: []byte("v")}, &kgo.Record{Partition: p, Value: []byte("v")})
	}
	m := join(t, options(bootstrap, topic, group))
	m.Request(plenty())
	held := map[int32][]*sharetask.Acquired{}
	for n := 0; n < 6; {
		a := next[*sharetask.Acquired](m)
		held[a.Partition] = append(held[a.Partition], a)
		n += len(a.Records)
	}
	id := held[0][0].TopicID
	m.Source.assign([]partitionKey{{id, 1}})
	for _, a := range held[0] {
		for _, r := range a.Records {
			m.decide(a, sharetask.Accept, sharetask.Range{First: r.Offset, Last: r.Offset})
			next[*sharetask.Acknowledged](m)
		}
	}
	produce(t, bootstrap, topic, &kgo.Record{Partition: 0, Value: []byte("w")}, &kgo.Record{Partition: 1, Value: []byte("w")})
	if a := next[*sharetask.Acquired](m); a.Partition != 1 {
		t.Errorf("got a record of partition %d, which is not assigned", a.Partition)
	}
	m.none(time.Second)
	m.Source.assign([]partitionKey{{id, 0}, {id, 1}})
	if a := next[*sharetask.Acquired](m); a.Partition != 0 || a.DeliveryCounts[0] != 1 {
		t.Errorf("got partition %d with count %d, want 0 again, with 1", a.Partition, a.DeliveryCounts[0])
	}
}

// Records of three leaders come side by side.
func TestKafkaSeveralBrokers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three brokers")
	}
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{Brokers: 3})
	topic := c.Topic(t, 6)
	group := topic + "-group"
	configure(t, c.Bootstrap(), group, shortLocks())
	for p := range int32(6) {
		records := values(fmt.Sprint(p), 50)
		for _, r := range records {
			r.Partition = p
		}
		produce(t, c.Bootstrap(), topic, records...)
	}
	m := join(t, options(c.Bootstrap(), topic, group))
	m.Request(plenty())
	k := newTracker()
	k.until(m, 300)
	for v, n := range k.delivered {
		if n != 1 {
			t.Errorf("%s was delivered %d times, want once", v, n)
		}
	}
}

// The group's coordinator moves while the connection to the old one stays: the
// member finds the new one, and its partitions are read for longer than a
// session lasts without a heartbeat.
func TestKafkaCoordinatorMoves(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three brokers")
	}
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{Brokers: 3, Properties: map[string]string{
		"offsets.topic.num.partitions":          "1",
		"group.share.session.timeout.ms":        "6000",
		"group.share.min.session.timeout.ms":    "6000",
		"group.share.heartbeat.interval.ms":     "1000",
		"group.share.min.heartbeat.interval.ms": "1000",
	}})
	topic := c.Topic(t, 1)
	group := topic + "-group"
	configure(t, c.Bootstrap(), group, shortLocks())
	m := join(t, options(c.Bootstrap(), topic, group))
	m.Request(sharetask.Room{Records: 1 << 30, Bytes: 1 << 40})
	k := newTracker()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for round := range 30 { // Fifteen seconds.
		if round == 2 { // Once: three moves would end where it was.
			moveLeader(t, c.Client(t), "__consumer_offsets")
		}
		produce(t, c.Bootstrap(), topic, values(fmt.Sprint(round), 1)...)
		k.until(m, round+1)
		<-tick.C
	}
	groups, err := c.Admin(t).DescribeShareGroups(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	if g := groups[group]; len(g.Members) != 1 || g.Members[0].MemberID != m.membership().id {
		t.Errorf("the group has members %+v, want ours", g.Members)
	}
}
