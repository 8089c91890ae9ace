package loader

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/internal/abi/fdpass"
	"github.com/sluicehq/sluice/internal/abi/rpc"
	"github.com/sluicehq/sluice/internal/abi/shm"
	"github.com/sluicehq/sluice/pluginapi"
)

// process is one running plugin process. Its methods are safe for concurrent
// use.
type process struct {
	number   uint64
	spec     *spec
	launcher *launcher
	client   *plugin.Client
	rpc      *rpc.Client
	output   *output
	desc     pluginapi.Description
	// shared is the memory put frames are written to; nil where there is none.
	// It is used only if reads says that the plugin reads there.
	shared *shm.File
	reads  bool
	// sockets passes put streams to the plugin; nil where that is not possible.
	// It is used only if takes says that the plugin takes them.
	sockets *fdpass.Sender
	takes   bool

	// exited is closed when the process has ended, what it wrote has been read,
	// and its children are dead.
	exited chan struct{}
	state  string // How it ended; read after exited.
	// ctx ends when the process is being killed or has ended: what waits for
	// its answers waits no more.
	ctx    context.Context //nolint:containedctx // The life of the process.
	cancel context.CancelFunc

	next      atomic.Uint64 // Number of the last instance.
	handshake atomic.Value  // string: the first line it wrote, once there is one.
	used      atomic.Bool   // It started well: its end is an event.

	mu     sync.Mutex
	reason string // Guarded by mu: why it is killed; the first reason stays.
	pid    int    // Guarded by mu: 0 before it is started and once it is reaped.
}

// startProcess starts a plugin process and asks for its description. It gives
// up when ctx ends or the start timeout is over; nothing is left behind then.
func startProcess(ctx context.Context, l *launcher, number uint64, s *spec) (*process, error) {
	parent, err := socketParent()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, s.opts.StartTimeout)
	defer stop()
	p := &process{number: number, spec: s, launcher: l, output: newOutput(s.opts.Logger), exited: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	versioned := make(map[int]plugin.PluginSet)
	for _, v := range rpc.Versions() {
		versioned[v] = plugin.PluginSet{rpc.PluginKey: clientPlugin{grace: s.opts.PutGrace}}
	}
	attached := &attachedProcess{process: p}
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  plugin.HandshakeConfig{MagicCookieKey: rpc.CookieKey, MagicCookieValue: rpc.CookieValue},
		VersionedPlugins: versioned,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc:       attached.prepare,
		StartTimeout:     s.opts.StartTimeout,
		SkipHostEnv:      true,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: parent},
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       p.output.writer(),
		SyncStderr:       p.output.writer(),
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithTransportCredentials(rpc.PeerCredentials(nil)),
			grpc.WithInitialWindowSize(rpc.WindowBytes),
			grpc.WithInitialConnWindowSize(rpc.WindowBytes),
			grpc.WithWriteBufferSize(rpc.BufferBytes),
			grpc.WithReadBufferSize(rpc.BufferBytes),
			grpc.WithIdleTimeout(0),
		},
	})
	connected := make(chan error, 1)
	go func() { connected <- p.connect(ctx) }()
	select {
	case err = <-connected:
	case <-ctx.Done():
		p.kill("it did not start in time")
		err = errors.Join(ctx.Err(), <-connected) // The process is dead, so it ends.
	}
	if dir := attached.dir; dir != "" {
		// The connection is made; nobody else shall make one, and nothing is
		// to be left behind if the worker is killed.
		_ = os.RemoveAll(dir)
	}
	if err != nil {
		return nil, p.startError(ctx, attached, err)
	}
	p.used.Store(true)
	return p, nil
}

// connect starts the process, shakes hands, and asks for the description.
func (p *process) connect(ctx context.Context) error {
	conn, err := p.client.Client()
	if err != nil {
		return err
	}
	service, err := conn.Dispense(rpc.PluginKey)
	if err != nil {
		return err
	}
	p.rpc = service.(*rpc.Client)
	d, err := p.rpc.Describe(ctx)
	if err != nil {
		return fmt.Errorf("ask for its description: %w", err)
	}
	p.reads = d.Shared && p.shared != nil
	p.takes = d.Sockets && p.sockets != nil
	if p.desc, err = abi.DecodeDescription(d.CBOR); err != nil {
		return fmt.Errorf("read its description: %w", err)
	}
	return p.desc.Validate()
}

