package sharegroup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/test/kafkatest"
)

// The tests of this file are faults that other clients had, each by its name in
// the collection of cases. SHARE-04 is in TestSessionErrorsLoseEverythingHeld
// and the model of the session, SHARE-10 in package kafka, SHARE-13 is
// TestKafkaHoldByRenewal.

// tracker accepts what it is given and knows what became of it.
type tracker struct {
	mu        sync.Mutex
	delivered map[string]int // By the record's value.
	accepted  map[string]bool
	open      map[string]string // Value by place.
}

func newTracker() *tracker {
	return &tracker{delivered: map[string]int{}, accepted: map[string]bool{}, open: map[string]string{}}
}

func place(tp sharetask.TopicPartition, s sharetask.Session, offset int64) string {
	return fmt.Sprint(tp.TopicID, tp.Partition, s, offset)
}

// take enters an event, and accepts what it brings.
func (k *tracker) take(m *member, e sharetask.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch e := e.(type) {
	case *sharetask.Acquired:
		for i := range e.Records {
			b, _ := e.Records[i].Value.Bytes()
			k.delivered[string(b)]++
			k.open[place(e.TopicPartition, e.Session, e.Records[i].Offset)] = string(b)
		}
		m.decide(e, sharetask.Accept, span(e))
		e.Free()
	case *sharetask.Acknowledged:
		for _, r := range e.Ranges {
			for o := r.First; o <= r.Last; o++ {
				k.accepted[k.open[place(e.TopicPartition, e.Session, o)]] = true
			}
		}
	}
}

func (k *tracker) done() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.accepted)
}

// until reads events of m until n records were accepted.
func (k *tracker) until(m *member, n int) {
	m.t.Helper()
	deadline := time.After(2 * wait)
	for k.done() < n {
		select {
		case e, ok := <-m.Events():
			if !ok {
				m.t.Fatal("events ended")
			}
			k.take(m, e)
		case <-deadline:
			m.t.Fatalf("%d records of %d accepted", k.done(), n)
		}
	}
}

func values(prefix string, n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Value: fmt.Appendf(nil, "%s-%d", prefix, i)}
	}
	return records
}

// startOffset is where the group's partition 0 of a topic begins.
func startOffset(t *testing.T, admin *kadm.Client, group, topic string) int64 {
	t.Helper()
	all, err := admin.DescribeShareGroupOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := all[group].Offsets.Lookup(topic, 0)
	if !ok {
		return -1
	}
	return o.StartOffset
}

func TestShare05LeaderMovesBetweenFetchAndAcknowledgement(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three brokers")
	}
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{Brokers: 3})
	const topic, group = "moving", "moving-group"
	c.CreateTopic(t, topic, 1, 3, nil)
	configure(t, c.Bootstrap(), group, shortLocks())
	client := c.Client(t)
	m := join(t, options(c.Bootstrap(), topic, group))
	m.Request(sharetask.Room{Records: 1 << 30, Bytes: 1 << 40})
	k := newTracker()
	for round := range 20 {
		produce(t, c.Bootstrap(), topic, values(fmt.Sprint(round), 200)...)
		first := next[*sharetask.Acquired](m) // Held over the move.
		moveLeader(t, client, topic)
		moved := time.Now()
		k.take(m, first)
		k.until(m, 200*(round+1))
		if took := time.Since(moved); took > 15*time.Second {
			t.Errorf("round %d: accepted %v after the move, want the lock's 15 s at most", round, took)
		}
	}
}

// moveLeader gives partition 0 of a topic to another of its replicas.
func moveLeader(t *testing.T, client *kgo.Client, topic string) {
	t.Helper()
	admin := kadm.NewClient(client)
	detail := func() kmsg.MetadataResponseTopicPartition { return metadata(t, client, topic).Partitions[0] }
	before := detail()
	at := slices.Index(before.Replicas, before.Leader)
	order := slices.Concat(before.Replicas[at+1:], before.Replicas[:at+1])
	req := kadm.AlterPartitionAssignmentsReq{}
	req.Assign(topic, 0, order)
	resp, err := admin.AlterPartitionAssignments(t.Context(), req)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	var set kadm.TopicsSet
	set.Add(topic, 0)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(wait); detail().Leader == before.Leader; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the leader does not move")
		}
		_, _ = admin.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, set) // Not before the new order is known.
	}
}

