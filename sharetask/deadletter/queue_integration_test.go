package deadletter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/internal/kafka/confirm"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/test/kafkatest"
)

func open(t *testing.T, cluster *kafkatest.Cluster, topic string, edit func(*Options)) *Queue {
	t.Helper()
	opts := Options{
		Connection: kafka.Connection{Bootstrap: cluster.Bootstrap()}, Topic: topic, Connector: "orders", Group: "connect-orders", Sink: "jdbc",
	}
	if edit != nil {
		edit(&opts)
	}
	q, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close(context.Background()) })
	return q
}

// letter is a dead letter of orders/partition@offset.
func letter(partition int32, offset int64, value []byte) sharetask.DeadLetter {
	return sharetask.DeadLetter{
		Record: &pluginapi.Record{
			Topic: "orders", Partition: partition, Offset: offset, Timestamp: time.UnixMilli(1_700_000_000_123), TimestampType: pluginapi.CreateTime,
			Key: pluginapi.BytesDatum([]byte("k" + strconv.FormatInt(offset, 10))), Value: pluginapi.BytesDatum(value),
		},
		Stage: sharetask.StagePut, Class: pluginapi.Invalid, Code: "23505", Message: "duplicate key", DeliveryCount: 2,
	}
}

func header(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return "(none)"
}

// byOffset indexes dead letters by the offset of their original.
func byOffset(t *testing.T, records []*kgo.Record) map[string][]*kgo.Record {
	t.Helper()
	m := make(map[string][]*kgo.Record)
	for _, r := range records {
		m[header(r, headerOffset)] = append(m[header(r, headerOffset)], r)
	}
	return m
}

func noErrors(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("letter %d: got %v, want no error", i, err)
		}
	}
}

// The record is written as it was, other systems' headers in binary included; ours
// come after them and are text (KAFKA-10).
func TestOriginalIsKept(t *testing.T) {
	cluster := kafkatest.Shared(t)
	topic := cluster.Topic(t, 2)
	queue := open(t, cluster, topic, nil).Task(3)
	tests := []struct {
		name       string
		key, value []byte
	}{
		{"text", []byte("key"), []byte("value")},
		{"null key", nil, []byte("value")},
		{"empty key", []byte{}, []byte("value")},
		{"tombstone", []byte("key"), nil},
		{"empty value", []byte("key"), []byte{}},
		{"any bytes", []byte{0, 0xff, 0x80}, []byte{0xfe, 0}},
	}
	var letters []sharetask.DeadLetter
	for i, tt := range tests {
		l := letter(int32(i), int64(i), tt.value)
		l.Record.Key = pluginapi.BytesDatum(tt.key)
		l.Record.Headers = []pluginapi.Header{
			{Key: "h", Value: pluginapi.BytesDatum([]byte("1"))},
			{Key: "h", Value: pluginapi.BytesDatum([]byte{})},
			{Key: "", Value: pluginapi.BytesDatum(nil)},
			{Key: "kafka_dlt-original-offset", Value: pluginapi.BytesDatum([]byte{0, 0, 0, 0, 0, 0, 0xff, 0x80})}, // Another's, as a number.
		}
		letters = append(letters, l)
	}
	noErrors(t, queue.Write(t.Context(), letters))
	got := byOffset(t, cluster.ReadAll(t, topic))
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rs := got[strconv.Itoa(i)]
			if len(rs) != 1 {
				t.Fatalf("got %d dead letters, want 1", len(rs))
			}
			r := rs[0]
			if !bytes.Equal(r.Key, tt.key) || (r.Key == nil) != (tt.key == nil) {
				t.Errorf("got key %q (nil %t), want %q", r.Key, r.Key == nil, tt.key)
			}
			if !bytes.Equal(r.Value, tt.value) || (r.Value == nil) != (tt.value == nil) {
				t.Errorf("got value %q (nil %t), want %q", r.Value, r.Value == nil, tt.value)
			}
			if r.Timestamp.UnixMilli() != 1_700_000_000_123 {
				t.Errorf("got timestamp %v", r.Timestamp)
			}
			if want := int32(i % 2); r.Partition != want {
				t.Errorf("got partition %d, want %d", r.Partition, want)
			}
			if len(r.Headers) < 4 || r.Headers[0].Key != "h" || string(r.Headers[0].Value) != "1" ||
				r.Headers[1].Key != "h" || r.Headers[1].Value == nil || len(r.Headers[1].Value) != 0 ||
				r.Headers[2].Key != "" || r.Headers[2].Value != nil ||
				!bytes.Equal(r.Headers[3].Value, []byte{0, 0, 0, 0, 0, 0, 0xff, 0x80}) {
				t.Errorf("got headers %v, want the original ones first", r.Headers)
			}
			for key, want := range map[string]string{
				"__connect.errors.topic": "orders", "__connect.errors.partition": strconv.Itoa(i), "__connect.errors.offset": strconv.Itoa(i),
				"__connect.errors.connector.name": "orders", "__connect.errors.task.id": "3", "__connect.errors.stage": "TASK_PUT",
				"__connect.errors.class.name": "jdbc", "__connect.errors.exception.class.name": "sluice.invalid",
				"__connect.errors.exception.message": "duplicate key", "__sluice.errors.class": "invalid", "__sluice.errors.code": "23505",
				"__sluice.errors.delivery.count": "2", "__sluice.errors.group": "connect-orders", "__sluice.errors.value.omitted": "(none)",
			} {
				if got := header(r, key); got != want {
					t.Errorf("header %s: got %q, want %q", key, got, want)
				}
			}
		})
	}
}

