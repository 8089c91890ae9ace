package sharegroup

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/sharetask"
)

// wait bounds every wait for an event; none takes that long when all is well.
const wait = 30 * time.Second

// fake starts an embedded cluster with a topic and a group that begins at the
// topic's start.
func fake(t *testing.T, partitions int32, configs map[string]string) (bootstrap []string, topic, group string) {
	t.Helper()
	topic, group = "orders", "g-"+strconv.FormatInt(time.Now().UnixNano(), 36)
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic)}
	if configs != nil {
		opts = append(opts, kfake.BrokerConfigs(configs))
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	configure(t, c.ListenAddrs(), group, map[string]string{"share.auto.offset.reset": "earliest"})
	return c.ListenAddrs(), topic, group
}

func configure(t testing.TB, bootstrap []string, group string, configs map[string]string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, value := range configs {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, kmsg.StringPtr(value)
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Resources[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

func produce(t *testing.T, bootstrap []string, topic string, records ...*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// metadata asks a broker about a topic, each time anew.
func metadata(t *testing.T, client *kgo.Client, topic string) kmsg.MetadataResponseTopic {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Topics[0]
}

func numbered(n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Value: fmt.Appendf(nil, "v%d", i)}
	}
	return records
}

// member is a started source and its events.
type member struct {
	*Source
	t *testing.T
}

func join(t *testing.T, o Options) *member {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &member{s, t}
	t.Cleanup(func() { m.leave() })
	return m
}

// leave closes the source and drops its last events.
func (m *member) leave() []sharetask.Event {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var rest []sharetask.Event
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range m.Events() {
			rest = append(rest, e)
		}
	}()
	if err := m.Close(ctx); err != nil {
		m.t.Errorf("Close: %v", err)
	}
	<-done
	return rest
}

// kill ends the source as a crash would: its connections close.
func (m *member) kill() {
	m.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	go func() {
		for range m.Events() {
		}
	}()
	_ = m.Close(ctx) // its error is the cancelled context's
}

// told reports whether an event is about records.
func told(e sharetask.Event) bool {
	switch e.(type) {
	case *sharetask.Stalled, *sharetask.Assigned:
		return false
	default:
		return true
	}
}

// next returns the next event, which is one about records unless E is another,
// or fails the test.
func next[E sharetask.Event](m *member) E {
	m.t.Helper()
	deadline := time.After(wait)
	for {
		select {
		case e, ok := <-m.Events():
			if !ok {
				m.t.Fatal("events ended")
			}
			if got, ok := e.(E); ok {
				return got
			}
			if told(e) {
				m.t.Fatalf("got %T %+v, want %T", e, e, *new(E))
			}
		case <-deadline:
			m.t.Fatalf("no event, want %T", *new(E))
		}
	}
}

// none fails the test if an event about records comes within d.
func (m *member) none(d time.Duration) {
	m.t.Helper()
	deadline := time.After(d)
	for {
		select {
		case e := <-m.Events():
			if told(e) {
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

func span(a *sharetask.Acquired) sharetask.Range {
	return sharetask.Range{First: a.Records[0].Offset, Last: a.Records[len(a.Records)-1].Offset}
}

func plenty() sharetask.Room { return sharetask.Room{Records: 1000, Bytes: 1 << 20} }

func options(bootstrap []string, topic, group string) Options {
	return Options{Connection: kafka.Connection{Bootstrap: bootstrap}, Group: group, Topics: []string{topic}, Lock: 30 * time.Second, MaxWait: 100 * time.Millisecond}
}

func TestAcceptReleaseReject(t *testing.T) {
	bootstrap, topic, group := fake(t, 1, nil)
	produce(t, bootstrap, topic, numbered(10)...)
	m := join(t, options(bootstrap, topic, group))
	m.Request(plenty())
	a := next[*sharetask.Acquired](m)
	if len(a.Records) != 10 || a.DeliveryCounts[0] != 1 {
		t.Fatalf("got %d records, delivery count %d; want 10, 1", len(a.Records), a.DeliveryCounts[0])
	}
	if left := time.Until(a.LockedUntil); left < 20*time.Second || left > 30*time.Second {
		t.Errorf("lock ends in %v, want a little less than 30s", left)
	}
	if a.TopicID == (sharetask.TopicPartition{}).TopicID {
		t.Error("topic id is zero")
	}
	m.decide(a, sharetask.Release, sharetask.Range{First: 3, Last: 3})
	m.decide(a, sharetask.Reject, sharetask.Range{First: 5, Last: 5})
	// The released one comes again while the other eight are open.
	var again *sharetask.Acquired
	var verdicts []sharetask.Verdict
	for again == nil || len(verdicts) < 2 {
		switch e := next[sharetask.Event](m).(type) {
		case *sharetask.Acquired:
			again = e
		case *sharetask.Acknowledged:
			verdicts = append(verdicts, e.Verdict)
		case *sharetask.Assigned, *sharetask.Stalled:
		default:
			t.Fatalf("got %T %+v", e, e)
		}
	}
	slices.Sort(verdicts)
	if !slices.Equal(verdicts, []sharetask.Verdict{sharetask.Release, sharetask.Reject}) {
		t.Errorf("acknowledged %v, want release and reject", verdicts)
	}
	if len(again.Records) != 1 || again.Records[0].Offset != 3 || again.DeliveryCounts[0] != 2 || again.Session != a.Session {
		t.Fatalf("got %d records from %d with count %d, want the released one with count 2", len(again.Records), again.Records[0].Offset, again.DeliveryCounts[0])
	}
	m.decide(a, sharetask.Accept, sharetask.Range{First: 0, Last: 2})
	m.decide(a, sharetask.Accept, sharetask.Range{First: 6, Last: 9})
	m.decide(a, sharetask.Accept, sharetask.Range{First: 4, Last: 4})
	m.decide(a, sharetask.Accept, sharetask.Range{First: 5, Last: 5}) // Rejected: no effect.
	var got []sharetask.Range
	for n := int64(0); n < 8; {
		e := next[*sharetask.Acknowledged](m)
		for _, r := range e.Ranges {
			n += r.Len()
		}
		got = append(got, e.Ranges...)
	}
	want := []sharetask.Range{{First: 0, Last: 2}, {First: 4, Last: 4}, {First: 6, Last: 9}}
	slices.SortFunc(got, func(a, b sharetask.Range) int { return cmp.Compare(a.First, b.First) })
	if !slices.Equal(got, want) {
		t.Errorf("accepted %v, want %v", got, want)
	}
	m.decide(again, sharetask.Accept, span(again))
	next[*sharetask.Acknowledged](m)
	m.none(300 * time.Millisecond)
}

// With a lock of three seconds the records would come back after it.
func TestRenewKeepsTheLock(t *testing.T) {
	bootstrap, topic, group := fake(t, 1, map[string]string{"group.share.record.lock.duration.ms": "3000", "share.record.lock.sweep.interval.ms": "50"})
	produce(t, bootstrap, topic, numbered(3)...)
	m := join(t, options(bootstrap, topic, group))
	m.Request(plenty())
	a := next[*sharetask.Acquired](m)
	if a.Lock != 3*time.Second {
		t.Errorf("lock is %v, want the broker's 3s", a.Lock)
	}
	other := join(t, options(bootstrap, topic, group))
	other.Request(plenty())
	until := a.LockedUntil
	for range 12 {
		m.decide(a, sharetask.Renew, span(a))
		got := next[*sharetask.Acknowledged](m)
		if got.Verdict != sharetask.Renew || !got.LockedUntil.After(until) {
			t.Fatalf("got %v until %v, want renew until after %v", got.Verdict, got.LockedUntil, until)
		}
		until = got.LockedUntil
		other.none(300 * time.Millisecond)
	}
	m.decide(a, sharetask.Accept, span(a))
	if got := next[*sharetask.Acknowledged](m); got.Verdict != sharetask.Accept {
		t.Errorf("got %v, want accept", got.Verdict)
	}
	other.none(500 * time.Millisecond)
}

func TestCloseGivesBackTheUndecided(t *testing.T) {
	bootstrap, topic, group := fake(t, 1, nil)
	produce(t, bootstrap, topic, numbered(4)...)
	m := join(t, options(bootstrap, topic, group))
	m.Request(plenty())
	a := next[*sharetask.Acquired](m)
	m.decide(a, sharetask.Accept, sharetask.Range{First: 0, Last: 1})
	var accepted, lost bool
	for _, e := range m.leave() {
		switch e := e.(type) {
		case *sharetask.Acknowledged:
			accepted = e.Verdict == sharetask.Accept && e.Ranges[0] == sharetask.Range{First: 0, Last: 1}
		case *sharetask.Lost:
			lost = e.Ranges == nil
		case *sharetask.Stalled, *sharetask.Assigned:
		default:
			t.Errorf("unexpected %T", e)
		}
	}
	if !accepted || !lost {
		t.Errorf("accepted %t, lost %t; want both before the channel closes", accepted, lost)
	}
	other := join(t, options(bootstrap, topic, group))
	other.Request(plenty())
	b := next[*sharetask.Acquired](other)
	if len(b.Records) != 2 || b.Records[0].Offset != 2 {
		t.Errorf("got %d records from %d, want 2 from 2", len(b.Records), b.Records[0].Offset)
	}
}

func TestNothingIsFetchedWithoutRoom(t *testing.T) {
	bootstrap, topic, group := fake(t, 1, nil)
	produce(t, bootstrap, topic, numbered(20)...)
	m := join(t, options(bootstrap, topic, group))
	m.none(time.Second)
	m.Request(sharetask.Room{Records: 1, Bytes: 1 << 20})
	a := next[*sharetask.Acquired](m)
	if len(a.Records) != 1 {
		t.Errorf("room for one record brought %d", len(a.Records))
	}
	m.decide(a, sharetask.Accept, span(a))
	next[*sharetask.Acknowledged](m)
	m.none(time.Second) // The room is used up.
	m.Request(plenty())
	if got := next[*sharetask.Acquired](m); got.Records[0].Offset != 1 || len(got.Records) != 19 || got.Session != a.Session {
		t.Errorf("got %d records from %d in session %d, want 19 from 1 in %d", len(got.Records), got.Records[0].Offset, got.Session, a.Session)
	}
	m.Request(sharetask.Room{})
}

func TestRecordsAsProduced(t *testing.T) {
	bootstrap, topic, group := fake(t, 1, nil)
	at := time.UnixMilli(1700000000123)
	produce(t, bootstrap, topic,
		&kgo.Record{Key: nil, Value: []byte{}, Timestamp: at, Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "", Value: []byte{}}}},
		&kgo.Record{Key: []byte{}, Value: nil, Timestamp: at})
	m := join(t, options(bootstrap, topic, group))
	m.Request(plenty())
	a := next[*sharetask.Acquired](m)
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
	if len(a.Records[1].Headers) != 0 || a.Bytes != 3 {
		t.Errorf("%d headers on the second, %d bytes in all; want 0 and 3", len(a.Records[1].Headers), a.Bytes)
	}
}

func TestKilledMembersRecordsGoToAnother(t *testing.T) {
	bootstrap, topic, group := fake(t, 1, nil)
	produce(t, bootstrap, topic, numbered(5)...)
	m := join(t, options(bootstrap, topic, group))
	m.Request(plenty())
	next[*sharetask.Acquired](m)
	m.kill()
	other := join(t, options(bootstrap, topic, group))
	other.Request(plenty())
	n := 0
	for n < 5 {
		a := next[*sharetask.Acquired](other)
		n += len(a.Records)
	}
}

func TestDecisionsWithoutEffect(t *testing.T) {
	bootstrap, topic, group := fake(t, 1, nil)
	produce(t, bootstrap, topic, numbered(3)...)
	m := join(t, options(bootstrap, topic, group))
	m.Request(plenty())
	a := next[*sharetask.Acquired](m)
	old := *a
	old.Session += 7
	m.decide(&old, sharetask.Accept, span(a))
	m.decide(a, sharetask.Accept, sharetask.Range{First: 100, Last: 200})
	m.decide(a, 9, span(a))
	m.none(300 * time.Millisecond)
}

// membership gives tests the goroutine that heartbeats.
func (m *member) membership() *membership { return m.Source.member }

// awaitIdle waits until nothing is held, gaps included.
func (m *member) awaitIdle() {
	m.t.Helper()
	deadline := time.Now().Add(wait)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		m.mu.Lock()
		open := 0
		for _, p := range m.parts {
			open += p.open
		}
		m.mu.Unlock()
		if open == 0 {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%d offsets are held for ever", open)
		}
		<-tick.C
	}
}

// logged keeps what was logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newLogged() *logged { return &logged{} }

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) contains(text string) bool { return strings.Contains(l.String(), text) }
