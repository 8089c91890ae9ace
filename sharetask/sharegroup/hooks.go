package sharegroup

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hooks is what the client tells the source on its own goroutines.
type hooks struct{ s *Source }

var (
	_ kgo.HookFetchRecordBuffered = hooks{}
	_ kgo.HookBrokerE2E           = hooks{}
)

// OnFetchRecordBuffered takes a record over. The client calls it for each
// record of a fetch in turn, then counts them as buffered, then makes them
// ready for a poll. At the first record the poll under way, if there is one, is
// ended and waited for, so that no poll can return this fetch.
func (h hooks) OnFetchRecordBuffered(r *kgo.Record) {
	if len(h.s.incoming) == 0 {
		h.s.beginArrival()
	}
	h.s.incoming = append(h.s.incoming, r)
}

func (s *Source) beginArrival() {
	s.mu.Lock()
	s.arriving = true
	s.fetch.last = s.fetch.current
	done := s.pollDone
	if s.pollStop != nil {
		s.pollStop()
	}
	s.mu.Unlock()
	if done != nil {
		<-done
	}
	s.signal()
}

var (
	shareFetchKey     = kmsg.NewPtrShareFetchRequest().Key()
	shareHeartbeatKey = kmsg.NewPtrShareGroupHeartbeatRequest().Key()
)

// OnBrokerE2E notes when a fetch was sent and answered, and counts heartbeats.
// Of a fetch that brings records it is called before those are buffered.
func (h hooks) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key != shareFetchKey && key != shareHeartbeatKey {
		return
	}
	now := time.Now()
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if key == shareFetchKey {
		s.fetch.current = roundTrip{sent: now.Add(-e2e.DurationE2E()), answered: now}
		return
	}
	if s.beats.count(now) {
		if s.pollStop != nil {
			s.pollStop()
		}
		s.signal()
	}
}

// roundTrip is when a request was sent and answered, by our clock.
type roundTrip struct{ sent, answered time.Time }

// fetchTimes is what is known of the fetches. There is one at a time.
type fetchTimes struct {
	current     roundTrip // The latest that was answered.
	last        roundTrip // The one that brought what is in the buffer.
	recordBytes int64     // Average size of the records fetched lately; 0 before the first.
}

// beatRate notices a client that heartbeats as fast as it can, which is all
// that shows when the coordinator refuses the group's kind.
type beatRate struct {
	since time.Time
	n     int
	spins bool // Set by count, cleared by whoever looked into it.
}

// spinning is how many heartbeats in a second are too many; normal is one
// every few seconds.
const spinning = 20

func (b *beatRate) count(now time.Time) bool {
	if now.Sub(b.since) > time.Second {
		b.since, b.n = now, 0
	}
	b.n++
	if b.n != spinning {
		return false
	}
	b.spins = true
	return true
}

// clientLog passes the client's log on, a level lower: what it calls
// informative is about requests.
type clientLog struct{ log *slog.Logger }

var _ kgo.Logger = clientLog{}

// Level returns the most that is logged.
func (l clientLog) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelWarn
}

// Log logs one message of the client.
func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelDebug
	if level == kgo.LogLevelError || level == kgo.LogLevelWarn {
		to = slog.LevelWarn
	}
	l.log.Log(context.Background(), to, "kafka client reports", append([]any{"report", msg}, keyvals...)...)
}
