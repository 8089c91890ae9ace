package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/host/devbroker"
	"github.com/sluicehq/sluice/host/rest"
	"github.com/sluicehq/sluice/loader"
	"github.com/sluicehq/sluice/pluginapi"
)

func TestMain(m *testing.M) {
	// The clock of sarama's metrics is one for the process and never stops.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// canary is a secret that must not be seen anywhere.
const canary = "s3cr3t-canary"

// testSinks is a builtin plugin "test" whose sinks do what their settings say.
type testSinks struct {
	mu      sync.Mutex
	stored  map[string][]string // Values by connector. Guarded by mu.
	events  []string            // In order. Guarded by mu.
	changed chan struct{}       // Has one element after a change.
}

func newTestSinks() *testSinks {
	return &testSinks{stored: make(map[string][]string), changed: make(chan struct{}, 1)}
}

func (s *testSinks) plugin() pluginapi.Plugin {
	return pluginapi.Plugin{
		Name: "test", Version: "1.2.3", Summary: "Does what its settings say", Form: pluginapi.FormBytes,
		Settings: []pluginapi.Setting{
			{Name: "start", Type: pluginapi.String, Help: "Class of the error of Start."},
			{Name: "put", Type: pluginapi.String, Help: "Class of the error of Put."},
			{Name: "dsn", Type: pluginapi.String, Secret: true, Help: "A secret."},
		},
		New: func() pluginapi.Sink { return &testSink{all: s} },
	}
}

func (s *testSinks) note(event, connector string, values ...string) {
	s.mu.Lock()
	s.events = append(s.events, event+" "+connector)
	s.stored[connector] = append(s.stored[connector], values...)
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// await waits until connector has stored n values.
func (s *testSinks) await(t *testing.T, connector string, n int) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		s.mu.Lock()
		got := len(s.stored[connector])
		s.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-s.changed:
		case <-timeout:
			t.Fatalf("%s stored %d records, want %d", connector, got, n)
		}
	}
}

type testSink struct {
	all *testSinks
	cfg pluginapi.Config
}

// class is the error a setting asks for; it quotes the secret, as drivers do.
func (s *testSink) class(setting string) error {
	text, _ := s.cfg.Values[setting].(string)
	for c := pluginapi.Transient; c <= pluginapi.Invalid; c++ {
		if c.String() == text {
			return pluginapi.NewError(c, "test", fmt.Sprintf("cannot use dsn %v", s.cfg.Values["dsn"]))
		}
	}
	return nil
}

func (s *testSink) Start(_ context.Context, cfg pluginapi.Config) error {
	s.cfg = cfg
	cfg.Logger.Info("starting", "dsn", cfg.Values["dsn"], "err", fmt.Errorf("dsn %v", cfg.Values["dsn"]))
	s.all.note("start", cfg.Connector)
	return s.class("start")
}

func (s *testSink) Put(_ context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	if err := s.class("put"); err != nil {
		return nil, err
	}
	results := make([]pluginapi.Result, len(batch))
	values := make([]string, len(batch))
	for i := range batch {
		results[i].Outcome = pluginapi.Accept
		value, _ := batch[i].Value.Bytes()
		values[i] = string(value)
	}
	s.all.note("put", s.cfg.Connector, values...)
	return results, nil
}

func (s *testSink) Stop(context.Context) error {
	s.all.note("stop", s.cfg.Connector)
	return nil
}

// safeBuffer is a buffer logs are written to and read from at once.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// fixture is a running worker.
type fixture struct {
	broker *devbroker.Broker
	sinks  *testSinks
	log    *safeBuffer
	url    string
	client *http.Client
	stop   func() error // Ends the worker in order; once.
}

