package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/host"
	"github.com/sluicehq/sluice/test/kafkatest"
)

// convertRecords is how many records the conversion test has, in two partitions
// by turns.
const convertRecords = 6000

// counter is a service that takes records, some of them, and counts them.
type counter struct {
	server *httptest.Server

	mu       sync.Mutex
	takes    func(id int) bool // Guarded by mu.
	seen     [convertRecords]int
	distinct int
}

func newCounter(t *testing.T) *counter {
	c := &counter{}
	c.server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.server.Close)
	return c
}

func (c *counter) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := kafkatest.ID(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.takes(id) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if c.seen[id]++; c.seen[id] == 1 {
		c.distinct++
	}
}

// accept says which records are taken from now on.
func (c *counter) accept(takes func(id int) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takes = takes
}

// counts returns how many records are there, and how often one came again.
func (c *counter) counts() (distinct, again int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.seen {
		again += max(0, n-1)
	}
	return c.distinct, again
}

// conversion is a connector that is run in one mode after the other.
type conversion struct {
	t       *testing.T
	dir     string
	body    string // The connector's, without the group protocol.
	counter *counter
}

// define writes the definitions with a group protocol.
func (c *conversion) define(protocol string) {
	c.t.Helper()
	text := strings.Replace(c.body, "PROTOCOL", protocol, 1)
	if err := os.WriteFile(filepath.Join(c.dir, "sluice.hcl"), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// run runs a worker until the target has n records, calls during if there is
// one, and stops the worker in order.
func (c *conversion) run(n int, during func()) {
	c.t.Helper()
	var log bytes.Buffer
	cmd := exec.CommandContext(c.t.Context(), "sluice", "run", c.dir)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	timeout := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	got := 0
	for got < n {
		select {
		case err := <-exited:
			c.t.Fatalf("the worker ended: %v\n%s", err, log.String())
		case <-timeout:
			_ = cmd.Process.Kill()
			err := <-exited
			c.t.Fatalf("the target has %d records, want %d; the worker ended with %v\n%s", got, n, err, log.String())
		case <-tick.C:
			got, _ = c.counter.counts()
		}
	}
	if during != nil {
		during()
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if err := <-exited; err != nil {
		c.t.Errorf("the worker ended with %v\n%s", err, log.String())
	}
	if got, _ := c.counter.counts(); got != n {
		c.t.Errorf("the target has %d records, want %d", got, n)
	}
}

// convert runs "sluice group convert" and returns its exit code, what it
// printed as JSON, and its errors.
func (c *conversion) convert(to string) (code int, out host.ConvertedGroup, stderr string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sluice", "group", "convert", "orders", "--to", to, "-c", c.dir, "-o", "json")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), out, errs.String()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		c.t.Fatalf("%v in %s", err, text)
	}
	return 0, out, errs.String()
}

// A connector is stopped half-way, converted, run in share mode, stopped while
// records are open between decided ones, converted back, and run: all records
// are at the target, and what came twice was announced.
func TestGroupConvert(t *testing.T) {
	cluster := kafkatest.Shared(t)
	topic := cluster.Topic(t, 2)
	const half, most = convertRecords / 3, 2 * convertRecords / 3
	cluster.Produce(t, topic, 0, most, 200)
	c := &conversion{t: t, dir: t.TempDir(), counter: newCounter(t)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c.body = fmt.Sprintf(`worker {
  listen       = %q
  stop_timeout = "7s"
  state_dir    = "state"
}
kafka "main" {
  bootstrap = [%q]
}
connector "orders" {
  sink           = "http"
  topics         = [%q]
  group_id       = %q
  group_protocol = "PROTOCOL"
  parallelism    = 4
  retry {
    max = "1s"
  }
  batch {
    max_records = 50
  }
  config {
    url = %q
  }
}
`, listen, cluster.Bootstrap()[0], topic, kafkatest.Name(t), c.counter.server.URL)
	c.define("consumer")
	if code, out, _ := c.convert("share"); code != 0 || out.Result != host.GroupMissing {
		t.Errorf("got %d, %+v, want that there is no group", code, out)
	}
	c.counter.accept(func(id int) bool { return id < half })
	c.run(half, func() {
		code, _, stderr := c.convert("share")
		if code != exitFailed || !strings.Contains(stderr, "has 1 member: stop connector \"orders\" in every worker first") {
			t.Errorf("got %d, %q, want it refused", code, stderr)
		}
	})
	if code, out, _ := c.convert("consumer"); code != 0 || out.Result != host.GroupUnchanged {
		t.Errorf("got %d, %+v, want nothing done", code, out)
	}
	code, there, stderr := c.convert("share")
	if code != 0 || there.Result != host.GroupConverted || len(there.Positions) != 2 {
		t.Fatalf("got %d, %+v, %s", code, there, stderr)
	}
	for _, p := range there.Positions {
		if p.Offset != half/2 || p.Twice != 0 {
			t.Errorf("got %+v, want it to start at %d", p, half/2)
		}
	}

	c.define("share")
	c.counter.accept(func(id int) bool { return id < half+500 || id >= half+520 }) // Ten of each partition stay open.
	c.run(most-20, nil)
	if _, again := c.counter.counts(); again != 0 {
		t.Errorf("%d records came twice, want none: none was announced", again)
	}
	code, back, stderr := c.convert("consumer")
	if code != 0 || back.Result != host.GroupConverted {
		t.Fatalf("got %d, %+v, %s", code, back, stderr)
	}
	if back.Twice == 0 {
		t.Errorf("got %+v, want what was decided above open records to be announced", back)
	}

	c.define("consumer")
	c.counter.accept(func(int) bool { return true })
	cluster.Produce(t, topic, most, convertRecords-most, 200)
	c.run(convertRecords, nil)
	_, again := c.counter.counts()
	if int64(again) > back.Twice {
		t.Errorf("%d records came twice, at most %d were announced", again, back.Twice)
	}
	t.Logf("%d records came twice, at most %d were announced", again, back.Twice)
}
