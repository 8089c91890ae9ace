package e2e

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// throttleFlag is how long the target of TestAThrottlingTarget throttles. From a minute on retry.max_elapsed is the default, 5m.
var throttleFlag = flag.Duration("throttle", 12*time.Second, "how long a target answers 429 to half of the requests; a minute or more: with the default of retry.max_elapsed")

// TestAThrottlingTarget answers 429 with Retry-After: 1 to half of the requests, in one case to every one with a certain record, for longer
// than retry.max_elapsed. Nothing is dead-lettered, all is written, once, and no put begins before the time asked for.
func TestAThrottlingTarget(t *testing.T) {
	t.Parallel()
	const ahead, batch = 200, 10
	c := kafkatest.Shared(t)
	elapsed := 5 * time.Minute
	if *throttleFlag < time.Minute {
		elapsed = *throttleFlag / 4
	}
	for _, tt := range []struct {
		name              string
		writers, stubborn int // The record that is refused each time, if there is one.
	}{
		{"half, 1 writer", 1, -1},
		{"half, 4 writers", 4, -1},
		{"one record", 4, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			writers, stubborn := tt.writers, tt.stubborn
			topic, dlq, group := c.Topic(t, 4), "dlq."+kafkatest.Name(t), kafkatest.Name(t)
			dst := newThrottler(t, writers, stubborn)
			w := newWorker(t, definitions(c, topic, group, fmt.Sprintf(`group_protocol = "share"
  sink        = "builtin:http"
  parallelism = %d
  batch {
    max_records = %d
  }
  share {
    max_record_locks         = 4000 // The record that is refused all the time stops its partition after so many.
    acquisition_lock_timeout = "15s"
  }
  retry {
    max_elapsed = %q
  }
  dead_letter_queue {
    topic = %q
  }
  config {
    url  = %q
    body = "ndjson" // A put is a request.
  }`, writers, batch, elapsed, dlq, dst.server.URL)))
			produced := 0
			offer := func() {
				if n := dst.arrived() + ahead - produced; n > ahead/4 {
					c.Produce(t, topic, produced, n, 200)
					produced += n
				}
			}
			offer()
			w.start()
			await(t, time.Minute, "the target throttles", func() bool { return dst.waves() > 0 })
			degraded, end := false, time.Now().Add(*throttleFlag)
			await(t, *throttleFlag+time.Minute, "the time passes", func() bool {
				offer()
				s, ok := w.status(t.Context(), "c")
				if degraded = degraded || ok && s.Tasks[0].Degraded != ""; ok && s.Tasks[0].State == "FAILED" {
					t.Fatalf("status is %+v", s)
				}
				return time.Now().After(end)
			})
			if down := w.metric("sluice_target_down"); down != 0 || !degraded {
				t.Errorf("target_down is %.0f and the status was degraded: %v; want 0 and true: a target that throttles is slow, not away", down, degraded)
			}
			written := dst.arrived()
			dst.over.Store(true)
			await(t, time.Minute, "every record arrives", func() bool { return dst.arrived() == produced })
			letters, highest := w.metric("sluice_dead_letters_total"), w.metric("sluice_delivery_count_highest")
			w.stop()
			awaitDrained(t, c, group)
			dst.mu.Lock()
			defer dst.mu.Unlock()
			t.Logf("%d records in %s, %d requests, %d of them answered 429 in %d waves; the stubborn record was refused %d times in %s; "+
				"the earliest request after a 429 came %.1f ms after what it asked for; at most %d requests of one wave were on their way already; highest delivery count %.0f",
				written, *throttleFlag, dst.requests, dst.refused, dst.wave, dst.stubborn, dst.last.Sub(dst.first), dst.earliest.Seconds()*1e3, dst.mostEarly, highest)
			if letters != 0 || highest != 0 {
				t.Errorf("%.0f dead letters, highest delivery count of a record that came again %.0f; want none", letters, highest)
			}
			if _, extra := missing(dst.counts(produced)); extra > 0 {
				t.Errorf("%d records came twice", extra)
			}
			// With several writers some are on their way, and a writer that hears of a success goes on before another hears of its 429.
			if most := 4 * (writers - 1); dst.mostEarly > most {
				t.Errorf("%d requests came in one wave before the target had allowed one, want at most %d", dst.mostEarly, most)
			}
			if took := dst.last.Sub(dst.first); stubborn >= 0 && took <= elapsed {
				t.Errorf("a record was refused for %s, want longer than retry.max_elapsed, %s", took, elapsed)
			}
			if dst.wave < int(throttleFlag.Seconds())/4 || written < dst.wave*batch/3 { // A put in each wave, on average, if the target is free to take it.
				t.Errorf("%d records were written in %d waves of refusals in %s: too few", written, dst.wave, *throttleFlag)
			}
		})
	}
}

// throttler is an httpTarget of requests of many records that answers 429 with Retry-After: 1 to half of them.
type throttler struct {
	httpTarget
	over atomic.Bool // Everything is taken.
	id   int         // Refused until then.

	mu        sync.Mutex
	random    *rand.Rand
	requests  int
	refused   int
	stubborn  int // Requests with the record that is always refused, and when.
	first     time.Time
	last      time.Time
	wave      int           // 429s that follow each other in less than they ask for are one wave.
	until     time.Time     // When the wave allows a request.
	early     int           // Requests of the wave that came before that.
	mostEarly int           // The most of one wave.
	earliest  time.Duration // The least time between what a wave allowed and the first request after it.
}

func newThrottler(t *testing.T, seed, id int) *throttler {
	h := &throttler{
		httpTarget: httpTarget{seen: make([]atomic.Int32, records)}, id: id, random: rand.New(rand.NewPCG(uint64(seed), 1)), earliest: time.Hour,
	}
	h.server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.server.Close)
	return h
}

func (h *throttler) waves() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wave
}

func (h *throttler) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var ids []int
	for line := range bytes.Lines(body) {
		id, ok := idOf(line)
		if !ok || id >= len(h.seen) {
			http.Error(w, "not a record of ours", http.StatusBadRequest)
			return
		}
		ids = append(ids, id)
	}
	if h.takes(ids) {
		for _, id := range ids {
			h.store(id)
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
}

// takes decides on a request and notes when it came.
func (h *throttler) takes(ids []int) bool {
	const ask, tolerance = time.Second, 5 * time.Millisecond
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over.Load() {
		return true
	}
	now := time.Now()
	h.requests++
	if now.Before(h.until.Add(-tolerance)) {
		h.early++
		h.mostEarly = max(h.mostEarly, h.early)
	} else if !h.until.IsZero() && h.refused > 0 {
		h.earliest = min(h.earliest, now.Sub(h.until))
	}
	refuse := h.random.IntN(2) == 0
	for _, id := range ids {
		if id == h.id {
			if refuse = true; h.first.IsZero() {
				h.first = now
			}
			h.stubborn++
			h.last = now
		}
	}
	if refuse {
		h.refused++
		if !now.Before(h.until) {
			h.wave++
			h.early = 0
		}
		h.until = now.Add(ask)
	}
	return !refuse
}
