package sharegroup

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluicehq/sluice/sharetask"
)

func TestCloseLeavesNoGoroutine(t *testing.T) {
	bootstrap, topic, group := fake(t, 1, nil)
	produce(t, bootstrap, topic, numbered(3)...)
	before := goleak.IgnoreCurrent()
	s, err := New(options(bootstrap, topic, group))
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
	// The embedded broker ends its side of a connection a moment later.
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*clientConn).read"),
		goleak.IgnoreAnyFunction("github.com/twmb/franz-go/pkg/kfake.(*clientConn).write"))
}
