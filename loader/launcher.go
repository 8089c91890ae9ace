package loader

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
)

// launcher starts processes so that they end with the worker.
//
// The parent-death signal of Linux is sent when the thread that forked ends,
// not the process. So every process is started by one goroutine that is locked
// to its thread, and that goroutine ends with the worker, or after the last
// process has.
type launcher struct {
	logger *slog.Logger
	jobs   chan func()
	quit   chan struct{} // Closed by close, after the last process.
	once   sync.Once

	mu     sync.Mutex
	guard  *guard         // Guarded by mu; nil before the first process.
	alive  map[int]bool   // Guarded by mu: the process groups started and not ended.
	closed bool           // Guarded by mu: nothing is started any more.
	wg     sync.WaitGroup // Processes started, or about to be.
}

func newLauncher(logger *slog.Logger) *launcher {
	return &launcher{logger: logger, jobs: make(chan func()), quit: make(chan struct{}), alive: make(map[int]bool)}
}

// start starts cmd in a process group of its own. The caller must call ended
// with the process's id when it has been waited for.
func (l *launcher) start(cmd *exec.Cmd) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errClosed
	}
	l.wg.Add(1)
	l.mu.Unlock()
	l.once.Do(func() { go l.run() })
	started := make(chan error, 1)
	l.jobs <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		l.wg.Done()
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive[cmd.Process.Pid] = true
	l.watch(cmd.Process.Pid)
	return nil
}

// run starts processes until close.
func (l *launcher) run() {
	runtime.LockOSThread() // Never unlocked: the thread ends with the goroutine.
	for {
		select {
		case job := <-l.jobs:
			job()
		case <-l.quit:
			return
		}
	}
}

// watch tells the guard of a process group, and starts the guard if there is
// none or the one there has ended. l.mu must be held.
func (l *launcher) watch(group int) {
	if l.guard != nil && l.guard.add(group) == nil {
		return
	}
	g, err := startGuard()
	if err != nil {
		l.logger.Info("children of plugins will not be stopped if the worker is killed", "err", err)
		return
	}
	l.guard = g
	for group := range l.alive {
		if err := g.add(group); err != nil {
			l.logger.Warn("plugin guard ended at once", "err", err)
			return
		}
	}
}

// ended forgets a process that has been waited for.
func (l *launcher) ended(pid int) {
	l.mu.Lock()
	delete(l.alive, pid)
	if l.guard != nil {
		_ = l.guard.remove(pid) // The next start finds a broken guard.
	}
	l.mu.Unlock()
	l.wg.Done()
}

// close refuses further starts, waits until every process has ended, and ends
// the goroutine and the guard. Calls after the first do nothing.
func (l *launcher) close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	l.mu.Unlock()
	l.wg.Wait()
	close(l.quit)
	if l.guard != nil {
		l.guard.close()
	}
}

// guard is a shell that kills process groups once its input ends, which happens
// when this process is gone, however it ended.
type guard struct {
	in     *os.File
	exited chan struct{}
}

// guardScript reads lines "+ GROUP" and "- GROUP".
const guardScript = `trap '' HUP INT QUIT TERM
s=' '
while read -r op g; do
  case $op in
  +) s="$s$g " ;;
  -) s="${s%% $g *} ${s#* $g }" ;;
  esac
done
for g in $s; do kill -9 "-$g" 2>/dev/null; done
exit 0`

func startGuard() (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	cmd := exec.Command("/bin/sh", "-c", guardScript, "sluice-plugin-guard") //nolint:noctx // It outlives every context.
	cmd.Stdin = r
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	ownGroup(cmd)
	err = cmd.Start()
	_ = r.Close()
	if err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("start guard: %w", err)
	}
	g := &guard{in: w, exited: make(chan struct{})}
	go func() {
		defer close(g.exited)
		_ = cmd.Wait()
	}()
	return g, nil
}

func (g *guard) add(group int) error    { return g.write('+', group) }
func (g *guard) remove(group int) error { return g.write('-', group) }

func (g *guard) write(op rune, group int) error {
	select {
	case <-g.exited:
		return os.ErrProcessDone
	default:
	}
	_, err := fmt.Fprintf(g.in, "%c %d\n", op, group)
	return err
}

func (g *guard) close() {
	_ = g.in.Close()
	<-g.exited
}