// startError ends what was started and says why it could not be used.
func (p *process) startError(ctx context.Context, a *attachedProcess, err error) error {
	line, _ := p.handshake.Load().(string)
	if a.started {
		p.kill("it could not be used")
		<-p.exited
	}
	p.client.Kill()
	p.cancel()
	switch {
	case !a.started:
		if a.err != nil {
			return a.err
		}
		return err
	case versionOf(line) > 0 && !speaks(versionOf(line)):
		return &VersionError{Plugin: versionOf(line), Host: rpc.Versions()}
	case ctx.Err() != nil:
		err = fmt.Errorf("it was not ready in time: %w", ctx.Err())
	case line == "":
		err = fmt.Errorf("it ended before it was ready: %s", p.state)
	case versionOf(line) == 0:
		err = fmt.Errorf("it wrote %q where its handshake was expected", line[:min(len(line), maxTailLine)])
	}
	if last := p.output.last(); len(last) > 0 {
		err = fmt.Errorf("%w; it wrote: %s", err, strings.Join(last[max(0, len(last)-maxCrashLines):], " | "))
	}
	return err
}

// versionOf returns the protocol version in a handshake line, 0 if it is none.
func versionOf(line string) int {
	parts := strings.Split(line, "|")
	if len(parts) < 5 || parts[0] != strconv.Itoa(rpc.CoreVersion) {
		return 0
	}
	v, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return v
}

func speaks(version int) bool {
	for _, v := range rpc.Versions() {
		if v == version {
			return true
		}
	}
	return false
}

// alive reports whether the process can be used.
func (p *process) alive() bool { return p.ctx.Err() == nil }

// kill kills the process with its children at once.
func (p *process) kill(reason string) {
	p.mu.Lock()
	p.blame(reason)
	if p.pid != 0 {
		killGroup(p.pid)
	}
	p.mu.Unlock()
	p.cancel()
}

// blame notes why the process is being ended. mu must be held.
func (p *process) blame(reason string) {
	if p.reason == "" {
		p.reason = reason
	}
}

// stop asks the process to end and kills it when ctx ends or the grace is over.
func (p *process) stop(ctx context.Context) {
	const reason = "it was stopped"
	p.mu.Lock()
	p.blame(reason)
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.client.Kill()
	}()
	grace := time.NewTimer(p.spec.opts.StopGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-grace.C:
	}
	p.kill(reason)
	<-p.exited
	<-ended
}

// crash returns why the process ended. It must have ended, and its output too.
func (p *process) crash() *CrashError {
	p.mu.Lock()
	reason := p.reason
	p.mu.Unlock()
	return &CrashError{
		Plugin: p.spec.name, Process: p.number, State: p.state, Killed: reason, Output: p.output.last(),
	}
}

// reap waits for the process's end and cleans up behind it.
func (p *process) reap(cmd *exec.Cmd, lifeline *os.File, pipes []*os.File) {
	err := awaitExit(cmd)
	p.mu.Lock()
	killGroup(cmd.Process.Pid) // Its children.
	if cmd.ProcessState == nil {
		err = cmd.Wait()
	}
	p.pid = 0
	p.mu.Unlock()
	p.launcher.ended(cmd.Process.Pid)
	p.cancel()
	_ = lifeline.Close()
	p.state = "exit status 0"
	if err != nil {
		p.state = err.Error()
	}
	// A child that left the group may hold the pipes open.
	for _, pipe := range pipes {
		_ = pipe.SetReadDeadline(time.Now().Add(drainTime))
	}
	p.output.reader.Wait()
	closeAll(pipes)
	p.output.close()
	p.unshare()
	if end := p.crash(); end.Killed == "" && p.used.Load() { // By itself: what was in it may not be what finds out.
		p.spec.opts.Logger.Warn("plugin process ended by itself", "pid", cmd.Process.Pid, "err", end)
	}
	close(p.exited)
	p.client.Kill() // The connection and go-plugin's goroutines.
}

// unshare closes the host's ends of what the process has inherited.
func (p *process) unshare() {
	if p.shared != nil {
		p.shared.Close()
	}
	if p.sockets != nil {
		p.sockets.Close()
	}
}

// drainTime is how long the output of a process is read after its end.
const drainTime = 500 * time.Millisecond

// clientPlugin gives go-plugin the service's client.
type clientPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	grace time.Duration
}

var _ plugin.GRPCPlugin = clientPlugin{}

// GRPCServer is the plugin's side, which a host does not have.
func (clientPlugin) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("a host is no plugin")
}

// GRPCClient returns the service's client on conn.
func (c clientPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return rpc.NewClient(conn, c.grace), nil
}

// attachedProcess is a process as go-plugin starts and waits for it. What the
// process writes is read here, not by go-plugin, which would stop at a long
// line.
type attachedProcess struct {
	process *process

	dir      string // Of its socket.
	cmd      *exec.Cmd
	lifeline *os.File
	files    []*os.File // Closed once it is started.
	stdout   *io.PipeReader
	started  bool
	err      error // Why it could not be started.
}

var _ runner.Runner = (*attachedProcess)(nil)

