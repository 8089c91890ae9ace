package exactlyonce

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/convert"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/internal/kafka/confirm"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask/exactlyonce/intent"
	"github.com/sluicehq/sluice/test/kafkatest"
)

// cluster is a ledger and an output topic.
type cluster struct {
	*kafkatest.Cluster
	t           *testing.T
	ledger, out string
	log         logged
}

// logged is what is logged, in one text.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), text)
}

const ledgerPartitions = 2

func newCluster(t *testing.T) *cluster {
	t.Helper()
	t.Parallel()
	c := &cluster{Cluster: kafkatest.Shared(t), t: t, ledger: kafkatest.Name(t) + ".ledger", out: kafkatest.Name(t)}
	c.CreateTopic(t, c.ledger, ledgerPartitions, 1, map[string]string{"retention.ms": "-1"})
	c.CreateTopic(t, c.out, 2, 1, map[string]string{"max.message.bytes": "20000"})
	return c
}

// group is a worker's part of the ledger; it ends with the test.
func (c *cluster) group(worker string, change func(*Options)) *Group {
	c.t.Helper()
	var chain *convert.Chain
	opts := Options{
		Connection: kafka.Connection{Bootstrap: c.Bootstrap()}, Writers: c.ledger + "-" + worker, Topic: c.ledger, Partitions: ledgerPartitions,
		Encoder: chain, Logger: slog.New(slog.NewTextHandler(&c.log, nil)),
	}
	if change != nil {
		change(&opts)
	}
	g, err := Open(opts)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(g.Close)
	return g
}

// incompressible returns n random bytes.
func incompressible(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // It never fails.
	return b
}

var source = [16]byte{1, 2, 3}

// put is a batch of one source partition, and what it becomes.
type put struct {
	batch   []pluginapi.Record
	results []pluginapi.Result
}

func (c *cluster) put(partition int32, offsets ...int64) put {
	var p put
	for _, o := range offsets {
		p.batch = append(p.batch, pluginapi.Record{Topic: "source", TopicID: source, Partition: partition, Offset: o})
		p.results = append(p.results, pluginapi.Result{Outcome: pluginapi.Accept, Emitted: []pluginapi.Emitted{
			{Topic: c.out, Value: pluginapi.BytesDatum(fmt.Appendf(nil, "%d/%d", partition, o))},
		}})
	}
	return p
}

func (p put) outcomes() string {
	var b strings.Builder
	for _, r := range p.results {
		b.WriteString(r.Outcome.String()[:1])
	}
	return b.String()
}

// committer is one of g's, open until the test ends.
func (c *cluster) committer(g *Group, name string) *Committer {
	c.t.Helper()
	m := g.Committer(name)
	if err := m.Open(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m
}

func (c *cluster) commit(m *Committer, p put) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	if err := m.Commit(ctx, p.batch, p.results); err != nil {
		c.t.Fatal(err)
	}
	return p.outcomes()
}

// written returns how often each value is in the output, for readers of what is
// committed.
func (c *cluster) written() map[string]int {
	c.t.Helper()
	client := c.Client(c.t, kgo.ConsumeTopics(c.out), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer client.Close()
	ends, err := c.Admin(c.t).ListEndOffsets(c.t.Context(), c.out)
	if err != nil {
		c.t.Fatal(err)
	}
	got, open := map[string]int{}, map[int32]int64{}
	for p := range int32(2) {
		if end, ok := ends.Lookup(c.out, p); ok && end.Offset > 0 {
			open[p] = end.Offset
		}
	}
	for len(open) > 0 {
		client.PollFetches(c.t.Context()).EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				got[string(r.Value)]++
			}
			if r.Offset+1 >= open[r.Partition] {
				delete(open, r.Partition)
			}
		})
	}
	return got
}

func (c *cluster) wantOnce(want int) {
	c.t.Helper()
	got := c.written()
	for value, n := range got {
		if n != 1 {
			c.t.Errorf("%s is there %d times", value, n)
		}
	}
	if len(got) != want {
		c.t.Errorf("%d values are there, want %d", len(got), want)
	}
}

// TestKafkaARecordPutTwice is written once: by the same writer, by another of the
// worker, by another worker, and by one that reads the ledger anew.
func TestKafkaARecordPutTwice(t *testing.T) {
	c := newCluster(t)
	g := c.group("w1", nil)
	first := c.committer(g, "0")
	if got := c.commit(first, c.put(0, 1, 2, 3, 7)); got != "aaaa" {
		t.Fatalf("got %s", got)
	}
	for i, m := range []*Committer{first, c.committer(g, "1"), c.committer(c.group("w2", nil), "0")} {
		if got := c.commit(m, c.put(0, 2, 3, 4+100*int64(i), 7)); got != "aaaa" {
			t.Errorf("writer %d: got %s", i, got)
		}
	}
	if got := c.commit(first, c.put(1, 1, 2)); got != "aa" { // Another partition's are others.
		t.Errorf("got %s", got)
	}
	c.wantOnce(4 + 3 + 2)
}