// A broker refuses a batch as a whole, so a record it does not take used to
// fail whatever shared its batch (KAFKA-07).
func TestOneLetterDoesNotFailItsNeighbours(t *testing.T) {
	cluster := kafkatest.Shared(t)
	const limit = 100_000
	topic := kafkatest.Name(t)
	cluster.CreateTopic(t, topic, 1, 1, map[string]string{"max.message.bytes": strconv.Itoa(limit)})
	// The client believes in a larger limit than the broker's, so all letters
	// share a batch.
	queue := open(t, cluster, topic, func(o *Options) { o.MaxMessageBytes = 10 << 20 }).Task(0)
	var letters []sharetask.DeadLetter
	for i := range 21 {
		letters = append(letters, letter(0, int64(i), kafkatest.Value(i, 1000)))
	}
	letters[7] = letter(0, 7, bytes.Repeat([]byte("x"), 2*limit))
	letters[9] = letter(0, 9, []byte("v")) // Key and headers alone are too large.
	letters[9].Record.Key = pluginapi.BytesDatum(bytes.Repeat([]byte("k"), limit))
	letters[11].Record.Timestamp = time.Now().Add(48 * time.Hour).Truncate(time.Millisecond) // Brokers take one hour ahead.

	noErrors(t, queue.Write(t.Context(), letters))
	got := byOffset(t, cluster.ReadAll(t, topic))
	for i := range letters {
		rs := got[strconv.Itoa(i)]
		if len(rs) != 1 {
			t.Errorf("offset %d: got %d dead letters, want 1", i, len(rs))
			continue
		}
		r := rs[0]
		omitted := header(r, headerValueOmitted)
		switch i {
		case 7:
			if len(r.Value) != 0 || string(r.Key) != "k7" || !strings.Contains(omitted, "200") ||
				!strings.Contains(omitted, "partition 0, offset 7") || header(r, headerRecordOmitted) != "(none)" {
				t.Errorf("too large: got key %q, %d bytes of value, header %q", r.Key, len(r.Value), omitted)
			}
		case 9:
			if len(r.Key) != 0 || header(r, headerRecordOmitted) == "(none)" {
				t.Errorf("large key: got %d bytes of key, header %q", len(r.Key), header(r, headerRecordOmitted))
			}
		case 11:
			want := strconv.FormatInt(letters[11].Record.Timestamp.UnixMilli(), 10)
			if header(r, headerTimestamp) != want || time.Since(r.Timestamp).Abs() > time.Hour {
				t.Errorf("future: got timestamp %v, header %q, want %s in it", r.Timestamp, header(r, headerTimestamp), want)
			}
		default:
			if len(r.Value) != 1000 || omitted != "(none)" {
				t.Errorf("offset %d: got %d bytes of value, header %q", i, len(r.Value), omitted)
			}
		}
	}
}

