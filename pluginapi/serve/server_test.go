package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/internal/abi/rpc"
	"github.com/sluicehq/sluice/pluginapi"
)

// fake is a sink whose methods are set by each test.
type fake struct {
	start, check, stop func(ctx context.Context) error
	put                func(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error)
}

func call(ctx context.Context, f func(context.Context) error) error {
	if f == nil {
		return nil
	}
	return f(ctx)
}

func (f *fake) Start(ctx context.Context, _ pluginapi.Config) error { return call(ctx, f.start) }
func (f *fake) Check(ctx context.Context) error                     { return call(ctx, f.check) }
func (f *fake) Stop(ctx context.Context) error                      { return call(ctx, f.stop) }

func (f *fake) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	if f.put == nil {
		return pluginapi.Accepted(len(batch)), nil
	}
	return f.put(ctx, batch)
}

// serveFake serves a plugin whose sinks are f.
func serveFake(t *testing.T, f *fake, log *bytes.Buffer) *rpc.Client {
	t.Helper()
	p := &pluginapi.Plugin{Name: "fake", Version: "1.0.0", New: func() pluginapi.Sink { return f }}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(rpc.NewCodec()), grpc.WaitForHandlers(true))
	rpc.Register(s, newServer(p, newHandler(log, "")))
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(rpc.PeerCredentials(nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		wg.Wait()
	})
	return rpc.NewClient(conn, time.Second)
}

func start(t *testing.T, c *rpc.Client, id uint64) *pluginapi.Error {
	t.Helper()
	answer, err := c.Start(t.Context(), id, abi.AppendStart(nil, pluginapi.Config{Connector: "c"}, nil))
	return answered(t, answer, err)
}

func answered(t *testing.T, answer []byte, err error) *pluginapi.Error {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(answer) == 0 {
		return nil
	}
	e, err := abi.DecodeError(answer)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestInstancesLiveInOrder(t *testing.T) {
	c := serveFake(t, &fake{}, new(bytes.Buffer))
	if _, err := c.Check(t.Context(), 1); status.Code(err) != codes.NotFound {
		t.Errorf("check before start: %v", err)
	}
	if e := start(t, c, 1); e != nil {
		t.Fatal(e)
	}
	if _, err := c.Start(t.Context(), 1, abi.AppendStart(nil, pluginapi.Config{}, nil)); status.Code(err) != codes.AlreadyExists {
		t.Errorf("second start: %v", err)
	}
	if _, err := c.Start(t.Context(), 2, []byte{0xff}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("start with garbage: %v", err)
	}
	first, err := c.Put(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	request := abi.AppendPutRequest(nil, abi.PutHeader{}, []pluginapi.Record{{Topic: "t"}})
	if err := first.Send(request); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Receive(nil); err != nil {
		t.Fatal(err)
	}
	second, err := c.Put(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Send(request)
	if _, err := second.Receive(nil); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("second put stream: %v", err)
	}
	answer, err := c.Stop(t.Context(), 1)
	if e := answered(t, answer, err); e != nil {
		t.Error(e)
	}
	if _, err := c.Stop(t.Context(), 1); status.Code(err) != codes.NotFound {
		t.Errorf("second stop: %v", err)
	}
}

func TestStopFollowsAFailedStart(t *testing.T) {
	stopped := false
	c := serveFake(t, &fake{
		start: func(context.Context) error { return pluginapi.NewError(pluginapi.Fatal, "no_table", "no such table") },
		stop:  func(context.Context) error { stopped = true; return errors.New("plain") },
	}, new(bytes.Buffer))
	if e := start(t, c, 1); e == nil || e.Class != pluginapi.Fatal || e.Code != "no_table" {
		t.Errorf("start: %+v", e)
	}
	if _, err := c.Check(t.Context(), 1); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("check after a failed start: %v", err)
	}
	answer, err := c.Stop(t.Context(), 1)
	if e := answered(t, answer, err); e == nil || e.Class != pluginapi.NoClass || e.Message != "plain" || !stopped {
		t.Errorf("stop: %+v, called %v", e, stopped)
	}
}

func TestPanicIsLoggedAndEndsTheInstance(t *testing.T) {
	var log bytes.Buffer
	c := serveFake(t, &fake{check: func(context.Context) error { panic("no map") }}, &log)
	if e := start(t, c, 1); e != nil {
		t.Fatal(e)
	}
	_, err := c.Check(t.Context(), 1)
	if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "panic in Check: no map") {
		t.Errorf("check: %v", err)
	}
	if _, err := c.Check(t.Context(), 1); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("check after a panic: %v", err)
	}
	answer, err := c.Stop(t.Context(), 1)
	if e := answered(t, answer, err); e != nil {
		t.Errorf("stop after a panic: %v", e)
	}
	if !strings.Contains(log.String(), `"level":"ERROR","msg":"sink panicked"`) || !strings.Contains(log.String(), "server_test.go") {
		t.Errorf("log %s", log.String())
	}
}

// The host gives a call up before the sink returns; Stop must wait for it, or
// say that it cannot.
func TestStopWaitsForACallThatWasGivenUp(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{})
	c := serveFake(t, &fake{check: func(context.Context) error {
		close(entered)
		<-release
		return nil
	}}, new(bytes.Buffer))
	if e := start(t, c, 1); e != nil {
		t.Fatal(e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := c.Check(ctx, 1)
		given <- err
	}()
	<-entered
	cancel()
	if err := <-given; status.Code(err) != codes.Canceled {
		t.Errorf("check: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Stop(short, 1); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("stop: %v", err)
	}
	close(release)
}

func TestPrepare(t *testing.T) {
	good := pluginapi.Plugin{Name: "acme", Version: "1.2.0", New: func() pluginapi.Sink { return &fake{} }}
	bad := good
	bad.Name = "Acme"
	empty := good
	empty.New = nil
	tests := []struct {
		name   string
		plugin pluginapi.Plugin
		cookie string
		want   string // Part of the error; empty for none.
	}{
		{"started by a host", good, rpc.CookieValue, ""},
		{"started by hand", good, "", "sluice plugin describe acme"},
		{"bad name", bad, rpc.CookieValue, "plugin name"},
		{"no sinks", empty, rpc.CookieValue, "New is not set"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := prepare(&tt.plugin, tt.cookie)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestHandler(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(newHandler(&b, "warn"))
	log.Info("left out")
	log.Warn("kept", "text", strings.Repeat("x", 1<<20))
	if strings.Contains(b.String(), "left out") || !strings.Contains(b.String(), `"level":"WARN","msg":"kept"`) || b.Len() > 2*maxLogText {
		t.Errorf("%d bytes: %.200s", b.Len(), b.String())
	}
}