// Whatever was decided before a stop is not delivered again.
func TestShare07NoAcknowledgementIsDroppedAtAStop(t *testing.T) {
	t.Parallel()
	bootstrap, topic, group := shared(t, 1)
	for i := range 20 { // Producer batches, so that a stop may fall between.
		produce(t, bootstrap, topic, values(fmt.Sprint(i), 50)...)
	}
	k, decided := newTracker(), map[string]bool{}
	for range 20 {
		m := join(t, options(bootstrap, topic, group))
		m.Request(sharetask.Room{Records: 50, Bytes: 1 << 20})
		left := rand.IntN(3)
		for end := time.After(wait); left >= 0; left-- {
			select {
			case e := <-m.Events():
				if a, ok := e.(*sharetask.Acquired); ok {
					for i := range a.Records {
						b, _ := a.Records[i].Value.Bytes()
						if decided[string(b)] {
							t.Errorf("%s came again after it was accepted", b)
						}
						decided[string(b)] = true
					}
				}
				k.take(m, e)
			case <-end:
				t.Fatal("no event")
			}
		}
		for _, e := range m.leave() {
			if _, ok := e.(*sharetask.Acquired); !ok { // Came too late to be decided: it comes again.
				k.take(m, e)
			}
		}
	}
	m := join(t, options(bootstrap, topic, group))
	m.Request(sharetask.Room{Records: 1 << 20, Bytes: 1 << 30})
	k.until(m, 1000)
	for v := range decided {
		if n := k.delivered[v]; n != 1 {
			t.Errorf("%s was delivered %d times, want once", v, n)
		}
	}
}

// A broker that takes requests and never answers: the other partitions go on,
// it is named, and a stop does not wait for it.
func TestShare08BrokerNeverAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three brokers")
	}
	t.Parallel()
	c, topic, group := threeBrokers(t)
	log := newLogged()
	o := options(c.Bootstrap(), topic, group)
	o.Logger, o.Connection.RequestTimeout = log.logger(), 3*time.Second
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &member{s, t}
	for _, a := range m.holdOfEach(3) {
		m.decide(a, sharetask.Accept, span(a))
	}
	for range 3 {
		next[*sharetask.Acknowledged](m)
	}
	topics, err := c.Admin(t).ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	silent := int(topics[topic].Partitions[0].Leader) - 1
	other := topics[topic].Partitions[1]
	if other.Leader == topics[topic].Partitions[0].Leader {
		other = topics[topic].Partitions[2]
	}
	c.Pause(t, silent)
	produce(t, c.Bootstrap(), topic, &kgo.Record{Partition: other.Partition, Value: []byte("w")})
	for {
		a := next[*sharetask.Acquired](m)
		if a.Partition == other.Partition {
			break
		}
	}
	named := fmt.Sprintf("broker=%d", silent+1)
	tick := time.NewTicker(20 * time.Millisecond)
	for deadline := time.Now().Add(wait); !log.contains(named); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("nobody said that %s does not answer:\n%s", named, log)
		}
	}
	tick.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	go func() {
		for range m.Events() {
		}
	}()
	began := time.Now()
	_ = m.Close(ctx) // It may say that it had no time for all.
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Close took %v, want its 3 s", took)
	}
	c.Continue(t, silent)
}

