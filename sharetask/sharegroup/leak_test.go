package sharegroup

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/sluicehq/sluice/sharetask"
)

func TestCloseLeavesNoGoroutine(t *testing.T) {
	// Looked at after the cleanups below have closed the embedded broker too: its own goroutines come and go with each
	// request.
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	bootstrap, topic, group := fake(t, 1, nil)
	produce(t, bootstrap, topic, numbered(3)...)
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
}