// prepare makes the command.
func (a *attachedProcess) prepare(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
	a.dir = dir
	p := a.process
	shared, reader, err := shm.Create()
	if err != nil { // Frames go through gRPC.
		p.spec.opts.Logger.Debug("no memory is shared with the plugin", "err", err)
	} else {
		p.shared = shared
	}
	sockets, receiver, err := fdpass.New()
	if err != nil { // Streams are gRPC's.
		p.spec.opts.Logger.Debug("no sockets are passed to the plugin", "err", err)
	} else {
		p.sockets = sockets
	}
	a.cmd, a.lifeline, a.files, err = p.spec.command(cmd.Env, []childFile{{rpc.SharedKey, reader}, {rpc.SocketsKey, receiver}})
	for _, f := range []*os.File{reader, receiver} {
		if f != nil {
			a.files = append(a.files, f)
		}
	}
	if err != nil {
		a.err = err
		closeAll(a.files)
		p.unshare()
		return nil, err
	}
	return a, nil
}

// Start starts the process and the goroutines that read its output and wait for
// its end.
func (a *attachedProcess) Start(context.Context) error {
	p := a.process
	defer func() { closeAll(a.files) }()
	if err := a.start(); err != nil {
		_ = a.lifeline.Close()
		p.unshare()
		a.err = fmt.Errorf("start %s: %w", p.spec.path, err)
		return a.err
	}
	a.started = true
	return nil
}

func (a *attachedProcess) start() error {
	p := a.process
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	a.files = append(a.files, outW)
	errR, errW, err := os.Pipe()
	if err != nil {
		_ = outR.Close()
		return err
	}
	a.files = append(a.files, errW)
	a.cmd.Stdout, a.cmd.Stderr = outW, errW
	if err := p.launcher.start(a.cmd); err != nil {
		closeAll([]*os.File{outR, errR})
		return err
	}
	p.mu.Lock()
	p.pid = a.cmd.Process.Pid
	if p.reason != "" { // Killed before it was there.
		killGroup(p.pid)
	}
	p.mu.Unlock()
	if limit := p.spec.opts.MemoryBytes; limit > 0 {
		if err := limitMemory(a.cmd.Process.Pid, limit); err != nil {
			p.spec.opts.Logger.Warn("plugin memory is not limited", "err", err)
		}
	}
	stdout, first := io.Pipe()
	a.stdout = stdout
	p.output.reader.Add(2)
	go func() {
		defer p.output.reader.Done()
		p.output.read(errR)
	}()
	go func() {
		defer p.output.reader.Done()
		p.readStdout(outR, first)
	}()
	go p.reap(a.cmd, a.lifeline, []*os.File{outR, errR})
	return nil
}

// readStdout hands the first line to go-plugin and logs the others.
func (p *process) readStdout(from io.Reader, first *io.PipeWriter) {
	r := bufio.NewReaderSize(from, maxLine)
	// One that fills the buffer is no handshake: its end is not waited for.
	if b, err := r.ReadSlice('\n'); err == nil || len(b) > 0 {
		line := strings.TrimRight(string(b), "\r\n")
		p.handshake.Store(line)
		// Go-plugin reads it, or is past its start timeout.
		go func() {
			_, _ = io.WriteString(first, line+"\n")
			_ = first.Close()
		}()
	} else {
		_ = first.Close()
	}
	p.output.lines(r)
}

// Wait returns when the process has ended.
func (a *attachedProcess) Wait(context.Context) error {
	<-a.process.exited
	return nil
}

// Kill kills the process with its children.
func (a *attachedProcess) Kill(context.Context) error {
	if a.started {
		a.process.kill("it was stopped")
	}
	return nil
}

// Stdout returns what go-plugin may read: the handshake line.
func (a *attachedProcess) Stdout() io.ReadCloser { return a.stdout }

// Stderr returns nothing.
func (*attachedProcess) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name returns the file's path.
func (a *attachedProcess) Name() string { return a.process.spec.path }

// ID returns the process's id.
func (a *attachedProcess) ID() string {
	if a.cmd == nil || a.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(a.cmd.Process.Pid)
}

// Diagnose has nothing to add: errors are made by startError.
func (*attachedProcess) Diagnose(context.Context) string { return "" }

// PluginToHost returns the address as it is.
func (*attachedProcess) PluginToHost(network, address string) (hostNetwork, hostAddress string, err error) {
	if network != "unix" {
		return "", "", fmt.Errorf("it listens on %s, want a Unix socket", network)
	}
	return network, address, nil
}

// HostToPlugin returns the address as it is.
func (*attachedProcess) HostToPlugin(network, address string) (pluginNetwork, pluginAddress string, err error) {
	return network, address, nil
}
