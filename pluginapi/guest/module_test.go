package guest

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/pluginapi"
)

// self is what a guest may import beside the standard library.
const self = "github.com/sluicehq/sluice/"

func TestImportsOnlyStandardLibrary(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	list.Env = append(list.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if !strings.HasPrefix(dep, self) {
			t.Errorf("guest imports %s; every module would have to link it", dep)
		}
	}
	list = exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	list.Env = append(list.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err = list.Output(); err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if dep == "net" || dep == "net/http" || dep == "crypto/tls" {
			t.Errorf("guest imports %s, which reaches nothing in a module and makes it twice as large", dep)
		}
	}
}

// fake is a sink whose methods a test gives.
type fake struct {
	start  func(pluginapi.Config) error
	put    func(context.Context, []pluginapi.Record) ([]pluginapi.Result, error)
	stops  int
	checks error
}

func (f *fake) Start(_ context.Context, cfg pluginapi.Config) error {
	if f.start == nil {
		return nil
	}
	return f.start(cfg)
}

func (f *fake) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	return f.put(ctx, batch)
}

func (f *fake) Check(context.Context) error { return f.checks }

func (f *fake) Stop(context.Context) error { f.stops++; return nil }

func load(f *fake, lines *[]string) *module {
	return &module{
		plugin: pluginapi.Plugin{
			Name: "fake", Settings: []pluginapi.Setting{{Name: "wait", Type: pluginapi.Duration}},
			New: func() pluginapi.Sink { return f },
		},
		host: host{
			log:     func(level int32, line string) { *lines = append(*lines, slog.Level(level).String()+" "+line) },
			results: func([]byte) {},
		},
	}
}

func answerOf(t *testing.T, frame []byte) *pluginapi.Error {
	t.Helper()
	e, err := abi.DecodeError(frame)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestModuleLife(t *testing.T) {
	var lines []string
	var got pluginapi.Config
	f := &fake{start: func(cfg pluginapi.Config) error { got = cfg; return nil }, checks: errors.New("down")}
	m := load(f, &lines)
	cfg := pluginapi.Config{Connector: "c", Writer: 2, Values: map[string]any{"wait": time.Minute}}
	if e := answerOf(t, m.start(abi.AppendStart(nil, cfg, nil))); e != nil {
		t.Fatal(e)
	}
	if got.Duration("wait") != time.Minute || got.Connector != "c" || got.Writer != 2 || got.Logger == nil {
		t.Errorf("got config %+v", got)
	}
	if e := answerOf(t, m.check()); e == nil || e.Message != "down" || e.Class != pluginapi.NoClass {
		t.Errorf("check: got %+v", e)
	}
	f.put = func(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the put has no deadline")
		}
		return pluginapi.Accepted(len(batch)), nil
	}
	request := abi.AppendPutRequest(nil, abi.PutHeader{Deadline: time.Hour}, make([]pluginapi.Record, 3))
	results := make([]pluginapi.Result, 3)
	final, putErr, err := abi.DecodePutResponse(m.put(request), results)
	if !final || putErr != nil || err != nil || results[2].Outcome != pluginapi.Accept {
		t.Errorf("put: got %+v, final %t, %v, %v", results, final, putErr, err)
	}
	for range 2 {
		if e := answerOf(t, m.stop()); e != nil {
			t.Error(e)
		}
	}
	if f.stops != 1 {
		t.Errorf("stopped %d times, want once", f.stops)
	}
	_, putErr, _ = abi.DecodePutResponse(m.put(request), results)
	if putErr == nil || putErr.Class != pluginapi.Fatal {
		t.Errorf("put after stop: got %+v", putErr)
	}
}