// Offsets without a record, of transactions and of compaction, do not stay
// acquired: the group's start moves to the log's end.
func TestShare11GapsOfTransactionsAndCompaction(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for compaction")
	}
	t.Parallel()
	c := kafkatest.New(t, kafkatest.Options{Properties: map[string]string{
		"log.cleaner.backoff.ms": "200", "log.segment.delete.delay.ms": "100",
	}})
	admin := c.Admin(t)
	// The broker writes the start down with the verdict after the one that
	// moved it: a last record brings it out.
	read := func(t *testing.T, topic, isolation string, want int, end int64) {
		t.Helper()
		group := topic + "-" + isolation
		configs := shortLocks()
		configs["share.isolation.level"] = isolation
		configure(t, c.Bootstrap(), group, configs)
		m := join(t, options(c.Bootstrap(), topic, group))
		m.Request(sharetask.Room{Records: 1 << 20, Bytes: 1 << 30})
		k := newTracker()
		k.until(m, want)
		m.awaitIdle()
		produce(t, c.Bootstrap(), topic, &kgo.Record{Key: []byte("last"), Value: []byte(group)})
		k.until(m, want+1)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(wait); startOffset(t, admin, group, topic) < end; <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("the group starts at %d, the log ends at %d", startOffset(t, admin, group, topic), end)
			}
		}
		for v, n := range k.delivered {
			if n != 1 {
				t.Errorf("%s came %d times", v, n)
			}
		}
	}
	t.Run("transactions", func(t *testing.T) {
		c.CreateTopic(t, "tx", 1, 1, nil)
		client := c.Client(t, kgo.TransactionalID("x"), kgo.DefaultProduceTopic("tx"))
		for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
			if err := client.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := client.ProduceSync(t.Context(), values(fmt.Sprint("tx", i), 10)...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := client.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
		read(t, "tx", "read_committed", 20, 33)
		read(t, "tx", "read_uncommitted", 31, 34)
	})
	t.Run("compaction", func(t *testing.T) {
		c.CreateTopic(t, "compacted", 1, 1, map[string]string{
			"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001", "min.compaction.lag.ms": "0",
		})
		client := c.Client(t, kgo.DefaultProduceTopic("compacted"))
		for i := range 100 { // 10 keys, ten times each.
			r := &kgo.Record{Key: fmt.Appendf(nil, "k%d", i%10), Value: fmt.Appendf(nil, "c%d", i)}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		// The active segment is not compacted: a record begins another.
		left := 100
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		end := int64(100)
		for deadline := time.Now().Add(2 * wait); left > 50; <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("%d records are left, want compaction", left)
			}
			r := &kgo.Record{Key: []byte("last"), Value: fmt.Appendf(nil, "l%d", end)}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
			end++
			left = 0
			for _, r := range c.ReadAll(t, "compacted") {
				if string(r.Key) != "last" {
					left++
				}
			}
		}
		read(t, "compacted", "read_uncommitted", len(c.ReadAll(t, "compacted")), end)
	})
}

