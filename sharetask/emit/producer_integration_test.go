package emit_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/convert"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
	"github.com/sluicehq/sluice/sharetask/emit"
	"github.com/sluicehq/sluice/test/kafkatest"
)

// emitter is a sink that emits what the test says.
type emitter struct {
	sharetask.Sink
	results []pluginapi.Result
	stopped bool
}

func (*emitter) Start(context.Context) error { return nil }

func (e *emitter) Put(_ context.Context, _ []pluginapi.Record, results []pluginapi.Result) error {
	copy(results, e.results)
	return nil
}

func (e *emitter) Stop(context.Context) error {
	e.stopped = true
	return nil
}

func text(s string) pluginapi.Datum { return pluginapi.BytesDatum([]byte(s)) }

func emits(list ...pluginapi.Emitted) pluginapi.Result {
	return pluginapi.Result{Outcome: pluginapi.Accept, Emitted: list}
}

func TestKafkaProducer(t *testing.T) {
	t.Parallel()
	c := kafkatest.Shared(t)
	topic := kafkatest.Name(t)
	c.CreateTopic(t, topic, 3, 1, map[string]string{"max.message.bytes": "20000"})
	at := time.UnixMilli(1_700_000_000_000)
	large := make([]byte, 30_000)
	_, _ = rand.Read(large) // Compressed it would not be.
	inner := &emitter{results: []pluginapi.Result{
		0: emits(pluginapi.Emitted{Topic: topic, Placed: true, Partition: 2, Timestamp: at, Key: text("a"), Value: text("1"), Headers: []pluginapi.Header{{Key: "h", Value: text("x")}, {Key: "h"}}}),
		1: emits(pluginapi.Emitted{Topic: topic, Key: text("b"), Value: text("2")}, pluginapi.Emitted{Topic: topic, Key: text("b")}), // Two, the second a tombstone.
		2: emits(pluginapi.Emitted{Topic: topic, Placed: true, Partition: 2, Value: pluginapi.BytesDatum(large)}),
		3: emits(),
		4: emits(pluginapi.Emitted{Topic: "no.such." + topic, Value: text("3")}),
		5: emits(pluginapi.Emitted{Topic: topic, Placed: true, Partition: 9, Value: text("4")}),
		6: emits(pluginapi.Emitted{Value: text("5")}),
		7: pluginapi.Rejected("x", "y"),
		8: {Outcome: pluginapi.Retry, Emitted: []pluginapi.Emitted{{Topic: topic, Value: text("not accepted")}}},
		9: emits(pluginapi.Emitted{Topic: "not a topic", Value: text("6")}),
	}}
	var chain *convert.Chain
	sink := emit.New(inner, emit.NewProducer(emit.Options{Connection: kafka.Connection{Bootstrap: c.Bootstrap()}, Encoder: chain}))
	if err := sink.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := len(inner.results)
	results := make([]pluginapi.Result, n)
	if err := sink.Put(t.Context(), make([]pluginapi.Record, n), results); err != nil {
		t.Fatal(err)
	}
	if err := sink.Stop(t.Context()); err != nil || !inner.stopped {
		t.Errorf("stop: %v, the sink stopped: %t", err, inner.stopped)
	}
	want := []struct {
		outcome pluginapi.Outcome
		class   pluginapi.Class
	}{
		{pluginapi.Accept, 0},
		{pluginapi.Accept, 0},
		{pluginapi.Reject, pluginapi.Invalid},
		{pluginapi.Accept, 0},
		{pluginapi.Retry, pluginapi.Transient},
		{pluginapi.Retry, pluginapi.Transient},
		{pluginapi.Reject, pluginapi.Invalid},
		{pluginapi.Reject, pluginapi.Invalid},
		{pluginapi.Retry, 0},
		{pluginapi.Reject, pluginapi.Invalid},
	}
	for i, w := range want {
		var class pluginapi.Class
		if results[i].Err != nil {
			class = results[i].Err.Class
		}
		if results[i].Outcome != w.outcome || class != w.class || results[i].Emitted != nil {
			t.Errorf("record %d: got %v of class %v (%v), want %v, %v", i, results[i].Outcome, class, results[i].Err, w.outcome, w.class)
		}
	}
	got := c.ReadAll(t, topic)
	if len(got) != 3 {
		t.Fatalf("%d records are there, want 3", len(got))
	}
	var placed *kgo.Record
	for _, r := range got {
		if string(r.Key) == "a" {
			placed = r
		} else if string(r.Key) != "b" || len(r.Value) > 0 && string(r.Value) != "2" {
			t.Errorf("got %q = %q", r.Key, r.Value)
		}
	}
	if placed == nil || placed.Partition != 2 || !placed.Timestamp.Equal(at) || len(placed.Headers) != 2 || placed.Headers[1].Value != nil || string(placed.Headers[0].Value) != "x" {
		t.Errorf("got %+v", placed)
	}
}

// TestProducerWithoutABroker answers by the end of the put's time.
func TestProducerWithoutABroker(t *testing.T) {
	var chain *convert.Chain
	inner := &emitter{results: []pluginapi.Result{emits(pluginapi.Emitted{Topic: "t", Value: text("v")})}}
	sink := emit.New(inner, emit.NewProducer(emit.Options{Connection: kafka.Connection{Bootstrap: []string{"127.0.0.1:1"}}, Encoder: chain}))
	if err := sink.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	results := make([]pluginapi.Result, 1)
	if err := sink.Put(ctx, make([]pluginapi.Record, 1), results); err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Outcome != pluginapi.Retry || r.Err.Class != pluginapi.Unavailable {
		t.Errorf("got %v %v, want a retry since the brokers are not there", r.Outcome, r.Err)
	}
	if err := sink.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
