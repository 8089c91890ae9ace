package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// badEvery: one record in so many is refused by the target, whatever its state. With six partitions in turn, all have some.
	badEvery = 1501

	// maxBody bounds a request; the workers' batches are far smaller.
	maxBody = 16 << 20
)

// Bad reports whether the target refuses the record, always, with 400.
func Bad(id int) bool { return id%badEvery == badEvery/2 }

// Target is an HTTP service that keeps what it gets. Its methods may be called from several goroutines.
type Target struct {
	marks
	begin  time.Time
	late   time.Duration // How long StoreLate waits before it answers.
	server *http.Server
	addr   string
	served chan struct{} // Closed when the server has ended.

	mu     sync.Mutex
	fault  Kind          // Guarded by mu, like all below; empty while well.
	share  float64       // Of the requests the fault hits.
	healed chan struct{} // Closed when the fault ends.
	events []Event
	rng    *rand.Rand // Which requests a fault hits.
	odd    []string   // The first requests that were not understood.
}

// NewTarget starts the service on a free port of 127.0.0.1. begin is the start of the run, late how long after storing a late answer
// comes. Close must be called.
func NewTarget(seed uint64, begin time.Time, late time.Duration) (*Target, error) {
	t := &Target{begin: begin, late: late, healed: make(chan struct{}), served: make(chan struct{}), rng: rand.New(rand.NewPCG(seed, 1))}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open target: %w", err)
	}
	t.addr = l.Addr().String()
	t.server = &http.Server{Handler: t, ReadHeaderTimeout: time.Minute}
	go func() {
		_ = t.server.Serve(l) // Ends by Close.
		close(t.served)
	}()
	return t, nil
}

// Close ends the service and closes its connections.
func (t *Target) Close() {
	t.Heal()
	_ = t.server.Close()
	<-t.served
}

// Address is where it listens, host and port.
func (t *Target) Address() string { return t.addr }

// Break makes it behave as the fault's kind says, for a share of the requests.
func (t *Target) Break(kind Kind, share float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fault, t.share, t.healed = kind, share, make(chan struct{})
}

// Heal makes it well again; requests that hang are cut off and have stored nothing.
func (t *Target) Heal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault != "" {
		t.fault = ""
		close(t.healed)
	}
}

// Events returns a copy of all arrivals, and the first requests that were not understood.
func (t *Target) Events() ([]Event, []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Event(nil), t.events...), append([]string(nil), t.odd...)
}

// ServeHTTP takes a request of JSON lines. A request with one bad record stores none of them.
func (t *Target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler) // The request was cut: nobody waits for an answer.
	}
	t.mu.Lock()
	kind, healed := t.fault, t.healed
	if t.share < 1 && t.rng.Float64() >= t.share {
		kind = ""
	}
	t.mu.Unlock()
	switch kind {
	case Hang:
		select {
		case <-healed:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case Unavailable:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case Throttle:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	default:
	}
	code := t.store(strings.TrimPrefix(r.URL.Path, "/"), body)
	switch kind {
	case StoreLate:
		timer := time.NewTimer(t.late)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	case StoreCut:
		panic(http.ErrAbortHandler)
	default:
	}
	w.WriteHeader(code)
}

// store keeps the records of a body, or none, and returns the answer's status.
func (t *Target) store(worker string, body []byte) int {
	at := time.Since(t.begin)
	var batch []Event
	for line := range bytes.Lines(body) {
		e, err := parseLine(line)
		if err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			if len(t.odd) < 10 {
				t.odd = append(t.odd, err.Error())
			}
			return http.StatusBadRequest
		}
		if Bad(e.ID) {
			return http.StatusBadRequest
		}
		e.At, e.Worker = at, worker
		batch = append(batch, e)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, batch...)
	for _, e := range batch {
		t.Mark(e.ID)
	}
	return http.StatusNoContent
}

// parseLine reads {"topic":"t","partition":1,"offset":2,"value":{"id":3,"pad":"…"}}. It reads by hand: thousands come a second, on the
// cores the brokers and workers need.
func parseLine(line []byte) (Event, error) {
	var e Event
	rest := line
	number := func(name string) int64 {
		_, after, ok := bytes.Cut(rest, []byte(name))
		digits := 0
		for digits < len(after) && after[digits] >= '0' && after[digits] <= '9' {
			digits++
		}
		n, err := strconv.ParseInt(string(after[:digits]), 10, 64)
		if !ok || err != nil {
			return -1
		}
		rest = after[digits:]
		return n
	}
	e.Place.Partition = int32(number(`"partition":`))
	e.Place.Offset = number(`"offset":`)
	e.ID = int(number(`"value":{"id":`))
	if e.Place.Partition < 0 || e.Place.Offset < 0 || e.ID < 0 || !bytes.HasSuffix(bytes.TrimSpace(line), []byte(`"}}`)) {
		return e, errors.New("not a record of ours: " + string(line[:min(len(line), 120)]))
	}
	return e, nil
}