func TestModuleFaults(t *testing.T) {
	var lines []string
	f := &fake{start: func(pluginapi.Config) error { panic("boom") }}
	m := load(f, &lines)
	if e := answerOf(t, m.start([]byte{0xff})); e == nil || e.Class != pluginapi.Invalid {
		t.Errorf("garbage: got %+v", e)
	}
	if e := answerOf(t, m.start(abi.AppendStart(nil, pluginapi.Config{}, nil))); e == nil || e.Code != "panic" {
		t.Errorf("panic: got %+v", e)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "ERROR panic in Start: boom\ngoroutine") {
		t.Errorf("the panic and its stack are not logged: %q", lines)
	}
	_, putErr, err := abi.DecodePutResponse(m.put([]byte{0xff}), nil)
	if err != nil || putErr == nil || putErr.Class != pluginapi.Unknown {
		t.Errorf("garbage put: got %+v, %v", putErr, err)
	}
}

func TestLogHandler(t *testing.T) {
	var lines []string
	l := slog.New(&logHandler{log: func(level int32, line string) { lines = append(lines, slog.Level(level).String()+" "+line) }})
	l.Info("plain")
	l.With("a", 1, "b", "").WithGroup("g").With("c", "x y").WithGroup("h").Warn("deep", "d", time.Second, "i", slog.GroupValue(slog.String("e", `q"`), slog.Attr{}))
	want := []string{"INFO plain", `WARN deep a=1 b="" g.c="x y" g.h.d=1s g.h.i.e="q\""`}
	if strings.Join(lines, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", lines, want)
	}
}

func TestDo(t *testing.T) {
	var sent abi.HTTPRequest
	reply := func(a abi.HTTPResponse) func([]byte) []byte {
		return func(b []byte) []byte {
			var err error
			if sent, err = abi.DecodeHTTPRequest(b); err != nil {
				t.Error(err)
			}
			return abi.AppendHTTPResponse(nil, &a)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ok := abi.HTTPResponse{Status: 201, Headers: []abi.HTTPHeader{{Name: "Retry-After", Value: "3"}}, Body: []byte("b")}
	resp, err := do(ctx, reply(ok), Request{Method: "PUT", URL: "http://x/", Timeout: time.Hour, Headers: []Header{{"A", "1"}}, Body: []byte("q")})
	if err != nil || resp.Status != 201 || resp.Header("retry-after") != "3" || resp.Header("none") != "" || string(resp.Body) != "b" {
		t.Errorf("got %+v, %v", resp, err)
	}
	if sent.Timeout > time.Minute || sent.Timeout < 50*time.Second || sent.Method != "PUT" || string(sent.Body) != "q" || len(sent.Headers) != 1 {
		t.Errorf("sent %+v", sent)
	}
	for failure, class := range map[abi.HTTPFailure]pluginapi.Class{
		abi.HTTPConnect: pluginapi.Transient, abi.HTTPTimeout: pluginapi.Transient, abi.HTTPForbidden: pluginapi.Fatal,
		abi.HTTPInvalid: pluginapi.Invalid, abi.HTTPTooLarge: pluginapi.Unknown, "later": pluginapi.Transient,
	} {
		_, err := do(ctx, reply(abi.HTTPResponse{Failure: failure, Message: "m"}), Request{URL: "http://x/"})
		if e := pluginapi.AsError(err, 0); err == nil || e.Class != class || e.Code != string(failure) || e.Message != "m" {
			t.Errorf("%s: got %+v", failure, e)
		}
	}
	over, cancelOver := context.WithTimeout(t.Context(), -time.Second)
	defer cancelOver()
	_, err = do(over, func([]byte) []byte { t.Error("a request after the deadline"); return nil }, Request{})
	if e := pluginapi.AsError(err, 0); err == nil || e.Code != CodeTimeout {
		t.Errorf("after the deadline: got %v", err)
	}
	if _, err := Do(t.Context(), Request{URL: "http://x/"}); !errors.Is(err, pluginapi.NewError(pluginapi.Fatal, CodeForbidden, "")) {
		t.Errorf("outside a module: got %v", err)
	}
}
