package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxKept bounds what is kept of a child's output on standard error, in bytes.
const maxKept = 256 << 10

// child is one measured process. It never outlives this one.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	done   chan struct{} // Closed when the process is gone and its output read.
	err    error         // How it ended; to be read after done.
	stderr kept
	peak   atomic.Int64 // Bytes of resident memory, of the process alone: see watchMemory.
}

// start runs a program that m is of. Each line of its standard output goes to line, in order, from one goroutine.
func start(m *marks, line func(string), env []string, name string, args ...string) (*child, error) {
	c := &child{cmd: exec.Command(name, args...), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = &c.stderr
	c.cmd.SysProcAttr = dieWithParent()
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() {
		// Linux ties the parent-death signal to the thread that forked: this goroutine keeps its own.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)
		now := time.Now()
		err := c.cmd.Start()
		if err == nil {
			m.attach(c.cmd.Process.Pid, now)
		}
		started <- err
		if err != nil {
			return
		}
		for sc := bufio.NewScanner(stdout); sc.Scan(); {
			line(sc.Text())
		}
		_, _ = io.Copy(io.Discard, stdout) // After a line that is too long.
		c.err = c.cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(name), err)
	}
	go c.watchMemory()
	return c, nil
}

// watchMemory reads the peak of the process' memory four times a second until it ends. What the kernel says at its end is of no
// use: it begins with the peak of the process that forked.
func (c *child) watchMemory() {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
			c.peak.Store(max(c.peak.Load(), peakOf(c.cmd.Process.Pid)))
		}
	}
}

// end asks the process to end, by the end of its input and a signal if it is not 0, and kills it after the grace. It returns the
// CPU seconds the process took in all, its ended children included.
func (c *child) end(signal syscall.Signal, grace time.Duration) (cpu float64) {
	_ = c.stdin.Close()
	if signal != 0 {
		_ = c.cmd.Process.Signal(signal) // Gone already is as good.
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		_ = c.cmd.Process.Kill()
		<-c.done
	}
	if state := c.cmd.ProcessState; state != nil {
		return (state.UserTime() + state.SystemTime()).Seconds()
	}
	return 0
}

// kept is the last output of a process.
type kept struct {
	mu sync.Mutex
	b  []byte
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.b = append(k.b, p...)
	if len(k.b) > 2*maxKept {
		k.b = append(k.b[:0], k.b[len(k.b)-maxKept:]...)
	}
	return len(p), nil
}

// bytes is a copy of what is kept.
func (k *kept) bytes() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.b)
}

// tail is the last lines of what is kept.
func (k *kept) tail(n int) string {
	lines := bytes.Split(bytes.TrimSpace(k.bytes()), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
