package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sluice is a worker with one connector and a sink in one form, and in a folder of that name: "builtin", "process", "wasm-go" or "wasm-c"
// for the drop sink, "process-refuse" or "wasm-refuse" for the one that refuses. A job
// with several workers makes as many processes of it, in one group.
func sluice(form, protocol string) subject {
	return func(ctx context.Context, l *lab, j job, group string, m *marks) (sample, error) {
		var w workers
		for i := range max(j.workers, 1) {
			address, err := freeAddress()
			if err != nil {
				w.kill()
				return newSample(), err
			}
			c, err := l.startWorker(m, address, fmt.Sprintf("bench-%d", i), form, l.definitions(form, protocol, j, group))
			if err != nil {
				w.kill()
				return newSample(), err
			}
			w.children, w.addresses = append(w.children, c), append(w.addresses, address)
		}
		err := w.watch(ctx, m, j)
		s, unclear := conclude(w.children[0], m, syscall.SIGTERM)
		if err == nil {
			err = unclear
		}
		log := w.children[0].stderr.bytes()
		for _, c := range w.children[1:] {
			s.cpu += c.end(syscall.SIGTERM, endLimit)
			log = append(log, c.stderr.bytes()...)
		}
		if err == nil && j.copies == "" {
			err = readLog(log, m, &s)
		}
		if err != nil {
			err = fmt.Errorf("%w; the end of a worker's log:\n%s", err, w.children[0].stderr.tail(20))
		}
		return s, err
	}
}

// workers are the processes of one run.
type workers struct {
	children  []*child
	addresses []string // Where each one's metrics are.
}

func (w *workers) kill() {
	for _, c := range w.children {
		c.end(syscall.SIGKILL, endLimit)
	}
}

// definitions is a connector with the job's settings.
func (l *lab) definitions(form, protocol string, j job, group string) string {
	maxWait := j.maxWait
	if maxWait == "" {
		maxWait = "50ms"
	}
	settings := ""
	if j.delay > 0 { // In C there are no settings.
		settings = fmt.Sprintf("delay = %q", j.delay)
	}
	if j.slowEvery > 0 {
		settings += fmt.Sprintf("\n    slow_every = %d\n    slow_for = %q", j.slowEvery, j.slowFor)
	}
	if j.rate > 0 {
		settings += "\n    ages = true"
	}
	if j.refuseEvery > 0 {
		settings += fmt.Sprintf("\n    refuse_every = %d", j.refuseEvery)
	}
	kind, _, _ := strings.Cut(form, "-")
	sink, queue, semantics := "drop", "", "at-least-once"
	if j.copies != "" {
		sink, semantics, settings = "kafka", j.copies, fmt.Sprintf("topic = %q", copiesTo(group))
	}
	if j.sink != "" {
		sink, queue = j.sink, fmt.Sprintf("dead_letter_queue {\n    topic = %q\n  }\n  errors {\n    log = false\n  }", "dlq."+group)
	}
	return fmt.Sprintf(`
connector "bench" {
  sink           = "%s:%s"
  topics         = [%q]
  group_protocol = %q
  group_id       = %q
  tasks          = %d
  parallelism    = %d
  delivery_semantics = %q
  batch {
    max_records = %d
    max_wait    = %q
  }
  %s
  config {
    %s
  }
}
`, kind, sink, j.topic, protocol, group, j.tasks, j.writers, semantics, cmp.Or(j.batch, 500), maxWait, queue, settings)
}

// startWorker runs "sluice run" with the definitions. Compiled modules are kept from run to run, as they are on a user's machine.
func (l *lab) startWorker(m *marks, address, id, form, definitions string) (*child, error) {
	head := fmt.Sprintf("worker {\n  id = %q\n  listen = %q\n  plugin_path = [%q]\n  state_dir = %q\n}\n\nkafka \"bench\" {\n  bootstrap = [%q]\n}\n",
		id, address, l.plugins(form), filepath.Join(l.dir, "state", id), l.bootstrap)
	file := filepath.Join(l.dir, id+".hcl")
	if err := os.WriteFile(file, []byte(head+definitions), 0o600); err != nil {
		return nil, err
	}
	return start(m, func(string) {}, nil, l.program("sluice"), "run", file)
}