func TestRefusedLettersAreNamed(t *testing.T) {
	cluster := kafkatest.Shared(t)
	t.Run("record", func(t *testing.T) {
		topic := kafkatest.Name(t)
		cluster.CreateTopic(t, topic, 1, 1, map[string]string{"cleanup.policy": "compact"})
		queue := open(t, cluster, topic, nil).Task(0)
		letters := []sharetask.DeadLetter{letter(0, 0, []byte("v")), letter(0, 1, []byte("v")), letter(0, 2, []byte("v"))}
		letters[1].Record.Key = pluginapi.Datum{} // Compacted topics take no record without a key.
		errs := queue.Write(t.Context(), letters)
		if errs[0] != nil || errs[2] != nil {
			t.Errorf("got %v, want none for the neighbours", errs)
		}
		if errs[1] == nil || !strings.Contains(errs[1].Error(), "orders/0@1") {
			t.Errorf("got %v, want the record's coordinates", errs[1])
		}
	})
	t.Run("returned", func(t *testing.T) { // KAFKA-01: a dead letter queue that feeds its group, over whatever way.
		topic := kafkatest.Name(t)
		cluster.CreateTopic(t, topic, 1, 1, nil)
		queue := open(t, cluster, topic, nil).Task(0)
		for round := 1; ; round++ {
			again := letter(0, 0, []byte("v"))
			if read := cluster.ReadAll(t, topic); len(read) > 0 { // What it reads next.
				for _, h := range read[len(read)-1].Headers {
					again.Record.Headers = append(again.Record.Headers, pluginapi.Header{Key: h.Key, Value: pluginapi.BytesDatum(h.Value)})
				}
			}
			errs := queue.Write(t.Context(), []sharetask.DeadLetter{letter(0, 1, nil), again})
			if round <= maxReturns {
				if err := errors.Join(errs...); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				continue
			}
			if errs[0] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(), headerGroup) {
				t.Errorf("got %v after %d rounds, want that the second comes back", errs, round)
			}
			break
		}
	})
	t.Run("topic", func(t *testing.T) {
		queue := open(t, cluster, kafkatest.Name(t), nil).Task(0)
		errs := queue.Write(t.Context(), []sharetask.DeadLetter{letter(0, 0, []byte("v"))})
		if !errors.Is(errs[0], kafka.ErrUnknownTopic) {
			t.Errorf("got %v, want %v", errs[0], kafka.ErrUnknownTopic)
		}
	})
}

