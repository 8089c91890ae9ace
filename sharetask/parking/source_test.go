package parking

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/sharetask"
)

// scripted is a source whose events a test sends.
type scripted struct {
	out    chan sharetask.Event
	refuse error
	room   sharetask.Room
	got    []sharetask.Decision
	closed int
}

func newScripted() *scripted { return &scripted{out: make(chan sharetask.Event, 8)} }

func (s *scripted) Start(context.Context) error    { return s.refuse }
func (s *scripted) Events() <-chan sharetask.Event { return s.out }
func (s *scripted) Request(r sharetask.Room)       { s.room = r }
func (s *scripted) Decide(d []sharetask.Decision)  { s.got = append(s.got, d...) }
func (s *scripted) Close(context.Context) error {
	if s.closed++; s.closed == 1 {
		close(s.out)
	}
	return nil
}

func joined(t *testing.T) (main, retry *scripted, both sharetask.Source) {
	t.Helper()
	main, retry = newScripted(), newScripted()
	both = Join(main, retry, "retry", "g")
	if err := both.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return main, retry, both
}

func TestTheTwoSourcesAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		main, retry, both := joined(t)
		both.Request(sharetask.Room{Records: 1, Bytes: 2, Parked: 3, ParkedBytes: 4})
		if main.room != (sharetask.Room{Records: 1, Bytes: 2}) || retry.room != (sharetask.Room{Records: 3, Bytes: 4}) {
			t.Errorf("rooms are %+v and %+v", main.room, retry.room)
		}
		of := func(topic string) sharetask.Decision {
			return sharetask.Decision{TopicPartition: sharetask.TopicPartition{Topic: topic}, Verdict: sharetask.Accept}
		}
		both.Decide([]sharetask.Decision{of("orders"), of("retry"), of("orders")})
		if len(main.got) != 2 || len(retry.got) != 1 || retry.got[0].Topic != "retry" {
			t.Errorf("decisions went to %v and %v", main.got, retry.got)
		}
		p := parked()
		retry.out <- &sharetask.Acquired{Records: []pluginapi.Record{read(message(&p, "g"))}}
		retry.out <- &sharetask.Stalled{} // Of the retry topic's window: the others go on.
		retry.out <- &sharetask.Lost{}
		main.out <- &sharetask.Stalled{}
		var kinds []string
		for range 3 {
			switch ev := (<-both.Events()).(type) {
			case *sharetask.Acquired:
				kinds = append(kinds, "acquired")
				if len(ev.Origins) != 1 || ev.Origins[0].Offset != 42 || ev.Records[0].Offset != 7 {
					t.Errorf("got origins %+v of record %+v", ev.Origins, ev.Records[0])
				}
			case *sharetask.Stalled:
				kinds = append(kinds, "stalled")
			case *sharetask.Lost:
				kinds = append(kinds, "lost")
			}
		}
		slices.Sort(kinds)
		if !slices.Equal(kinds, []string{"acquired", "lost", "stalled"}) {
			t.Errorf("got events %v", kinds)
		}
		if err := both.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if ev, open := <-both.Events(); open {
			t.Errorf("got %v after the end", ev)
		}
	})
}

// TestOneFailureEndsBoth, and is told once, even if both fail.
func TestOneFailureEndsBoth(t *testing.T) {
	for _, twice := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			main, retry, both := joined(t)
			for range 7 { // More than is read: they must not be in the way.
				main.out <- &sharetask.Acquired{}
			}
			if twice {
				main.out <- &sharetask.Failed{Err: errors.New("gone too")}
			}
			retry.out <- &sharetask.Failed{Err: errors.New("gone")}
			failures := 0
			for ev := range both.Events() {
				if _, ok := ev.(*sharetask.Failed); ok {
					failures++
				}
			}
			if failures != 1 || main.closed+retry.closed == 0 {
				t.Errorf("%d failures were told, the other source was closed %d times", failures, main.closed)
			}
		})
	}
}

func TestARetryTopicThatCannotBeReadStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		main, retry := newScripted(), newScripted()
		retry.refuse = errors.New("no such group")
		if err := Join(main, retry, "retry", "g").Start(t.Context()); !errors.Is(err, retry.refuse) || main.closed != 1 {
			t.Errorf("got %v, and the main source was closed %d times", err, main.closed)
		}
	})
}
