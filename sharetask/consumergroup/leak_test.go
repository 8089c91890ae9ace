package consumergroup

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluicehq/sluice/sharetask"
)

func TestCloseLeavesNoGoroutine(t *testing.T) {
	// Looked at after the cleanups below have closed the embedded broker too: its own goroutines come and go with each
	// request. The library has one metrics goroutine per process.
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
	})
	b := fake(t)
	topic := b.topic(1)
	b.produce(topic, 0, 3)
	s, err := New(b.options(topic))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &member{s, t}
	m.Request(plenty())
	next[*sharetask.Acquired](m)
	m.leave()
}
