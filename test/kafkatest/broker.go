package kafkatest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// stopTimeout bounds a broker's own orderly shutdown.
const stopTimeout = 45 * time.Second

// broker is one JVM. Its folder, ports and identity outlive the process, so that it can be started again.
type broker struct {
	index   int // 0-based; the node id is index+1
	dir     string
	args    []string
	logFile string

	mu     sync.Mutex
	cmd    *exec.Cmd     // guarded by mu; nil when the broker does not run
	exited chan struct{} // guarded by mu; closed when the process of cmd has ended
}

// start runs the JVM and returns at once. The process is the child of an OS thread that lives as long as it does: Linux sends the
// parent death signal when the thread that started a child ends, not when the process does.
func (b *broker) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd != nil {
		return fmt.Errorf("broker %d runs already", b.index)
	}
	out, err := os.OpenFile(b.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start broker %d: %w", b.index, err)
	}
	defer out.Close()
	cmd := exec.Command("java", b.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, out, out
	cmd.SysProcAttr = dieWithParent()
	started, exited := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread() // Or the thread would end, and with it what it had started before.
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			b.mu.Lock()
			b.cmd = nil
			b.mu.Unlock()
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start broker %d: %w", b.index, err)
	}
	b.cmd, b.exited = cmd, exited
	return nil
}

// signal sends sig to the broker's process and gives the channel that closes when it has ended.
func (b *broker) signal(sig os.Signal) (exited <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd == nil {
		return nil, fmt.Errorf("broker %d does not run", b.index)
	}
	if err := b.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("signal broker %d: %w", b.index, err)
	}
	return b.exited, nil
}

// end sends sig and waits until the process is gone; past stopTimeout it is killed, which is an error.
func (b *broker) end(sig os.Signal) error {
	exited, err := b.signal(sig)
	if err != nil {
		return err
	}
	select {
	case <-exited:
		return nil
	case <-time.After(stopTimeout):
	}
	if _, err := b.signal(syscall.SIGKILL); err == nil {
		<-exited
	}
	return fmt.Errorf("broker %d did not stop within %v and was killed", b.index, stopTimeout)
}

// done is closed once the running process has ended; it is nil if there is none.
func (b *broker) done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exited
}

func (b *broker) running() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cmd != nil
}

// tail is the last lines of the broker's log, at most n.
func (b *broker) tail(n int) string {
	const most = 256 << 10
	f, err := os.Open(b.logFile)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	content, err := io.ReadAll(io.LimitReader(f, 2*most))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(content, "\n"), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return string(bytes.Join(lines, []byte("\n")))
}

// dataDir is where the broker keeps its partitions.
func (b *broker) dataDir() string { return filepath.Join(b.dir, "data") }
