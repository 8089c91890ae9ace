package loader

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/abi/rpc"
)

// The tests of this file are faults that other hosts of plugin processes had.

// A plugin that was not started by the launcher of this package, so that only
// the SDK can see that the host is gone, logs all the time and ignores SIGPIPE:
// it ends at once and does not spin (PLUG-02).
func TestPlug02PluginEndsWhenItsHostIsGone(t *testing.T) {
	dir := t.TempDir()
	drop(t, dir, "chatty")
	for name, env := range map[string][]string{"lifeline": {rpc.LifelineKey + "=0"}, "parent": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The host is a shell that starts the plugin and is killed.
			host := exec.CommandContext(t.Context(), "/bin/sh", "-c", `"$0" <&3 & echo $! >&2; wait`, filepath.Join(dir, processPrefix+"chatty"))
			host.Env = append(append(os.Environ(), rpc.CookieKey+"="+rpc.CookieValue), env...)
			stdin, lifeline, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer lifeline.Close()
			host.ExtraFiles = []*os.File{stdin}
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			errs, err := host.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			_ = stdin.Close()
			pid, err := io.ReadAll(&firstLine{r: errs})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(&firstLine{r: out}); err != nil { // Its handshake: it serves.
				t.Fatal(err)
			}
			began := time.Now()
			_ = host.Process.Kill()
			_ = host.Wait()
			_ = lifeline.Close()
			eventually(t, "the plugin has ended", func() bool { return !exists(string(pid)) })
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it ended after %v", took)
			}
		})
	}
}

// firstLine reads to the end of the first line.
type firstLine struct {
	r   io.Reader
	end bool
}

func (l *firstLine) Read(b []byte) (int, error) {
	if l.end {
		return 0, io.EOF
	}
	if _, err := io.ReadFull(l.r, b[:1]); err != nil {
		return 0, err
	}
	if l.end = b[0] == '\n'; l.end {
		return 0, io.EOF
	}
	return 1, nil
}

// Directories that are too long, gone or no directories are passed over; if none
// is left, the error says what is wrong with each (PLUG-08).
func TestPlug08SocketDirectoryIsOneThatWorks(t *testing.T) {
	long, gone := "/"+strings.Repeat("d", 120), "/no/such/directory"
	t.Setenv("XDG_RUNTIME_DIR", gone)
	t.Setenv("TMPDIR", long)
	if dir, err := socketParent(); err != nil || dir != "/tmp" && dir != "/var/tmp" {
		t.Errorf("got %q, %v, want another one", dir, err)
	}
	_, err := socketIn(gone, long, "relative", "/dev/null")
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{gone, "no such file", "longer than 60 bytes", "/dev/null", "not a directory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// The plugin is a script that starts the program and waits for it: the program
// ends with the script, and stopping does not wait for more (PLUG-10).
func TestPlug10ScriptThatStartsTheProgram(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	drop(t, elsewhere, "good")
	script := fmt.Sprintf("#!/bin/sh\n'%s'\nexit $?\n", filepath.Join(elsewhere, processPrefix+"good"))
	if err := os.WriteFile(filepath.Join(dir, processPrefix+"good"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := newCatalog(t, CatalogOptions{Dirs: []string{dir}}).Resolve(t.Context(), "good", Pin{})
	if err != nil {
		t.Fatal(err)
	}
	r := openPlugin(t, p, Options{})
	pid := ask(t, instance(t, r, nil), "pid")
	if n := len(processes(elsewhere)); n != 1 {
		t.Errorf("%d programs run, want one", n)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exists(pid) {
		t.Error("the program is still there")
	}
}

// A child that has left the process's group holds its pipes: neither a crash nor
// a stop waits for it (PLUG-10).
func TestPlug10ChildThatKeepsThePipes(t *testing.T) {
	for _, end := range []string{"crash", "stop"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			r := open(t, "good", Options{})
			in := instance(t, r, nil)
			child := pidOf(t, in, "escape")
			t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
			began := time.Now()
			if end == "crash" {
				if _, _, err := put(t.Context(), in, "kill"); codeOf(err) != "unknown/crash" {
					t.Errorf("got %v, want the crash", err)
				}
			}
			if err := r.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A sink that flushes in Stop has its time for it, and is stopped once, however
// often it is asked to and whoever asks for its process's end (PLUG-11).
func TestPlug11StopFlushesOnce(t *testing.T) {
	r := open(t, "good", Options{})
	path := filepath.Join(t.TempDir(), "flushed")
	in := instance(t, r, map[string]any{"stop": "flush " + path, "delay": 500 * time.Millisecond})
	if got, _, err := put(t.Context(), in, make([]string, 100)...); got != strings.Repeat("a", 100) || err != nil {
		t.Fatalf("results %q, %v", got, err)
	}
	stopped := make(chan error, 2)
	for range 2 {
		go func() { stopped <- in.Stop(t.Context()) }()
	}
	for range 2 {
		if err := <-stopped; err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "flushed 100\n" {
		t.Errorf("got %q, %v, want one flush of 100", got, err)
	}
}

// Sinks that refuse to start, and ones that were used and stopped, leave nothing
// in the host, nor in their process (PLUG-13).
func TestPlug13SinksLeaveNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	r := open(t, "good", Options{})
	refused := func() {
		t.Helper()
		in := made(t, r, map[string]any{"start": "fatal"})
		if err := in.Start(t.Context()); codeOf(err) != "fatal/no_table" {
			t.Fatalf("start: %v", err)
		}
		if err := in.Stop(t.Context()); err != nil {
			t.Fatalf("stop: %v", err)
		}
	}
	used := func() {
		t.Helper()
		in := made(t, r, nil)
		if err := in.Start(t.Context()); err != nil {
			t.Fatalf("start: %v", err)
		}
		if _, _, err := put(t.Context(), in, "x"); err != nil {
			t.Fatalf("put: %v", err)
		}
		if err := in.Stop(t.Context()); err != nil {
			t.Fatalf("stop: %v", err)
		}
	}
	refused()
	used()
	pid := ask(t, instance(t, r, nil), "pid")
	count := func() (sum [3]int) {
		for i, dir := range []string{"/proc/self/fd", "/proc/" + pid + "/fd"} {
			files, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			sum[i] = len(files)
		}
		sum[2] = runtime.NumGoroutine()
		return sum
	}
	before := count()
	for range 50 {
		refused()
		used()
	}
	eventually(t, "descriptors and goroutines are as before", func() bool {
		after := count()
		return after[0] <= before[0] && after[1] <= before[1] && after[2] <= before[2]
	})
}