// The topic is deleted while it is in use: letters are not confirmed, and they
// are written once it has been made again (KAFKA-02).
func TestTopicDeletedAndMadeAgain(t *testing.T) {
	cluster := kafkatest.Shared(t)
	topic := cluster.Topic(t, 1)
	queue := open(t, cluster, topic, nil).Task(0)
	noErrors(t, queue.Write(t.Context(), []sharetask.DeadLetter{letter(0, 0, []byte("gone"))}))
	cluster.DeleteTopic(t, topic)
	letters := []sharetask.DeadLetter{letter(0, 1, []byte("v")), letter(0, 2, []byte("v"))}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for i, err := range queue.Write(ctx, letters) {
		if err == nil {
			t.Errorf("letter %d: confirmed without a topic", i)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; {
		_, err := cluster.Admin(t).CreateTopic(t.Context(), 1, 1, nil, topic)
		if err == nil {
			break
		}
		if !errors.Is(err, kerr.TopicAlreadyExists) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
	ctx, cancel = context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	noErrors(t, queue.Write(ctx, letters))
	if got := byOffset(t, cluster.ReadAll(t, topic)); len(got) != 2 || len(got["1"]) != 1 || len(got["2"]) != 1 {
		t.Errorf("got %d letters, want those of the second topic, once", len(got))
	}
}

// Many writers, and a broker that stops in between: each letter arrives, once,
// and the record's memory may be used again as soon as Write returned.
func TestConcurrentWritesOverABrokerRestart(t *testing.T) {
	cluster := kafkatest.New(t, kafkatest.Options{})
	const topic, writers, rounds, each = "dlq.orders", 4, 30, 20
	cluster.CreateTopic(t, topic, 3, 1, nil)
	queue := open(t, cluster, topic, func(o *Options) { o.MaxBytes = 64 << 10 })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	restart := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			task := queue.Task(w)
			for round := range rounds {
				if w == 0 && round == rounds/3 {
					close(restart)
				}
				var letters []sharetask.DeadLetter
				var values [][]byte
				for i := range each {
					id := (w*rounds+round)*each + i
					values = append(values, kafkatest.Value(id, 1000))
					l := letter(int32(id%3), int64(id), values[i])
					l.Record.Timestamp = time.Now() // A broker forgets who wrote what is old.
					letters = append(letters, l)
				}
				for i, err := range task.Write(ctx, letters) {
					if err != nil {
						t.Errorf("writer %d, letter %d: %v", w, i, err)
					}
				}
				for _, v := range values {
					clear(v)
				}
			}
		})
	}
	wg.Go(func() {
		<-restart
		cluster.Kill(t, 0)
		time.Sleep(5 * time.Second) // An outage of a length that made a client give up on what it had sent.
		cluster.Start(t, 0)
	})
	wg.Wait()
	got := byOffset(t, cluster.ReadAll(t, topic))
	twice := 0
	for id := range writers * rounds * each {
		rs := got[strconv.Itoa(id)]
		if len(rs) == 0 {
			t.Errorf("letter %d is lost", id)
			continue
		}
		twice += len(rs) - 1
		if v, err := kafkatest.ID(rs[0].Value); err != nil || v != id {
			t.Errorf("letter %d has the value of %d (%v)", id, v, err)
		}
	}
	if twice > 0 {
		t.Errorf("%d letters are there twice", twice)
	}
}

// An outage longer than a caller's patience: the caller gets errors that say
// so, its second try does not produce what is still on its way again, and the
// queue closes in bounded time.
func TestOutage(t *testing.T) {
	cluster := kafkatest.New(t, kafkatest.Options{})
	const topic = "dlq.orders"
	cluster.CreateTopic(t, topic, 1, 1, nil)
	q := open(t, cluster, topic, nil)
	queue := q.Task(0)
	noErrors(t, queue.Write(t.Context(), []sharetask.DeadLetter{letter(0, 0, []byte("v"))}))
	cluster.Pause(t, 0)
	letters := make([]sharetask.DeadLetter, 50)
	for i := range letters {
		letters[i] = letter(0, int64(i+1), []byte(fmt.Sprint(i)))
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		for i, err := range queue.Write(ctx, letters) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("letter %d: got %v, want %v", i, err, context.DeadlineExceeded)
			}
		}
		cancel()
	}
	cluster.Continue(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	noErrors(t, queue.Write(ctx, letters))
	got := byOffset(t, cluster.ReadAll(t, topic))
	for i := range len(letters) + 1 {
		if n := len(got[strconv.Itoa(i)]); n != 1 {
			t.Errorf("letter %d is there %d times, want once", i, n)
		}
	}
	cluster.Kill(t, 0)
	wctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	if err := queue.Write(wctx, letters[:1])[0]; err == nil {
		t.Error("got no error without a broker")
	}
	start := time.Now()
	q.Close(context.Background())
	if d := time.Since(start); d > confirm.CloseGrace+5*time.Second {
		t.Errorf("close took %v", d)
	}
	if err := queue.Write(t.Context(), letters[:1])[0]; !errors.Is(err, confirm.ErrClosed) {
		t.Errorf("after close: got %v, want %v", err, confirm.ErrClosed)
	}
}