// TestKafkaWritersThatHoldTheSame records at once: one writes each.
func TestKafkaWritersThatHoldTheSame(t *testing.T) {
	c := newCluster(t)
	const writers, rounds, size = 4, 15, 20
	var all sync.WaitGroup
	failures := make(chan string, writers*rounds)
	for w := range writers {
		m := c.committer(c.group(fmt.Sprint("w", w), nil), "0")
		all.Go(func() {
			for r := range rounds {
				offsets := make([]int64, size)
				for i := range offsets { // Half of them are others' as well, in parts.
					offsets[i] = int64(r*size + i + w*size/writers)
				}
				p := c.put(0, offsets...)
				for {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					err := m.Commit(ctx, p.batch, p.results)
					cancel()
					if err != nil {
						failures <- err.Error()
						return
					}
					if got := p.outcomes(); got == strings.Repeat("a", size) {
						break
					}
					p = c.put(0, offsets...) // Put again, as a task does.
				}
			}
		})
	}
	all.Wait()
	close(failures)
	for f := range failures {
		t.Error(f)
	}
	c.wantOnce(rounds*size + (writers-1)*size/writers)
}

// TestKafkaAWriterThatDiedIsFenced: its claim is in the way of another, and stays
// undecided.
func TestKafkaAWriterThatDiedIsFenced(t *testing.T) {
	c := newCluster(t)
	dead := c.committer(c.group("w1", nil), "0")
	tail, err := dead.writer.group.reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.writer.client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	of := intent.Source{TopicID: source}
	claim := &intent.Claim{ID: "left-open", Writer: dead.writer.id, Source: of, Of: ledgerPartitions, Ranges: []intent.Range{{First: 0, Last: 9}}}
	items := []*item{{offset: 5, outs: []*kgo.Record{{Topic: c.out, Value: []byte("0/5")}}}}
	if end, err := dead.writer.produce(t.Context(), tail, claim, items); end != committed {
		t.Fatalf("got %d, %v", end, err)
	}

	if got := c.commit(c.committer(c.group("w2", nil), "0"), c.put(0, 5, 6)); got != "aa" {
		t.Errorf("got %s", got)
	}
	if !c.log.has("a transaction that holds others up is ended") {
		t.Error("nobody said that a transaction was ended")
	}
	c.wantOnce(2)
	// The one that was fenced goes on under a new epoch, and writes nothing twice.
	p := c.put(0, 5, 6, 7)
	for range 3 {
		if c.commit(dead, p) == "aaa" {
			break
		}
		p = c.put(0, 5, 6, 7)
	}
	if got := p.outcomes(); got != "aaa" {
		t.Errorf("got %s, the fenced writer does not recover", got)
	}
	c.wantOnce(3)
}

// TestKafkaTwoWorkersOfOneName end each other's transactions; nothing is lost or
// written twice, and the log says what to change.
func TestKafkaTwoWorkersOfOneName(t *testing.T) {
	c := newCluster(t)
	const rounds = 12
	var all sync.WaitGroup
	for w := range 2 {
		m := c.committer(c.group("same", nil), "0")
		all.Go(func() {
			for r := range rounds {
				offset := int64(2*r + w)
				p := c.put(0, offset)
				for c.commit(m, p) != "a" {
					if t.Context().Err() != nil {
						return
					}
					p = c.put(0, offset)
				}
			}
		})
	}
	all.Wait()
	c.wantOnce(2 * rounds)
	if !c.log.has("worker.id") {
		t.Error("the log does not name worker.id")
	}
}

// TestKafkaRecordsTheBrokersRefuse reject their source record, and no other.
func TestKafkaRecordsTheBrokersRefuse(t *testing.T) {
	c := newCluster(t)
	p := c.put(0, 1, 2, 3, 4)
	p.results[1].Emitted[0].Value = pluginapi.BytesDatum(incompressible(30_000))
	p.results[2] = pluginapi.Rejected("x", "not for us")
	if got := c.commit(c.committer(c.group("w1", nil), "0"), p); got != "arra" || p.results[1].Outcome != pluginapi.Reject {
		t.Errorf("got %s, %v", got, p.results[1].Err)
	}
	c.wantOnce(2)
}

