package consumergroup

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// remove deletes a topic.
func (b *bench) remove(topic string) {
	b.t.Helper()
	resp, err := kadm.NewClient(b.client).DeleteTopics(b.t.Context(), topic)
	if err = errors.Join(err, resp.Error()); err != nil {
		b.t.Fatal(err)
	}
	b.client.PurgeTopicsFromClient(topic)
}

// recreate makes a topic that was deleted again and returns its id.
func (b *bench) recreate(topic string, partitions int32) pluginapi.TopicID {
	b.t.Helper()
	admin := kadm.NewClient(b.client)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(wait); ; <-tick.C {
		resp, err := admin.CreateTopic(b.t.Context(), partitions, 1, nil, topic)
		if err == nil {
			return pluginapi.TopicID(resp.ID)
		}
		if !errors.Is(err, kerr.TopicAlreadyExists) || time.Now().After(deadline) {
			b.t.Fatal(err)
		}
	}
}

// readsAnew accepts what comes until n records of the topic id have come, each
// offset from 0 on once and in order.
func (m *member) readsAnew(id pluginapi.TopicID, n int) {
	m.t.Helper()
	deadline := time.After(wait)
	want := int64(0)
	for want < int64(n) {
		select {
		case e := <-m.Events():
			a, ok := e.(*sharetask.Acquired)
			if !ok {
				continue
			}
			first, last := a.Records[0].Offset, a.Records[len(a.Records)-1].Offset
			if a.TopicID != id {
				m.t.Fatalf("offsets %d to %d came under the id %v, want %v", first, last, a.TopicID, id)
			}
			for _, r := range a.Records {
				if r.TopicID != id || r.Offset != want {
					m.t.Fatalf("offset %d of topic %v came, want %d of %v", r.Offset, r.TopicID, want, id)
				}
				want++
			}
			m.decide(a, sharetask.Accept, span(first, last))
		case <-deadline:
			m.t.Fatalf("%d of %d records of the new topic came", want, n)
		}
	}
}

// A topic is made again under its name while it is read: the new one is another
// topic, whose records are all new.
func TestKafkaTopicMadeAgain(t *testing.T) {
	t.Parallel()
	for name, reset := range map[string]Reset{"earliest": {Earliest: true}, "latest": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := realBroker(t)
			topic := b.topic(1)
			o := b.options(topic)
			o.Reset = reset
			m := b.join(o)
			m.Request(plenty())
			b.awaitCommitted(topic, 0, 0)
			b.produce(topic, 0, 5)
			a, _ := m.acquire(5)
			m.decide(a, sharetask.Accept, span(0, 4))
			b.awaitCommitted(topic, 0, 5)
			b.remove(topic)
			id := b.recreate(topic, 1)
			b.produce(topic, 0, 8)
			m.readsAnew(id, 8)
			b.awaitCommitted(topic, 0, 8)
		})
	}
}

// What is held of a topic that is gone is lost, and a verdict on it that comes
// late moves nothing in the new one.
func TestKafkaHeldRecordsAreLostWithTheirTopic(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	topic := b.topic(1)
	b.produce(topic, 0, 5)
	m := b.join(b.options(topic))
	m.Request(plenty())
	old, _ := m.acquire(5)
	m.decide(old, sharetask.Accept, span(0, 1))
	b.awaitCommitted(topic, 0, 2)
	b.remove(topic)
	id := b.recreate(topic, 1)
	if e := nextOf[*sharetask.Lost](m); e.TopicPartition != old.TopicPartition || e.Session != old.Session || !errors.Is(e.Cause, errReplaced) {
		t.Fatalf("lost %+v, want the old topic's", e)
	}
	m.decide(old, sharetask.Accept, span(0, 4))
	b.produce(topic, 0, 8)
	m.decide(old, sharetask.Accept, span(0, 4))
	b.awaitCommitted(topic, 0, 0)
	m.readsAnew(id, 8)
	b.awaitCommitted(topic, 0, 8)
}

// nextOf returns the next event of a kind, whatever comes before it.
func nextOf[E sharetask.Event](m *member) E {
	m.t.Helper()
	deadline := time.After(wait)
	for {
		select {
		case e := <-m.Events():
			if got, ok := e.(E); ok {
				return got
			}
		case <-deadline:
			m.t.Fatalf("no event, want %T", *new(E))
		}
	}
}

// The topic is made again while a source without room does not fetch, so that no
// fetch is refused, and the new one is longer than the position.
func TestKafkaTopicMadeAgainBetweenFetches(t *testing.T) {
	t.Parallel()
	const records = 3000
	b := realBroker(t)
	topic := b.topic(1)
	b.produce(topic, 0, records)
	o := b.options(topic)
	o.MaxRecords = 10
	m := b.join(o)
	m.Request(sharetask.Room{Records: 10, Bytes: 1 << 20})
	a, r := m.acquire(10)
	m.decide(a, sharetask.Accept, r)
	next[*sharetask.Acknowledged](m)
	m.none(500 * time.Millisecond) // The library gives the partition up for as long as its records are not taken.
	b.remove(topic)
	id := b.recreate(topic, 1)
	b.produce(topic, 0, 2*records)
	m.Request(plenty())
	m.readsAnew(id, 2*records)
	b.awaitCommitted(topic, 0, 2*records)
}

