package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// stoppedFlag is how long TestAStoppedWorkerGoesOn stops a worker; the lock is half of it, at most 30s. From 40s on the other worker has
// decided all the records when it goes on, from 50s on its membership has ended too.
var stoppedFlag = flag.Duration("stopped", 10*time.Second, "how long a worker is stopped (SIGSTOP)")

// stall is what an httpTarget's answers wait for while it is on.
type stall struct{ held atomic.Pointer[chan struct{}] }

func (s *stall) on() {
	c := make(chan struct{})
	s.held.Store(&c)
}

func (s *stall) off() {
	if c := s.held.Swap(nil); c != nil {
		close(*c)
	}
}

func (s *stall) wait() {
	if c := s.held.Load(); c != nil {
		<-*c
	}
}

// TestAStoppedWorkerGoesOn: a worker is stopped with puts on their way, for longer than its locks, while a second one takes over;
// then it goes on, with answers to read and records that are no longer its own. It accepts none of these: each record ends written,
// none more than once but for the puts that were open.
func TestAStoppedWorkerGoesOn(t *testing.T) {
	t.Parallel()
	const n, writers, batch = 20_000, 4, 100
	c := kafkatest.New(t, kafkatest.Options{Properties: shortLocks()})
	lock := min(*stoppedFlag/2, 30*time.Second)
	topic, dlq, group := c.Topic(t, 2), "dlq."+kafkatest.Name(t), kafkatest.Name(t)
	c.Produce(t, topic, 0, n, 200)
	dst := newHTTPTarget(t)
	var target stall
	t.Cleanup(target.off) // The service cannot close before.
	dst.answer = func(int) int {
		target.wait()
		return http.StatusNoContent
	}
	text := definitions(c, topic, group, httpSink(dst.server.URL, dlq, fmt.Sprintf(`parallelism = %d
  batch {
    max_records = %d
  }
  share {
    acquisition_lock_timeout = %q
  }`, writers, batch, lock)))
	stopped, other := newWorker(t, text), newWorker(t, text)
	stopped.start()
	await(t, time.Minute, "records flow", func() bool { return dst.arrived() > n/20 })
	target.on()
	held, same := 0.0, 0
	await(t, 30*time.Second, "every writer waits and no more is fetched", func() bool {
		now := stopped.metric("sluice_records_open")
		if same++; now != held {
			held, same = now, 0
		}
		return held > writers*batch && same > 20
	})
	stopped.signal(syscall.SIGSTOP)
	at := time.Now()
	target.off() // What was on its way is stored; the answers wait in the stopped worker's sockets.
	other.start()
	await(t, lock+time.Minute, "the other worker gets what the stopped one held", func() bool {
		_, ok := other.get(t.Context(), "/healthz")
		return ok && other.metric("sluice_records_redelivered_total") > 0
	})
	took := time.Since(at)
	if left := *stoppedFlag - took; left < 15*time.Second { // It holds them still when the stopped one goes on. Not longer than requests may take.
		target.on()
	}
	pause(t, *stoppedFlag-time.Since(at))
	stopped.signal(syscall.SIGCONT)
	await(t, time.Minute, "the stopped worker knows what it has lost, or that all is done", func() bool {
		_, ok := stopped.get(t.Context(), "/healthz")
		return ok && (stopped.metric("sluice_records_lost_total") > 0 || stopped.metric("sluice_records_open") == 0)
	})
	target.off()
	await(t, 2*time.Minute, "every record arrives", func() bool { return dst.arrived() == n })
	awaitDrained(t, c, group)
	lost, others := stopped.metric("sluice_records_lost_total"), other.metric("sluice_records_lost_total")
	accepted := stopped.metric("sluice_records_accepted_total") + other.metric("sluice_records_accepted_total")
	highest := max(stopped.metric("sluice_delivery_count_highest"), other.metric("sluice_delivery_count_highest"))
	stopped.stop()
	other.stop()
	_, extra := missing(dst.counts(n))
	t.Logf("stopped for %s holding %.0f records with a lock of %s: the other had the first of them after %.1fs, it noticed the loss of %.0f; "+
		"%d written twice, accepts confirmed %.0f for %d records, highest delivery count %.0f, the other lost %.0f",
		time.Since(at).Round(time.Second), held, lock, took.Seconds(), lost, extra, accepted, n, highest, others)
	if bound := writers*batch + int(others); extra > bound {
		t.Errorf("%d records were written twice, want at most the %d of open puts", extra, bound)
	}
	if highest > 2 {
		t.Errorf("a record was delivered %.0f times, want 2 at most", highest)
	}
	if letters := c.ReadAll(t, dlq); len(letters) != 0 {
		t.Errorf("%d dead letters, want none", len(letters))
	}
}