// startWorker runs the definitions on an embedded broker with the topics t1
// and t2. dev false leaves the kafka blocks as they are written.
func startWorker(t *testing.T, dev bool, definitions string) *fixture {
	t.Helper()
	f := &fixture{sinks: newTestSinks(), log: &safeBuffer{}}
	f.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	var err error
	if f.broker, err = devbroker.Start(t.Context(), []string{"t1", "t2"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.broker.Close)
	file := filepath.Join(t.TempDir(), "test.hcl")
	text := "worker {\n  id = \"w1\"\n  listen = \"127.0.0.1:0\"\n}\n" + definitions
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load([]string{file}, config.Env{Dev: dev})
	log := slog.New(slog.NewJSONHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	catalog := loader.NewCatalog(loader.CatalogOptions{Builtins: []pluginapi.Plugin{f.sinks.plugin()}, Logger: log})
	var bootstrap []string
	if dev {
		bootstrap = f.broker.Bootstrap()
	}
	bound, more := Bind(t.Context(), cfg, catalog, bootstrap)
	if diags = append(diags, more...); diags.HasErrors() {
		for _, d := range diags {
			t.Error(d)
		}
		t.FailNow()
	}
	w, err := New(t.Context(), Options{Config: cfg, Bound: bound, Logger: log, Version: "v1", Commit: "abc"})
	if err != nil {
		t.Fatal(err)
	}
	f.url = "http://" + w.Addr()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	f.stop = sync.OnceValue(func() error {
		cancel()
		err := <-done
		catalog.Close()
		return err
	})
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return f
}

func (f *fixture) get(t *testing.T, path string) string {
	t.Helper()
	res, err := f.client.Get(f.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// await asks for a connector's status until ok says yes.
func (f *fixture) await(t *testing.T, connector string, ok func(rest.Status) bool) rest.Status {
	t.Helper()
	timeout := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		body := f.get(t, "/connectors/"+connector+"/status")
		var s rest.Status
		if err := json.Unmarshal([]byte(body), &s); err != nil {
			t.Fatal(err)
		}
		if ok(s) {
			return s
		}
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("waited in vain for %s: %s\n%s", connector, body, f.log)
		}
	}
}

func (f *fixture) produce(t *testing.T, topic string, values ...string) {
	t.Helper()
	for _, v := range values {
		if err := f.broker.Produce(t.Context(), topic, nil, []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
}

func definition(name, protocol, topic, rest string) string {
	return fmt.Sprintf("connector %q {\n  sink = \"test\"\n  topics = [%q]\n  group_protocol = %q\n%s\n}\n", name, topic, protocol, rest)
}

func taskIs(state string) func(rest.Status) bool {
	return func(s rest.Status) bool { return len(s.Tasks) > 0 && s.Tasks[0].State == state }
}

func TestOneConnectorsFailureLeavesTheOthersRunning(t *testing.T) {
	f := startWorker(t, true, definition("good", "share", "t1", "tasks = 2")+
		definition("ordered", "consumer", "t1", "")+
		definition("fatal", "share", "t1", "config {\n  start = \"fatal\"\n}")+
		definition("fatal-put", "share", "t2", "config {\n  put = \"fatal\"\n}")+
		definition("down", "share", "t1", "config {\n  start = \"unavailable\"\n}")+
		definition("no-topic", "share", "nowhere", ""))
	f.produce(t, "t1", "a", "b", "c")
	f.produce(t, "t2", "x")
	f.sinks.await(t, "good", 3)
	f.sinks.await(t, "ordered", 3)

	got := f.await(t, "fatal", taskIs("FAILED"))
	if !strings.Contains(got.Tasks[0].Trace, "cannot use dsn") || got.Connector.State != "RUNNING" || got.Tasks[0].WorkerID != "w1" || got.Tasks[0].Version != "1.2.3" {
		t.Errorf("fatal: got %+v", got)
	}
	f.await(t, "fatal-put", taskIs("FAILED"))
	f.await(t, "down", func(s rest.Status) bool {
		return s.Tasks[0].State == "UNASSIGNED" && s.Tasks[0].Trace != ""
	})
	f.await(t, "no-topic", func(s rest.Status) bool {
		return s.Connector.State == "UNASSIGNED" && strings.Contains(s.Connector.Trace, "nowhere")
	})

	f.produce(t, "t1", "d")
	f.sinks.await(t, "good", 4)
	f.sinks.await(t, "ordered", 4)
	if got := f.await(t, "good", taskIs("RUNNING")); len(got.Tasks) != 2 || got.Tasks[1].State != "RUNNING" || got.Connector.Trace != "" {
		t.Errorf("good: got %+v", got)
	}
	want := `["down","fatal","fatal-put","good","no-topic","ordered"]`
	if got := strings.TrimSpace(f.get(t, "/connectors")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// A connector that fails is not the worker's failure.
	if got := f.get(t, "/healthz"); !strings.Contains(got, `"healthy"`) {
		t.Errorf("got %s", got)
	}
	metrics := f.get(t, "/metrics")
	for _, line := range []string{
		`sluice_task_running{connector="fatal",task="0"} 0`,
		`sluice_task_running{connector="good",task="0"} 1`,
		`sluice_task_running{connector="good",task="1"} 1`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no %s in the metrics", line)
		}
	}
}

func TestGroupOfAnotherKindFailsTheConnector(t *testing.T) {
	f := startWorker(t, true, definition("first", "consumer", "t1", "group_id = \"g\""))
	f.produce(t, "t1", "a")
	f.sinks.await(t, "first", 1)
	broker := strings.Join(f.broker.Bootstrap(), ",")
	second := startWorker(t, false, fmt.Sprintf("kafka \"main\" {\n  bootstrap = [%q]\n}\n", broker)+
		definition("second", "share", "t1", "group_id = \"g\""))
	got := second.await(t, "second", func(s rest.Status) bool { return s.Connector.State == "FAILED" })
	if !strings.Contains(got.Connector.Trace, `"g"`) && !strings.Contains(got.Connector.Trace, " g ") {
		t.Errorf("the cause does not name the group: %+v", got)
	}
	f.produce(t, "t1", "b")
	f.sinks.await(t, "first", 2)
}

func TestTargetThatIsDownDegradesTheTask(t *testing.T) {
	f := startWorker(t, true, definition("c", "share", "t1",
		"breaker {\n  failures = 1\n}\nretry {\n  initial = \"10ms\"\n}\nconfig {\n  put = \"unavailable\"\n}"))
	f.produce(t, "t1", "a")
	got := f.await(t, "c", func(s rest.Status) bool { return len(s.Tasks) > 0 && s.Tasks[0].Degraded != "" })
	if got.Tasks[0].State != "RUNNING" {
		t.Errorf("got %+v, want RUNNING and degraded", got)
	}
	if m := f.get(t, "/metrics"); !strings.Contains(m, `sluice_task_degraded{connector="c",task="0"} 1`) {
		t.Error("the metrics do not say so")
	}
}

func TestSecretsAreNowhere(t *testing.T) {
	config := func(start, put string) string {
		return fmt.Sprintf("config {\n  start = %q\n  put = %q\n  dsn = \"postgres://u:%s@db\"\n}", start, put, canary)
	}
	f := startWorker(t, true, "kafka \"main\" {\n  bootstrap = [\"127.0.0.1:1\"]\n  sasl {\n    mechanism = \"PLAIN\"\n    username = \"u\"\n    password = \""+canary+"\"\n  }\n}\n"+
		definition("fatal", "share", "t1", config("fatal", ""))+
		definition("down", "share", "t1", config("unavailable", ""))+
		definition("fatal-put", "share", "t1", config("", "fatal"))+
		definition("retried", "share", "t1", "breaker {\n  failures = 1\n}\n"+config("", "unavailable")))
	f.produce(t, "t1", "a")
	f.await(t, "fatal", taskIs("FAILED"))
	f.await(t, "fatal-put", taskIs("FAILED"))
	f.await(t, "down", func(s rest.Status) bool { return s.Tasks[0].Trace != "" })
	f.await(t, "retried", func(s rest.Status) bool { return s.Tasks[0].Degraded != "" })
	answers := ""
	for _, path := range []string{"/", "/connectors?expand=info&expand=status", "/connectors/fatal", "/connectors/fatal/status", "/metrics", "/healthz"} {
		answers += f.get(t, path)
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"answers": answers, "log": f.log.String()} {
		if i := strings.Index(text, canary); i >= 0 {
			t.Errorf("a secret is in the %s: %s", what, text[max(0, i-300):i+len(canary)])
		}
		if !strings.Contains(text, "(secret)") {
			t.Errorf("no trace of the secret in the %s: the test looks in the wrong place", what)
		}
	}
}

func TestSASLPasswordIsNotLoggedWhenTheBrokerIsAway(t *testing.T) {
	f := startWorker(t, false, "kafka \"main\" {\n  bootstrap = [\"127.0.0.1:1\"]\n  sasl {\n    mechanism = \"PLAIN\"\n    username = \"u\"\n    password = \""+canary+"\"\n  }\n}\n"+
		definition("c", "share", "t1", ""))
	got := f.await(t, "c", func(s rest.Status) bool { return s.Connector.Trace != "" })
	if got.Connector.State != "UNASSIGNED" {
		t.Errorf("got %+v, want it to be tried again", got)
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	if text := f.log.String() + fmt.Sprint(got); strings.Contains(text, canary) {
		t.Errorf("the password is in %s", text)
	}
}

func TestMetricsCountWhatTheBrokerConfirmed(t *testing.T) {
	for _, protocol := range []string{"share", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			f := startWorker(t, true, definition("c", protocol, "t1", ""))
			f.produce(t, "t1", "a", "b", "c")
			f.sinks.await(t, "c", 3)
			timeout := time.After(time.Minute)
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				text := f.get(t, "/metrics")
				if strings.Contains(text, `sluice_records_accepted_total{connector="c",task="0"} 3`+"\n") {
					if !strings.Contains(text, `sluice_records_acquired_total{connector="c",task="0"} 3`+"\n") {
						t.Error("accepted 3, but not acquired 3")
					}
					return
				}
				select {
				case <-tick.C:
				case <-timeout:
					t.Fatal("3 accepted records are not counted")
				}
			}
		})
	}
}

func TestStopIsOrdered(t *testing.T) {
	f := startWorker(t, true, definition("a", "share", "t1", "parallelism = 2")+definition("b", "consumer", "t1", ""))
	f.produce(t, "t1", "1", "2")
	f.sinks.await(t, "a", 2)
	f.sinks.await(t, "b", 2)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	count := func(event string) (n int) {
		for _, e := range f.sinks.events {
			if e == event {
				n++
			}
		}
		return n
	}
	if count("start a") != 2 || count("stop a") != 2 || count("start b") != 1 || count("stop b") != 1 {
		t.Errorf("got %v, want each sink started and stopped once", f.sinks.events)
	}
	if last := f.sinks.events[len(f.sinks.events)-3:]; slices.ContainsFunc(last, func(e string) bool { return !strings.HasPrefix(e, "stop") }) {
		t.Errorf("got %v, want nothing after the stops", f.sinks.events)
	}
	if res, err := f.client.Get(f.url + "/healthz"); err == nil {
		res.Body.Close()
		t.Error("it still listens")
	}
	log := f.log.String()
	order := []string{`"worker started"`, `"worker stopping"`, `"task stopped"`, `"worker stopped"`}
	at := -1
	for _, msg := range order {
		i := strings.Index(log, msg)
		if i <= at {
			t.Errorf("%s is not after what comes before it in\n%s", msg, log)
		}
		at = i
	}
}

func TestListenAddressInUse(t *testing.T) {
	f := startWorker(t, true, definition("c", "share", "t1", ""))
	cfg := &config.Config{Worker: config.Worker{Listen: strings.TrimPrefix(f.url, "http://")}}
	_, err := New(t.Context(), Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "worker.listen") || errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want an error that names worker.listen", err)
	}
}
