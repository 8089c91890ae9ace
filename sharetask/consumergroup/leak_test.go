package consumergroup

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluicehq/sluice/sharetask"
)

func TestCloseLeavesNoGoroutine(t *testing.T) {
	b := fake(t)
	topic := b.topic(1)
	b.produce(topic, 0, 3)
	before := goleak.IgnoreCurrent()
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
	// The library has one metrics goroutine per process. The embedded broker ends its side of a connection a moment later.
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"), goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*clientConn).read"),
		goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*clientConn).write"))
}
