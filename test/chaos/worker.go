package chaos

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopLimit bounds an ordered stop: worker.stop_timeout and a margin for a busy machine.
const stopLimit = 40 * time.Second

// counters are the metrics of the workers that are added up over all their processes.
func counters() []string {
	return []string{
		"sluice_records_acquired_total", "sluice_records_accepted_total", "sluice_records_renewed_total", "sluice_records_lost_total",
		"sluice_records_released_total", "sluice_records_retried_total", "sluice_put_errors_total", "sluice_dead_letters_total",
		"sluice_dead_letter_failures_total", "sluice_task_restarts_total",
	}
}

// openRecords is the gauge that is written down over time, beside the counters.
const openRecords = "sluice_records_open"

// worker is a "sluice run" process, started again after each kill. start, kill and stop are for one goroutine.
type worker struct {
	name, bin, dir, listen string

	cmd    *exec.Cmd
	exited chan struct{}

	mu    sync.Mutex
	last  map[string]float64 // Guarded by mu: the counters of the process that runs, and its open records.
	total map[string]float64 // Guarded by mu: those of the processes that ended, as last seen.
}

// newWorker writes the definitions to a folder of its own in dir.
func newWorker(bin, dir, name, definitions string) (*worker, error) {
	w := &worker{name: name, bin: bin, dir: filepath.Join(dir, name), last: map[string]float64{}, total: map[string]float64{}}
	var err error
	if w.listen, err = freeAddress(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of worker: %w", err)
	}
	head := fmt.Sprintf("worker {\n  id = %q\n  plugin_path = [%q]\n  listen = %q\n  state_dir = %q\n}\n",
		name, filepath.Join(bin, "plugins"), w.listen, filepath.Join(w.dir, "state"))
	if err := os.WriteFile(filepath.Join(w.dir, "sluice.hcl"), []byte(head+definitions), 0o600); err != nil {
		return nil, fmt.Errorf("write definitions: %w", err)
	}
	return w, nil
}

func freeAddress() (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// logFile is where all its processes write to.
func (w *worker) logFile() string { return filepath.Join(w.dir, "log") }

// start runs the process. It is the child of a thread that lives as long as it does: the death signal comes when the thread ends.
func (w *worker) start() error {
	log, err := os.OpenFile(w.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(w.bin, "sluice"), "run", "--log-level", "debug", w.dir)
	cmd.Stdout, cmd.Stderr = log, log
	dieWithParent(cmd)
	started, exited := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // Or the thread would end, and with it what it had started before.
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // Its state says how it ended.
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	w.cmd, w.exited = cmd, exited
	return nil
}

// signal sends sig to the process.
func (w *worker) signal(sig os.Signal) error {
	if err := w.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", w.name, err)
	}
	return nil
}

// kill ends the process as a crash would; an error if it had ended by itself.
func (w *worker) kill() error {
	if w.cmd == nil {
		return nil
	}
	err := w.ended()
	_ = w.cmd.Process.Kill()
	<-w.exited
	w.cmd = nil
	w.closeCounters()
	return err
}

// ended returns an error if the process ended by itself.
func (w *worker) ended() error {
	select {
	case <-w.exited:
		return fmt.Errorf("%s ended by itself: %v", w.name, w.cmd.ProcessState)
	default:
		return nil
	}
}

// stop ends the process in order and returns how long it took.
func (w *worker) stop() (time.Duration, error) {
	if err := w.ended(); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := w.signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-w.exited:
	case <-limit.C:
		_ = w.kill()
		return 0, fmt.Errorf("%s did not stop within %v", w.name, stopLimit)
	}
	code := w.cmd.ProcessState.ExitCode()
	w.cmd = nil
	w.closeCounters()
	if code != 0 {
		return 0, fmt.Errorf("%s ended with code %d after SIGTERM", w.name, code)
	}
	return time.Since(begin), nil
}

// read asks the process for its counters; a worker that does not answer keeps the last ones.
func (w *worker) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.listen+"/metrics", nil)
	if err != nil {
		return fmt.Errorf("ask for metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	got := map[string]float64{}
	for _, name := range append(counters(), openRecords) {
		got[name] = sum(body, name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got[counters()[0]] >= w.last[counters()[0]] { // Else the answer of a process that ended meanwhile.
		w.last = got
	}
	return nil
}

// line is what was read last, for a file of what happened when.
func (w *worker) line() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.name
	for _, name := range append(counters(), openRecords) {
		text += fmt.Sprintf(",%.0f", w.last[name])
	}
	return text
}

// sum adds up a metric over its labels.
func sum(body []byte, name string) float64 {
	total := 0.0
	for sc := bufio.NewScanner(bytes.NewReader(body)); sc.Scan(); {
		if line := sc.Text(); strings.HasPrefix(line, name+"{") {
			if v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err == nil {
				total += v
			}
		}
	}
	return total
}

// closeCounters adds those of the process that ended to the total.
func (w *worker) closeCounters() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range counters() {
		w.total[name] += w.last[name]
	}
	w.last = map[string]float64{}
}