// TestKafkaLetters: a record is output or a dead letter, not both, and a letter
// that is too large is written without its value.
func TestKafkaLetters(t *testing.T) {
	c := newCluster(t)
	g := c.group("w1", nil)
	letters := g.Letters("letters", c.out, 2)
	t.Cleanup(func() { letters.Close(context.Background()) })
	letter := func(offset int64, size int) confirm.Message {
		return confirm.Message{
			Of: confirm.Coordinates{Topic: "source", TopicID: source, Offset: offset},
			Record: func(f confirm.Form) *kgo.Record {
				r := &kgo.Record{Partition: 5, Key: fmt.Appendf(nil, "%d", offset), Value: append(fmt.Appendf(nil, "letter %d", offset), incompressible(size)...)}
				if f.Omit != confirm.Nothing {
					r.Value = fmt.Appendf(nil, "letter %d, cut", offset)
				}
				return r
			},
		}
	}
	m := c.committer(g, "0")
	c.commit(m, c.put(0, 1))
	for i, err := range letters.Write(t.Context(), []confirm.Message{letter(1, 0), letter(2, 0), letter(3, 30_000), letter(4, 0)}) {
		if err != nil {
			t.Errorf("letter %d: %v", i, err)
		}
	}
	c.commit(m, c.put(0, 2, 3, 5))
	got := c.written()
	for _, want := range []string{"0/1", "letter 2", "letter 3, cut", "letter 4", "0/5"} {
		if got[want] != 1 {
			t.Errorf("%q is there %d times", want, got[want])
		}
	}
	if len(got) != 5 {
		t.Errorf("got %v", got)
	}
}

// TestKafkaALedgerThatIsNotOurs stops what uses it, with the reason.
func TestKafkaALedgerThatIsNotOurs(t *testing.T) {
	c := newCluster(t)
	c.ProduceRecords(t, false, &kgo.Record{Topic: c.ledger, Value: []byte("hello")})
	m := c.group("w1", nil).Committer("0")
	if err := m.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	var e *pluginapi.Error
	p, err := c.put(0, 1), error(nil)
	for range 100 { // It may be put before it is known, and is put again.
		if err = m.Commit(t.Context(), p.batch, p.results); err != nil || p.outcomes() == "a" {
			break
		}
		p = c.put(0, 1)
	}
	if !errors.As(err, &e) || e.Class != pluginapi.Fatal || !strings.Contains(err.Error(), c.ledger) || p.outcomes() == "a" {
		t.Errorf("got %v, %s; want a fatal error that names the topic", err, p.outcomes())
	}
}

// TestKafkaWhatIsCommittedTwiceIsSeen: two writers that do not look at each other's
// claims write a record twice, and whoever reads the ledger stops with the reason.
func TestKafkaWhatIsCommittedTwiceIsSeen(t *testing.T) {
	c := newCluster(t)
	var open []*Committer
	for w := range 2 {
		m := c.committer(c.group(fmt.Sprint("w", w), nil), "0")
		tail, err := m.writer.group.reader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := m.writer.client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		claim := &intent.Claim{ID: fmt.Sprint("claim", w), Writer: m.writer.id, Source: intent.Source{TopicID: source}, Of: ledgerPartitions, Ranges: []intent.Range{{First: 5, Last: 5}}}
		if end, err := m.writer.produce(t.Context(), tail, claim, []*item{{offset: 5, outs: []*kgo.Record{{Topic: c.out, Value: []byte("0/5")}}}}); end != committed {
			t.Fatalf("got %d, %v", end, err)
		}
		open = append(open, m)
	}
	for _, m := range open {
		if err := m.writer.client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.written()["0/5"]; got != 2 {
		t.Errorf("it is there %d times: the check sees nothing", got)
	}
	for _, m := range open {
		err := error(nil)
		for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end); {
			p := c.put(0, 5, 6)
			err = m.Commit(t.Context(), p.batch, p.results)
		}
		var e *pluginapi.Error
		if !errors.As(err, &e) || e.Class != pluginapi.Fatal || !strings.Contains(err.Error(), "committed twice") {
			t.Errorf("got %v, want a fatal error that says it", err)
		}
	}
}

// TestKafkaForget deletes what no record needs any more, and no more.
func TestKafkaForget(t *testing.T) {
	c := newCluster(t)
	position := int64(0)
	g := c.group("w1", func(o *Options) {
		o.Positions = func(context.Context) (map[intent.Source]int64, error) {
			return map[intent.Source]int64{{TopicID: source}: position}, nil
		}
	})
	m := c.committer(g, "0")
	const far = 3 * forgetMargin
	c.commit(m, c.put(0, 1, 2))
	c.commit(m, c.put(0, far))
	start := func() int64 {
		t.Helper()
		starts, err := c.Admin(t).ListStartOffsets(t.Context(), c.ledger)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := starts.Lookup(c.ledger, partitionOf(intent.Source{TopicID: source}, ledgerPartitions))
		return o.Offset
	}
	if err := g.Forget(t.Context()); err != nil || start() != 0 {
		t.Errorf("got %v, start %d: something is deleted that is needed", err, start())
	}
	position = far
	if err := g.Forget(t.Context()); err != nil || start() != 2 { // Behind the first claim and its marker.
		t.Errorf("got %v, start %d, want 2", err, start())
	}
	if got := c.commit(c.committer(c.group("w2", nil), "0"), c.put(0, far)); got != "a" {
		t.Errorf("got %s", got)
	}
	c.wantOnce(3)
}