// Nobody reads while the topic is made again. The broker forgets the group's
// positions in it; one that it was told afterwards names the old topic.
func TestKafkaTopicMadeAgainWhileNobodyReads(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"the broker forgot": false, "committed late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := realBroker(t)
			topic := b.topic(1)
			b.produce(topic, 0, 5)
			o := b.options(topic)
			m := b.join(o)
			m.Request(plenty())
			a, r := m.acquire(5)
			m.decide(a, sharetask.Accept, r)
			b.awaitCommitted(topic, 0, 5)
			m.leave()
			b.remove(topic)
			b.awaitCommitted(topic, 0, -1)
			id := b.recreate(topic, 1)
			b.produce(topic, 0, 8)
			if late {
				b.commit(kadm.Offset{Topic: topic, At: 5, LeaderEpoch: -1, Metadata: tag(a.TopicID)})
				o.Reset = Reset{} // It is known that all of the topic came after the group's position.
			}
			again := b.join(o)
			again.Request(plenty())
			again.readsAnew(id, 8)
			b.awaitCommitted(topic, 0, 8)
		})
	}
}

// A position that says no topic, as others commit it and this source did before,
// counts, and is committed again with its topic.
func TestPositionWithoutATopicCounts(t *testing.T) {
	b := fake(t)
	topic := b.topic(1)
	b.produce(topic, 0, 5)
	b.commit(kadm.Offset{Topic: topic, At: 3, LeaderEpoch: -1})
	m := b.join(b.options(topic))
	m.Request(plenty())
	a, r := m.acquire(2)
	if r != span(3, 4) {
		t.Errorf("got %v, want 3 to 4", r)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(wait); ; <-tick.C {
		offsets, err := kadm.NewClient(b.client).FetchOffsets(t.Context(), b.group)
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := offsets.Lookup(topic, 0); o.At == 3 && o.Metadata == tag(a.TopicID) {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("committed %d with %q, want 3 with the topic's id", o.At, o.Metadata)
		}
	}
}

// A topic is absent for a while and comes back with fewer partitions: the other
// one is read on, nothing spins, no member ends.
func TestKafkaTopicAbsentForAWhile(t *testing.T) {
	t.Parallel()
	b := realBroker(t)
	stays, goes := b.topic(1), b.topic(3)
	log := &counting{}
	o := b.options("")
	o.Topics, o.MetadataInterval, o.Logger = []string{stays, goes}, time.Second, slog.New(log)
	members := []*member{b.join(o), b.join(o)}
	seen := make(chan *sharetask.Acquired, 100)
	var reading sync.WaitGroup
	for _, m := range members {
		m.Request(plenty())
		reading.Go(func() {
			for e := range m.Events() {
				switch e := e.(type) {
				case *sharetask.Acquired:
					m.decide(e, sharetask.Accept, span(e.Records[0].Offset, e.Records[len(e.Records)-1].Offset))
					seen <- e
				case *sharetask.Failed:
					t.Errorf("failed: %v", e.Err)
				}
			}
		})
	}
	await := func(topic string, n int) *sharetask.Acquired {
		t.Helper()
		deadline := time.After(wait)
		for {
			select {
			case a := <-seen:
				if a.Topic != topic {
					t.Fatalf("a record of %s came, want %s", a.Topic, topic)
				}
				if n -= len(a.Records); n <= 0 {
					return a
				}
			case <-deadline:
				t.Fatalf("%d records of %s are missing\n%s", n, topic, log)
			}
		}
	}
	b.produce(stays, 0, 1)
	await(stays, 1)
	for p := range int32(3) {
		b.produce(goes, p, 2)
	}
	await(goes, 6)
	b.remove(goes)
	b.awaitCommitted(goes, 0, -1)
	log.reset()
	members[0].pass(absentFor)
	b.produce(stays, 0, 1)
	await(stays, 1)
	if n := log.count(); n > 60 {
		t.Errorf("%d lines while the topic was absent:\n%s", n, log)
	}
	id := b.recreate(goes, 1)
	b.produce(goes, 0, 4)
	if a := await(goes, 4); a.TopicID != id {
		t.Errorf("came under %v, want %v", a.TopicID, id)
	}
	b.produce(stays, 0, 1)
	await(stays, 1)
	for _, m := range members {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		if err := m.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		cancel()
	}
	reading.Wait()
}

// pass lets time pass in which nothing has to happen.
func (m *member) pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// counting keeps the last log lines and counts them.
type counting struct {
	mu    sync.Mutex
	lines []string
}

func (c *counting) Enabled(context.Context, slog.Level) bool { return true }

func (c *counting) Handle(_ context.Context, r slog.Record) error {
	line := r.Time.Format("05.000 ") + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
	return nil
}

func (c *counting) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *counting) WithGroup(string) slog.Handler      { return c }

func (c *counting) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = nil
}

func (c *counting) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

func (c *counting) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "\n")
}
