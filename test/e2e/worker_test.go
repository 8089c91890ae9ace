package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/host/rest"
	"github.com/sluicehq/sluice/test/sources"
)

// built is where the program and the plugins are, made once per test process.
var built = sync.OnceValues(build)

// build compiles the program, the plugins into plugins/ and the modules into modules/.
func build() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-e2e-")
	if err != nil {
		return "", err
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	if err := sources.Note(); err != nil {
		return dir, err
	}
	plugins, modules := filepath.Join(dir, "plugins"), filepath.Join(dir, "modules")
	for _, c := range []struct {
		env  []string
		args []string
	}{
		{nil, []string{"build", "-o", filepath.Join(dir, "sluice"), "./cmd/sluice"}},
		{nil, []string{"build", "-o", filepath.Join(plugins, "sluice-sink-file"), "./plugins/file/sluice-sink-file"}},
		{[]string{"GOOS=wasip1", "GOARCH=wasm"}, []string{"build", "-buildmode=c-shared", "-o", filepath.Join(modules, "webhook.wasm"), "./examples/plugins/wasm-http"}},
		{nil, []string{"build", "-o", filepath.Join(plugins, "sluice-sink-split"), "./examples/plugins/split/process"}},
		{[]string{"GOOS=wasip1", "GOARCH=wasm"}, []string{"build", "-buildmode=c-shared", "-o", filepath.Join(modules, "split.wasm"), "./examples/plugins/split/wasm"}},
		{nil, []string{"build", "-o", filepath.Join(plugins, "sluice-sink-poison"), "./test/e2e/testdata/poison/process"}},
		{[]string{"GOOS=wasip1", "GOARCH=wasm"}, []string{"build", "-buildmode=c-shared", "-o", filepath.Join(modules, "poison.wasm"), "./test/e2e/testdata/poison/wasm"}},
	} {
		cmd := exec.Command("go", c.args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), c.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("go %s: %w\n%s", strings.Join(c.args, " "), err, out)
		}
	}
	return dir, nil
}

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests mostly wait, for locks and outages to end: more of them at a time than there are cores.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.NumCPU())); err != nil {
		panic(err)
	}
	code := m.Run()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// worker is one worker process at a time, started again after each kill.
type worker struct {
	t      *testing.T
	dir    string // With the definitions, the state and the log.
	listen string
	cmd    *exec.Cmd
	exited chan struct{}
}

// newWorker writes the definitions. settings are further lines of the worker
// block. A worker compiles all modules it finds, so it finds none unless one is
// used.
func newWorker(t *testing.T, hcl string, settings ...string) *worker {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{t: t, dir: t.TempDir(), listen: freeAddress(t)}
	path := filepath.Join(bin, "plugins")
	if strings.Contains(hcl, `"wasm:`) {
		path = filepath.Join(bin, "modules")
	}
	if !slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, "id ") }) {
		settings = append(settings, `id = "w1"`)
	}
	head := fmt.Sprintf("worker {\n  plugin_path = [%q]\n  listen = %q\n  state_dir = %q\n  %s\n}\n",
		path, w.listen, filepath.Join(w.dir, "state"), strings.Join(settings, "\n  "))
	if err := os.WriteFile(filepath.Join(w.dir, "sluice.hcl"), []byte(head+hcl), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.kill()
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(w.dir, "log"))
			t.Logf("the worker's log, its end:\n%s", tail(b, 60))
		}
	})
	return w
}

func tail(b []byte, lines int) []byte {
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}

func freeAddress(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// start starts the process.
func (w *worker) start() {
	w.t.Helper()
	bin, _ := built()
	log, err := os.OpenFile(filepath.Join(w.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	w.cmd = exec.Command(filepath.Join(bin, "sluice"), "run", w.dir)
	w.cmd.Stdout, w.cmd.Stderr = log, log
	dieWithParent(w.cmd)
	if err := w.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait()
		close(exited)
	}(w.cmd, w.exited)
}

// kill ends the process as a crash would.
func (w *worker) kill() {
	if w.cmd == nil {
		return
	}
	_ = w.cmd.Process.Kill()
	<-w.exited
	w.cmd = nil
}

// signal sends sig to the process.
func (w *worker) signal(sig os.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(sig); err != nil {
		w.t.Fatal(err)
	}
}

// stop ends the process in order, checks its exit code and returns how long it took.
func (w *worker) stop() time.Duration {
	w.t.Helper()
	await(w.t, time.Minute, "the worker answers", func() bool { _, ok := w.get(w.t.Context(), "/healthz"); return ok })
	begin := time.Now()
	w.signal(syscall.SIGTERM)
	select {
	case <-w.exited:
	case <-time.After(40 * time.Second):
		w.t.Fatal("the worker did not stop within 40s")
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		w.t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	took := time.Since(begin)
	w.t.Logf("stopped in %.1fs", took.Seconds())
	w.cmd = nil
	return took
}

// status asks for a connector's status; false while there is no answer.
func (w *worker) status(ctx context.Context, connector string) (rest.Status, bool) {
	var s rest.Status
	body, ok := w.get(ctx, "/connectors/"+connector+"/status")
	return s, ok && json.Unmarshal(body, &s) == nil
}

func (w *worker) get(ctx context.Context, path string) ([]byte, bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.listen+path, nil)
	if err != nil {
		return nil, false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, false
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return body, err == nil && resp.StatusCode == http.StatusOK
}

// call makes a request without a body and returns the answer's code.
func (w *worker) call(t *testing.T, method, path string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.listen+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// metric sums a metric over its labels.
func (w *worker) metric(name string) float64 {
	w.t.Helper()
	return w.metricOf(name, "")
}

// metricOf sums a metric over its labels but the connector's, "" for all.
func (w *worker) metricOf(name, connector string) float64 {
	w.t.Helper()
	body, ok := w.get(w.t.Context(), "/metrics")
	if !ok {
		w.t.Fatal("the worker serves no metrics")
	}
	of := ""
	if connector != "" {
		of = fmt.Sprintf("connector=%q", connector)
	}
	sum := 0.0
	for sc := bufio.NewScanner(bytes.NewReader(body)); sc.Scan(); {
		line := sc.Text()
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, of) {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				w.t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// logged is a line of a worker's log.
type logged struct {
	Time      time.Time `json:"time"`
	Level     string    `json:"level"`
	Message   string    `json:"msg"`
	Connector string    `json:"connector"`
	Text      string    `json:"-"` // The whole line.
}

// complaints are the lines of its log of level WARN and ERROR, from a time on.
func (w *worker) complaints(from time.Time) []logged {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil {
		w.t.Fatal(err)
	}
	var out []logged
	for line := range bytes.Lines(b) {
		l := logged{Text: string(bytes.TrimSpace(line))}
		if json.Unmarshal(line, &l) == nil && (l.Level == "WARN" || l.Level == "ERROR") && !l.Time.Before(from) {
			out = append(out, l)
		}
	}
	return out
}

// await polls cond until it holds, or fails the test after limit, or thrice that: machines may be busy.
func await(t *testing.T, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	limit *= 3
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}
