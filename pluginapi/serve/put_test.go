package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/internal/abi/rpc"
	"github.com/sluicehq/sluice/pluginapi"
)

// slowSink takes as long for each put as the next of lasts says, or until its
// context ends. It notes what happened.
type slowSink struct {
	t     *testing.T
	lasts []time.Duration
	after func(put int) // Called at a put's end; may be nil.

	mu      sync.Mutex
	running bool
	puts    []putSeen
}

type putSeen struct {
	began     time.Time
	took      time.Duration
	cancelled bool
}

func (*slowSink) Start(context.Context, pluginapi.Config) error { return nil }
func (*slowSink) Stop(context.Context) error                    { return nil }

func (s *slowSink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	s.mu.Lock()
	if s.running {
		s.t.Error("two puts at a time")
	}
	s.running = true
	at, began := len(s.puts), time.Now()
	s.puts = append(s.puts, putSeen{})
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running = false
		s.puts[at] = putSeen{began, time.Since(began), ctx.Err() != nil}
		s.mu.Unlock()
		if s.after != nil {
			s.after(at)
		}
	}()
	select {
	case <-time.After(s.lasts[at]):
		return pluginapi.Accepted(len(batch)), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// servePuts serves a put stream of a started instance with the sink.
func servePuts(t *testing.T, sink pluginapi.Sink) (host *rpc.PutStream, conn net.Conn, log *bytes.Buffer) {
	t.Helper()
	log = new(bytes.Buffer)
	srv := newServer(&pluginapi.Plugin{Name: "slow", Version: "1.0.0", New: func() pluginapi.Sink { return sink }}, newHandler(log, ""))
	if answer, err := srv.Start(t.Context(), 1, abi.AppendStart(nil, pluginapi.Config{Connector: "c"}, nil)); err != nil || len(answer) > 0 {
		t.Fatalf("start: %q, %v", answer, err)
	}
	mine, theirs := net.Pipe()
	go rpc.ServeSocket(context.Background(), srv, theirs)
	return rpc.OverSocket(mine, 1), mine, log
}

func request() []byte {
	return abi.AppendPutRequest(nil, abi.PutHeader{}, []pluginapi.Record{{Topic: "t"}})
}

// receive reads answers in the background, as a pipe has no room.
func receive(host *rpc.PutStream) <-chan error {
	answered := make(chan error, 1)
	go func() {
		in, err := host.Receive(nil)
		if err == nil {
			var sinkErr *pluginapi.Error
			if _, sinkErr, err = abi.DecodePutResponse(in.Frame, make([]pluginapi.Result, 1)); err == nil && sinkErr != nil {
				err = sinkErr
			}
		}
		answered <- err
	}()
	return answered
}

// TestPutsRunOneByOneAndEndWhenCancelled with puts that are shorter and longer
// than the time after which another goroutine takes the lead, cancelled at any
// time, and a stream that ends between two puts or in the middle of one.
func TestPutsRunOneByOneAndEndWhenCancelled(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // A schedule.
			any60 := func() time.Duration { return time.Duration(rnd.IntN(60)) * time.Millisecond }
			sink := &slowSink{t: t}
			for range 30 {
				d := any60() + time.Microsecond // Never at the same time as a cancel.
				if rnd.IntN(3) == 0 {
					d = 0
				}
				sink.lasts = append(sink.lasts, d)
			}
			host, conn, _ := servePuts(t, sink)
			defer conn.Close()
			last := len(sink.lasts) - 1
			for i := range last {
				answered := receive(host)
				if err := host.Send(request()); err != nil {
					t.Fatal(err)
				}
				sent := time.Now()
				cancelAt := any60() + 2*time.Microsecond
				if rnd.IntN(2) == 0 {
					cancelAt = time.Hour
				}
				var err error
				select {
				case err = <-answered:
				case <-time.After(cancelAt):
					if err := host.SendCancel(); err != nil {
						t.Fatal(err)
					}
					err = <-answered
				}
				synctest.Wait()
				seen, lasts := sink.puts[i], sink.lasts[i]
				heard := max(cancelAt, soon) // When the cancel can have come.
				switch {
				case seen.began != sent:
					t.Fatalf("seed %d: put %d began %s late", seed, i, seen.began.Sub(sent))
				case seen.cancelled && (cancelAt > lasts || seen.took != heard || err == nil):
					t.Fatalf("seed %d: put %d of %s, cancelled after %s, was over after %s: %v", seed, i, lasts, cancelAt, seen.took, err)
				case !seen.cancelled && (lasts > heard || seen.took != lasts || err != nil):
					t.Fatalf("seed %d: put %d of %s, cancelled after %s, took %s: %v", seed, i, lasts, cancelAt, seen.took, err)
				}
				time.Sleep(any60() / 2)
			}
			middle := rnd.IntN(2) == 0
			var unanswered <-chan error
			if middle {
				sink.lasts[last] = time.Hour
				unanswered = receive(host)
				if err := host.Send(request()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(any60())
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(soon)
			synctest.Wait()
			if !middle {
				return
			}
			if err := <-unanswered; err == nil || !sink.puts[last].cancelled {
				t.Errorf("seed %d: the stream's end did not end the put: %v", seed, err)
			}
		})
	}
}

// TestAPanicEndsTheStream whichever goroutine received the put: also when another
// one listens by then.
func TestAPanicEndsTheStream(t *testing.T) {
	for _, lasts := range []time.Duration{0, soon + time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			sink := &slowSink{t: t, lasts: []time.Duration{lasts, lasts}, after: func(put int) {
				if put == 1 {
					panic("the second")
				}
			}}
			host, conn, log := servePuts(t, sink)
			defer conn.Close()
			for i := range 2 {
				answered := receive(host)
				if err := host.Send(request()); err != nil {
					t.Fatal(err)
				}
				err := <-answered
				if want := i == 1; want != (status.Code(err) == codes.Aborted) {
					t.Errorf("put %d: %v", i, err)
				}
			}
			synctest.Wait()
			if !strings.Contains(log.String(), "the second") {
				t.Error("the panic is not in the log")
			}
			if _, err := host.Receive(nil); err == nil || errors.Is(err, io.EOF) {
				t.Errorf("the stream goes on: %v", err)
			}
		})
	}
}

// TestAPutThatComesEarlyWaits: the sink has one put at a time, whatever the host
// does.
func TestAPutThatComesEarlyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &slowSink{t: t, lasts: []time.Duration{3 * soon, soon / 2, 3 * soon}}
		host, conn, _ := servePuts(t, sink)
		defer conn.Close()
		go func() {
			for range sink.lasts {
				if err := host.Send(request()); err != nil {
					t.Error(err)
				}
			}
		}()
		began := time.Now()
		for range sink.lasts {
			if err := <-receive(host); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 6*soon+soon/2 {
			t.Errorf("three puts took %s", took)
		}
	})
}