// The group's lock is made shorter while records are held: a renewal tells how
// long it lasts, so that the next one is not too late.
func TestShare13LockIsMadeShorterWhileRecordsAreHeld(t *testing.T) {
	t.Parallel()
	bootstrap, topic, group := shared(t, 1)
	configure(t, bootstrap, group, map[string]string{"share.record.lock.duration.ms": "60000"})
	produce(t, bootstrap, topic, numbered(3)...)
	m := join(t, options(bootstrap, topic, group))
	m.Request(sharetask.Room{Records: 3, Bytes: 1 << 20})
	a := next[*sharetask.Acquired](m)
	if a.Lock != time.Minute {
		t.Fatalf("acquired for %v, want a minute", a.Lock)
	}
	configure(t, bootstrap, group, map[string]string{"share.record.lock.duration.ms": "15000"})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(wait); ; <-tick.C { // The leader learns of it a moment later.
		began := time.Now()
		m.decide(a, sharetask.Renew, span(a))
		e := next[*sharetask.Acknowledged](m)
		if e.Lock == 15*time.Second {
			if left := e.LockedUntil.Sub(began); left > 15*time.Second || left < 14*time.Second {
				t.Errorf("renewed for %v, want a little less than 15 s", left)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("renewed for %v, want 15 s", e.Lock)
		}
	}
	m.decide(a, sharetask.Accept, span(a))
	next[*sharetask.Acknowledged](m)
}

// An acknowledgement does not wait behind a fetch that the broker holds.
func TestShare14AcknowledgementsDoNotWaitForFetches(t *testing.T) {
	t.Parallel()
	bootstrap, topic, group := shared(t, 2)
	o := options(bootstrap, topic, group)
	o.MaxWait = 5 * time.Second
	m := join(t, o)
	m.Request(plenty())
	var longest time.Duration
	for i := range 20 {
		produce(t, bootstrap, topic, &kgo.Record{Partition: int32(i % 2), Value: []byte("v")})
		a := next[*sharetask.Acquired](m)
		m.settleQuietly(time.Duration(rand.IntN(200)) * time.Millisecond) // The sink takes its time.
		decided := time.Now()
		m.decide(a, sharetask.Accept, span(a))
		next[*sharetask.Acknowledged](m)
		longest = max(longest, time.Since(decided))
	}
	if longest > time.Second {
		t.Errorf("an acknowledgement took %v, want a second at most", longest)
	}
}

// Members come and go, and the topic is deleted and made again under its name:
// nothing is lost, and nobody asks for the old topic for ever.
func TestShare16MembersComeAndGo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	c := kafkatest.Shared(t)
	topic := c.Topic(t, 3)
	group := topic + "-group"
	configure(t, c.Bootstrap(), group, shortLocks())
	log := newLogged()
	k := newTracker()
	var reading sync.WaitGroup
	start := func() *member {
		o := options(c.Bootstrap(), topic, group)
		o.Logger = log.logger()
		s, err := New(o)
		if err == nil {
			err = s.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		m := &member{s, t}
		m.Request(sharetask.Room{Records: 1 << 30, Bytes: 1 << 40})
		reading.Go(func() {
			for e := range m.Events() {
				k.take(m, e)
			}
		})
		return m
	}
	stop := func(m *member) {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		if err := m.Close(ctx); err != nil && !errors.Is(err, kerr.UnknownTopicID) {
			t.Errorf("Close: %v", err)
		}
	}
	client := c.Client(t, kgo.DefaultProduceTopic(topic), kgo.UnknownTopicRetries(100))
	send := func(prefix string) {
		if err := client.ProduceSync(t.Context(), values(prefix, 2500)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	await := func(prefix string) {
		t.Helper()
		have := func() int {
			k.mu.Lock()
			defer k.mu.Unlock()
			n := 0
			for v := range k.accepted {
				if strings.HasPrefix(v, prefix+"-") {
					n++
				}
			}
			return n
		}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(2 * wait); have() < 2500; <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d of 2500 accepted\n%s", prefix, have(), log)
			}
		}
	}
	members := []*member{start()}
	scale := func(n int) {
		for len(members) < n {
			members = append(members, start())
		}
		for len(members) > n {
			stop(members[len(members)-1])
			members = members[:len(members)-1]
		}
	}
	for i, n := range []int{5, 1} {
		scale(n)
		send(fmt.Sprint("old", i))
		await(fmt.Sprint("old", i))
	}
	scale(5)
	send("gone") // May go with the topic.
	admin := c.Admin(t)
	if resp, err := admin.DeleteTopics(t.Context(), topic); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	client.PurgeTopicsFromClient(topic)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(wait); ; <-tick.C {
		_, err := admin.CreateTopic(t.Context(), 3, 1, nil, topic)
		if err == nil {
			break
		}
		if !errors.Is(err, kerr.TopicAlreadyExists) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for i, n := range []int{1, 5, 1} {
		scale(n)
		send(fmt.Sprint("new", i))
		await(fmt.Sprint("new", i))
	}
	before := strings.Count(log.String(), "\n")
	members[0].settleQuietly(time.Second)
	if more := strings.Count(log.String(), "\n") - before; more > 2 {
		t.Errorf("%d lines in a quiet second:\n%s", more, log)
	}
	scale(0)
	reading.Wait()
}

// settleQuietly lets time pass in which nothing has to happen.
func (m *member) settleQuietly(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// The share coordinator cannot write for twice the time of a lock: the verdict
// is not tried for ever, what it was about comes again and is decided then.
func TestShare17StateWriteFailsWhileTheLockRunsOut(t *testing.T) {
	t.Parallel()
	s := newScripted(t, 1, 1, kfake.BrokerConfigs(map[string]string{
		"group.share.record.lock.duration.ms": "2000", "share.record.lock.sweep.interval.ms": "50",
	}))
	m, a := s.holding(t, 3)
	if a.Lock != 2*time.Second {
		t.Fatalf("the lock is %v, want 2 s", a.Lock)
	}
	fail := ackErrors(kerr.CoordinatorNotAvailable, false)
	ours := m.membership().id
	s.answer(func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.ShareFetchRequest:
			if *r.MemberID == ours {
				return fail(req)
			}
		case *kmsg.ShareAcknowledgeRequest:
			if *r.MemberID == ours {
				return fail(req)
			}
		}
		return nil
	})
	m.Request(sharetask.Room{})
	m.decide(a, sharetask.Accept, span(a))
	other := join(t, options(s.bootstrap, s.topic, s.group))
	other.Request(plenty())
	again := next[*sharetask.Acquired](other)
	if len(again.Records) != 3 || again.DeliveryCounts[0] != 2 {
		t.Errorf("after the lock %d records came with count %d, want 3 with 2", len(again.Records), again.DeliveryCounts[0])
	}
	s.answer(nil)
	if lost := next[*sharetask.Lost](m); lost.Verdict != sharetask.Accept || lost.Ranges[0] != span(a) {
		t.Errorf("got %+v, want the accept lost", lost)
	}
	other.decide(again, sharetask.Accept, span(again))
	next[*sharetask.Acknowledged](other)
	before := len(s.requests())
	m.none(time.Second)
	for _, r := range s.requests()[before:] {
		if r.acks > 0 {
			t.Errorf("verdicts go on being sent: %+v", r)
		}
	}
}
