package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// target is where records land: it counts how often each id came.
type target interface {
	// arrived returns how many different ids are there. It is asked often, so
	// it costs no look at each record.
	arrived() int
	// counts returns how often each id from 0 to n-1 is there.
	counts(n int) []int
}

// fileTarget is a file of JSON lines. It is read on from where the last look
// ended, since the sink only appends whole lines.
type fileTarget struct {
	t        *testing.T
	path     string
	off      int64
	seen     [mostRecords]int
	distinct int
}

func (f *fileTarget) arrived() int {
	f.t.Helper()
	f.counts(0)
	return f.distinct
}

func (f *fileTarget) counts(n int) []int {
	f.t.Helper()
	file, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return f.seen[:n]
	}
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(f.off, io.SeekStart); err != nil {
		f.t.Fatal(err)
	}
	r := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil { // A line without its end was cut off by a kill, or is being written.
			return f.seen[:n]
		}
		f.off += int64(len(line))
		id, ok := idOf(line)
		if !ok || id >= len(f.seen) {
			f.t.Fatalf("not a line of ours: %.80q", line)
		}
		if f.seen[id] == 0 {
			f.distinct++
		}
		f.seen[id]++
	}
}

// idOf reads the id of a value of the harness's, with or without a line's end.
// It is quick, since counting must not fall behind writing.
func idOf(value []byte) (int, bool) {
	rest, ok := bytes.CutPrefix(value, []byte(`{"id":`))
	digits, rest, found := bytes.Cut(rest, []byte(","))
	id, err := strconv.Atoi(string(digits))
	whole := bytes.HasSuffix(bytes.TrimSuffix(rest, []byte("\n")), []byte(`"}`))
	return id, ok && found && err == nil && whole && id >= 0
}

// httpTarget is a service that takes one record per request. answer may refuse
// one; nil takes all.
type httpTarget struct {
	server *httptest.Server
	answer func(id int) int
	seen   []atomic.Int32 // Answers with a 2xx, by id.

	distinct atomic.Int64
}

func (h *httpTarget) arrived() int { return int(h.distinct.Load()) }

func newHTTPTarget(t *testing.T) *httpTarget { return newHTTPTargetOf(t, mostRecords) }

// newHTTPTargetOf is one for the ids 0 to n-1.
func newHTTPTargetOf(t *testing.T, n int) *httpTarget {
	h := &httpTarget{seen: make([]atomic.Int32, n)}
	h.server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.server.Close)
	return h
}

func (h *httpTarget) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	code := http.StatusNoContent
	for line := range bytes.Lines(body) { // One, where each record is a request.
		id, ok := idOf(line)
		if !ok || id >= len(h.seen) {
			http.Error(w, "not a record of ours", http.StatusBadRequest)
			return
		}
		if h.answer != nil {
			code = h.answer(id)
		}
		if code < 300 {
			h.store(id)
		}
	}
	w.WriteHeader(code)
}

func (h *httpTarget) store(id int) {
	if h.seen[id].Add(1) == 1 {
		h.distinct.Add(1)
	}
}

func (h *httpTarget) counts(n int) []int {
	out := make([]int, n)
	for id := range out {
		out[id] = int(h.seen[id].Load())
	}
	return out
}

// refuseOneInAThousand is an answer: ids that end in 500 are bad.
func refuseOneInAThousand(id int) int {
	if id%1000 == 500 {
		return http.StatusUnprocessableEntity
	}
	return http.StatusNoContent
}

// missing returns how many ids did not arrive, and extra how often one came
// more than once.
func missing(counts []int) (missing, extra int) {
	for _, k := range counts {
		if k == 0 {
			missing++
		} else {
			extra += k - 1
		}
	}
	return missing, extra
}