// watch reads the workers' metrics until the job is done, and then until the broker has confirmed what was put. It looks seldom,
// since that costs a worker time: the log has the exact times.
func (w *workers) watch(ctx context.Context, m *marks, j job) error {
	c := w.children[0]
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	confirm, over := false, false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return fmt.Errorf("the worker ended: %w", c.err)
		case <-limit.C:
			over = true
		case <-tick.C:
		}
		metrics, err := scrape(ctx, w.addresses...)
		if err != nil && !over {
			continue // One starts, or is busy.
		}
		put, accepted := int64(metrics["sluice_put_batch_records_sum"]), int64(metrics["sluice_records_accepted_total"])
		began := put > 0
		switch {
		case confirm && (accepted >= min(put, j.records) || over):
			if accepted < min(put, j.records) {
				return fmt.Errorf("the broker confirmed %d records of %d", accepted, put)
			}
			return nil
		case confirm:
		case !began && over:
			return fmt.Errorf("no record within %s", startLimit)
		case put >= j.records || over:
			m.end(time.Now(), put)
			if j.slowEvery > 0 || j.rate > 0 {
				return nil // There are always records under way.
			}
			confirm, over = true, false
			limit.Reset(20 * time.Second)
		case began && !m.hasBegun():
			m.begin(time.Now())
			limit.Reset(j.limit)
		}
		if put >= j.records/2 {
			m.halved(put)
		}
	}
}

// readLog takes the times and counts of the sinks from the worker's log: they are exact, the watcher looks ten times a second.
func readLog(log []byte, m *marks, s *sample) error {
	var records int64
	var first, last time.Time
	for sc := bufio.NewScanner(bytes.NewReader(log)); sc.Scan(); {
		msg, attrs := logLine(sc.Bytes())
		switch msg {
		case "records dropped":
			n, err := strconv.ParseInt(attrs["records"], 10, 64)
			if err == nil && n == 0 {
				continue
			}
			from, err1 := time.Parse(time.RFC3339Nano, attrs["first_put"])
			to, err2 := time.Parse(time.RFC3339Nano, attrs["last_put"])
			if err := errors.Join(err, err1, err2); err != nil {
				return fmt.Errorf("read the sink's log: %w", err)
			}
			records += n
			if first.IsZero() || from.Before(first) {
				first = from
			}
			if to.After(last) {
				last = to
			}
		case "ages of records":
			p50, err1 := time.ParseDuration(attrs["p50"])
			p99, err2 := time.ParseDuration(attrs["p99"])
			if err := errors.Join(err1, err2); err != nil {
				return fmt.Errorf("read the sink's log: %w", err)
			}
			s.p50, s.p99 = p50.Seconds(), p99.Seconds()
		}
	}
	if records == 0 {
		return errors.New("no sink said how many records it had")
	}
	s.records, s.span, s.start = float64(records), last.Sub(first).Seconds(), first.Sub(m.started).Seconds()
	return nil
}

// logLine reads a line of the log: its message, and its attributes as text. What a WASM sink logs is one attribute: its line.
func logLine(line []byte) (msg string, attrs map[string]string) {
	var fields map[string]any
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	if dec.Decode(&fields) != nil {
		return "", nil
	}
	attrs = map[string]string{}
	for k, v := range fields {
		attrs[k] = fmt.Sprint(v)
	}
	var words []string
	text := attrs["msg"]
	if text == "plugin output" {
		text = attrs["line"]
	}
	for word := range strings.FieldsSeq(text) {
		if k, v, ok := strings.Cut(word, "="); ok {
			attrs[k] = v
		} else {
			words = append(words, word)
		}
	}
	return strings.Join(words, " "), attrs
}

// scrape reads the metrics of workers: the sum over all labels and workers of each.
func scrape(ctx context.Context, addresses ...string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	sums := map[string]float64{}
	for _, address := range addresses {
		if err := scrapeOne(ctx, address, sums); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

func scrapeOne(ctx context.Context, address string, sums map[string]float64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("metrics: %s", resp.Status)
	}
	for sc := bufio.NewScanner(io.LimitReader(resp.Body, 64<<20)); sc.Scan(); {
		line := sc.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:i], "{")
		if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			sums[name] += v
		}
	}
	return nil
}

// freeAddress is a loopback address that nobody listened on a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
