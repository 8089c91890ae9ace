// Package service starts the servers that tests talk to, as child processes of the test process that never outlive it. It
// knows nothing of any particular server.
package service

import (
	"bytes"
	"errors"
	"fmt"
	"net"
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

// readyTimeout bounds the wait for a server that was started. It is long: the machine may be busy with other tests.
const readyTimeout = 60 * time.Second

// maxLog bounds what is kept of a server's output, in bytes.
const maxLog = 64 << 10

// Process is one running server.
type Process struct {
	cmd  *exec.Cmd
	log  tail
	done chan struct{} // Closed when the process is gone.
}

// Start runs cmd until [Process.Stop], or until this process ends in whatever way.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	started := make(chan error, 1)
	go func() {
		// Linux ties the parent-death signal to the thread that forked, so this goroutine keeps its thread as long as
		// the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		dieWithParent(cmd)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // How it ended is of no interest; its log is kept.
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, nil
}

// Ready polls ask until it succeeds, the process ends or a minute is over.
func (p *Process) Ready(ask func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(readyTimeout)
	defer deadline.Stop()
	last := errors.New("not asked yet")
	for {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while it started:\n%s", filepath.Base(p.cmd.Path), p.log.String())
		case <-deadline.C:
			return fmt.Errorf("%s is not ready after %s: %w:\n%s", filepath.Base(p.cmd.Path), readyTimeout, last, p.log.String())
		case <-tick.C:
		}
		if last = ask(); last == nil {
			return nil
		}
	}
}

// Stop sends the process signal and waits until it is gone; after ten seconds it is killed.
func (p *Process) Stop(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal) // Gone already is as good.
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Log returns the last output of the process.
func (p *Process) Log() string { return p.log.String() }

// Address returns a loopback address that nobody listened on a moment ago.
func Address() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Folder makes a temporary folder for a server called name, and removes those that test processes which were killed left
// behind. The caller removes it.
func Folder(name string) (string, error) {
	prefix := "sluice-" + name + "-"
	old, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return "", err
	}
	for _, dir := range old {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if pid, err := strconv.Atoi(text); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir) // The next start tries again.
		}
	}
	return os.MkdirTemp("", prefix+strconv.Itoa(os.Getpid())+"-")
}

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - maxLog; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