// TestAnOrderedStopUnderLoad ends within stop_timeout, with a target that leaves some requests without an answer. What was not
// written comes to another worker at its next fetch, long before a lock would end.
func TestAnOrderedStopUnderLoad(t *testing.T) {
	t.Parallel()
	const n, lock, stopTimeout = 20_000, 60 * time.Second, 6 * time.Second
	c := kafkatest.Shared(t)
	for _, kind := range []string{"sibling", "successor"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			topic, dlq, group := c.Topic(t, 2), "dlq."+kafkatest.Name(t), kafkatest.Name(t)
			c.Produce(t, topic, 0, n, 200)
			first, second := newHTTPTarget(t), newHTTPTarget(t) // Each worker has one, to tell who wrote what.
			var silent stall
			silent.on()
			t.Cleanup(silent.off)
			var unanswered atomic.Int64
			first.answer = func(id int) int {
				if id%200 == 7 { // Without an answer, and not stored.
					unanswered.Add(1)
					silent.wait()
					return http.StatusServiceUnavailable
				}
				return http.StatusNoContent
			}
			text := func(dst *httpTarget) string {
				return definitions(c, topic, group, httpSink(dst.server.URL, dlq, fmt.Sprintf(`parallelism = 4
  batch {
    max_records = 200
  }
  share {
    acquisition_lock_timeout = %q
  }`, lock)))
			}
			settings := fmt.Sprintf("stop_timeout = %q", stopTimeout)
			w, next := newWorker(t, text(first), settings), newWorker(t, text(second), settings)
			w.start()
			await(t, time.Minute, "the worker holds records and waits for answers", func() bool {
				_, ok := w.get(t.Context(), "/healthz")
				return ok && unanswered.Load() >= 4 && w.metric("sluice_records_open") > 1000
			})
			if kind == "sibling" {
				next.start()
				await(t, time.Minute, "the other worker has partitions too", func() bool { return readers(t, c, group) == 2 })
			}
			held := w.metric("sluice_records_open")
			took := w.stop()
			exit := time.Now()
			written := first.counts(n)
			left, ok := lag(t, c, group)
			if kind == "successor" {
				if got, _ := missing(written); !ok || left < int64(got) {
					t.Errorf("the group has %d records left (told: %v) of %d that were not written: some were acknowledged", left, ok, got)
				}
				next.start()
			}
			await(t, time.Minute, "a record that was given back comes again", func() bool {
				_, ok := next.get(t.Context(), "/healthz")
				return ok && next.metric("sluice_records_redelivered_total") > 0
			})
			again := time.Since(exit)
			await(t, time.Minute, "every record is written by one of them", func() bool {
				both := 0
				for id, k := range second.counts(n) {
					if k+written[id] > 0 {
						both++
					}
				}
				return both == n
			})
			awaitDrained(t, c, group)
			highest := next.metric("sluice_delivery_count_highest")
			next.stop()
			copies := 0
			for id, k := range second.counts(n) {
				copies += k + written[id] - 1
			}
			t.Logf("stopped in %.1fs holding %.0f; given back records came after %.2fs, with a lock of %s; highest delivery count %.0f, %d copies",
				took.Seconds(), held, again.Seconds(), lock, highest, copies)
			if took > stopTimeout+time.Second {
				t.Errorf("the worker stopped in %s, want within %s", took, stopTimeout)
			}
			if again > lock/3 {
				t.Errorf("the first record came again after %s, want long before the lock of %s ends", again, lock)
			}
			if copies > 0 || highest != 2 {
				t.Errorf("%d copies, highest delivery count %.0f; want none and 2", copies, highest)
			}
		})
	}
}
