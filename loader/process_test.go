package loader

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

func TestPutAnswers(t *testing.T) {
	tests := []struct {
		name    string
		values  []string
		results string
		code    string // Class and code of the error; empty for none.
		gone    bool
	}{
		{"accept", []string{"x", "x", "x"}, "aaa", "", false},
		{"empty batch", nil, "", "", false},
		{"reject one", []string{"x", "reject", "x"}, "aja", "", false},
		{"error with results", []string{"x", "x", "error", "x"}, "aa--", "unavailable/gone", false},
		{"fewer results", []string{"x", "fewer"}, "--", "unknown/bad_answer", false},
		{"more results", []string{"x", "more"}, "--", "unknown/bad_answer", false},
		{"zero outcome", []string{"x", "zero", "x"}, "a-a", "unknown/bad_answer", false},
		{"unknown outcome", []string{"outcome", "x"}, "-a", "unknown/bad_answer", false},
		{"panic", []string{"x", "panic"}, "--", "unknown/panic", true},
		{"a long error", []string{"bigerror"}, "-", "transient/big", false},
	}
	dir := t.TempDir()
	drop(t, dir, "good")
	cache := t.TempDir()
	buildGuest(t, filepath.Join(dir, "good.wasm"), cache)
	c := newCatalog(t, CatalogOptions{
		Dirs: []string{dir}, Builtins: []pluginapi.Plugin{fixturePlugin()}, CacheDir: cache, DescribeTimeout: 2 * time.Minute,
	})
	for _, form := range []string{"process:good", "builtin:good", "wasm:good"} {
		p, err := c.Resolve(t.Context(), form, Pin{})
		if err != nil {
			t.Fatal(err)
		}
		r := openPlugin(t, p, Options{})
		for _, tt := range tests {
			t.Run(form+" "+tt.name, func(t *testing.T) {
				in := instance(t, r, nil)
				got, _, err := put(t.Context(), in, tt.values...)
				if got != tt.results {
					t.Errorf("results %q, want %q", got, tt.results)
				}
				if tt.code == "" && err != nil || tt.code != "" && codeOf(err) != tt.code {
					t.Errorf("error %v (%s), want %q", err, codeOf(err), tt.code)
				}
				if in.Gone() != tt.gone {
					t.Errorf("gone %v, want %v", in.Gone(), tt.gone)
				}
				if tt.gone {
					if _, _, err := put(t.Context(), in, "x"); !errors.Is(err, errGone) {
						t.Errorf("put on an instance that is gone: %v", err)
					}
				} else if got, _, err := put(t.Context(), in, "x", "x"); got != "aa" || err != nil {
					t.Errorf("next put: %q, %v", got, err)
				}
				if err := in.Stop(t.Context()); err != nil {
					t.Errorf("stop: %v", err)
				}
			})
		}
	}
}

func TestPanicEndsOneInstanceOfAProcess(t *testing.T) {
	var log logBuffer
	r := open(t, "good", Options{Logger: textLogger(&log)})
	a, b := instance(t, r, nil), instance(t, r, nil)
	if a.Process() != b.Process() {
		t.Fatalf("processes %d and %d, want one", a.Process(), b.Process())
	}
	_, _, err := put(t.Context(), a, "panic now")
	if err == nil || !strings.Contains(err.Error(), "panic in Put: record now") {
		t.Errorf("error %v, want the panic's text", err)
	}
	if got, _, err := put(t.Context(), b, "x"); got != "a" || err != nil || b.Gone() {
		t.Errorf("neighbour: %q, %v, gone %v", got, err, b.Gone())
	}
	eventually(t, "the stack is logged", func() bool {
		return strings.Contains(log.String(), `level=ERROR msg="sink panicked"`) && strings.Contains(log.String(), "main.(*sink).Put")
	})
}

// A crash in the middle of a put fails what was under way in its process, and the
// next instance has a process of its own (PLUG-14).
func TestCrashFailsAllOfItsProcess(t *testing.T) {
	tests := []struct{ value, text string }{
		{"crash", "exit status 7; it wrote: something is very wrong"},
		{"kill", "signal: killed"},
		{"gopanic", "exit status 2; it wrote: panic: in the background"},
	}
	for _, tt := range tests {
		t.Run(tt.value, func(t *testing.T) {
			r := open(t, "good", Options{})
			a, b := instance(t, r, nil), instance(t, r, nil)
			other := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			hangs := filepath.Join(t.TempDir(), "hangs")
			go func() {
				_, _, err := put(ctx, b, "hang "+hangs)
				other <- err
			}()
			eventually(t, "the neighbour's put is under way", func() bool {
				_, err := os.Stat(hangs)
				return err == nil
			})
			got, _, err := put(t.Context(), a, "x", tt.value)
			if got != "--" {
				t.Errorf("results %q, want none", got)
			}
			var crash *CrashError
			if !errors.As(err, &crash) || codeOf(err) != "unknown/crash" || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v (%s), want a crash with %q", err, codeOf(err), tt.text)
			}
			if err := <-other; codeOf(err) != "unknown/crash" {
				t.Errorf("error of the neighbour's put: %v", err)
			}
			if !a.Gone() || !b.Gone() {
				t.Errorf("gone %v and %v, want both", a.Gone(), b.Gone())
			}
			if err := a.Stop(t.Context()); err != nil {
				t.Errorf("stop: %v", err)
			}
			next := instance(t, r, nil)
			if next.Process() == a.Process() {
				t.Errorf("the next instance lives in process %d again", next.Process())
			}
			if got, _, err := put(t.Context(), next, "x"); got != "a" || err != nil {
				t.Errorf("put after the crash: %q, %v", got, err)
			}
		})
	}
}

func TestReportedResultsStandAfterACrash(t *testing.T) {
	for _, value := range []string{"crash", "kill", "panic", "hang"} {
		t.Run(value, func(t *testing.T) {
			r := open(t, "reporter", Options{})
			if !r.Plugin().Description.Can(pluginapi.CanReport) {
				t.Fatal("the fixture does not report")
			}
			// What is reported at the very instant of a crash may be lost.
			in := instance(t, r, map[string]any{"delay": 200 * time.Millisecond})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got, _, err := put(ctx, in, "x", "reject", "wait", value, "x")
			if got != "aja--" || err == nil {
				t.Errorf("results %q, error %v, want what was reported and an error", got, err)
			}
		})
	}
}

func TestReporterMustReportAll(t *testing.T) {
	r := open(t, "reporter", Options{})
	in := instance(t, r, nil)
	if got, _, err := put(t.Context(), in, "x", "skip", "x"); got != "a-a" || codeOf(err) != "unknown/bad_answer" {
		t.Errorf("results %q, error %v", got, err)
	}
	if got, _, err := put(t.Context(), in, "x", "x"); got != "aa" || err != nil {
		t.Errorf("results %q, error %v", got, err)
	}
}

func TestPutTimeout(t *testing.T) {
	r := open(t, "good", Options{})
	t.Run("a sink that obeys keeps its process", func(t *testing.T) {
		in := instance(t, r, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		got, _, err := put(ctx, in, "x", "obey")
		if got != "ay" || err != nil || in.Gone() {
			t.Errorf("results %q, error %v, gone %v", got, err, in.Gone())
		}
	})
	t.Run("a cancel reaches the sink", func(t *testing.T) {
		in := instance(t, r, nil)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		got, results, err := put(ctx, in, "obey")
		if got != "y" || err != nil || in.Gone() {
			t.Fatalf("results %q, error %v, gone %v", got, err, in.Gone())
		}
		if results[0].Err.Message != context.Canceled.Error() {
			t.Errorf("the sink saw %q", results[0].Err.Message)
		}
		if got, _, err := put(t.Context(), in, "x"); got != "a" || err != nil {
			t.Errorf("next put: %q, %v", got, err)
		}
	})
	t.Run("a sink that hangs is killed", func(t *testing.T) {
		in := instance(t, r, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		got, _, err := put(ctx, in, "x", "hang")
		if got != "--" || codeOf(err) != "unknown/put_timeout" || !in.Gone() {
			t.Errorf("results %q, error %v, gone %v", got, err, in.Gone())
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("it took %s", d)
		}
	})
	t.Run("the deadline crosses", func(t *testing.T) {
		in := instance(t, r, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, results, err := put(ctx, in, "deadline"); err != nil || results[0].Err.Message != "true true" {
			t.Errorf("%+v, %v", results, err)
		}
		if _, results, err := put(t.Context(), in, "deadline"); err != nil || results[0].Err.Message != "false true" {
			t.Errorf("%+v, %v", results, err)
		}
	})
}

func TestStart(t *testing.T) {
	tests := []struct {
		start, code, text string
		gone              bool
	}{
		{"", "", "", false},
		{"fatal", "fatal/no_table", "no such table", false},
		{"plain", "none/", "plain", false},
		{"obey", "unavailable/late", "start was cancelled", false},
		{"panic", "unknown/panic", "panic in Start: start", true},
		{"hang", "unknown/put_timeout", "", true},
		{"exit", "unknown/crash", "exit status 8", true},
	}
	for _, tt := range tests {
		t.Run(tt.start, func(t *testing.T) {
			r := open(t, "good", Options{StopGrace: time.Second})
			in := made(t, r, map[string]any{"start": tt.start})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if tt.start == "" || tt.start == "exit" {
				ctx, cancel = context.WithCancel(t.Context())
			}
			defer cancel()
			err := in.Start(ctx)
			if tt.code == "" && err != nil || tt.code != "" && (codeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text)) {
				t.Errorf("error %v (%s), want %q with %q", err, codeOf(err), tt.code, tt.text)
			}
			if in.Gone() != tt.gone {
				t.Errorf("gone %v, want %v", in.Gone(), tt.gone)
			}
			_ = in.Stop(t.Context())
			// Whatever happened, the next instance works.
			if got, _, err := put(t.Context(), instance(t, r, nil), "x"); got != "a" || err != nil {
				t.Errorf("next instance: %q, %v", got, err)
			}
		})
	}
}

// A Stop that never returns is waited for as long as it may take (PLUG-11).
func TestStopThatHangsCostsTheProcess(t *testing.T) {
	r := open(t, "good", Options{StopGrace: 200 * time.Millisecond})
	in := instance(t, r, map[string]any{"stop": "hang"})
	if err := in.Stop(t.Context()); codeOf(err) != "unknown/put_timeout" {
		t.Errorf("stop: %v", err)
	}
	if err := in.Stop(t.Context()); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

func TestCheck(t *testing.T) {
	r := open(t, "good", Options{})
	if err := instance(t, r, nil).Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := instance(t, r, map[string]any{"start": "down"}).Check(t.Context()); codeOf(err) != "unavailable/down" {
		t.Errorf("check: %v", err)
	}
}

func TestGarbage(t *testing.T) {
	for _, value := range []string{"garbage", "cancel", "end", "fail"} {
		t.Run(value, func(t *testing.T) {
			r := open(t, "garbage", Options{})
			in := instance(t, r, nil)
			got, _, err := put(t.Context(), in, value, "x")
			if got != "--" || codeOf(err) != "unknown/bad_answer" || !in.Gone() {
				t.Errorf("results %q, error %v, gone %v", got, err, in.Gone())
			}
			// The process goes on for the others.
			if next := instance(t, r, nil); next.Process() != in.Process() {
				t.Errorf("processes %d, then %d", in.Process(), next.Process())
			}
		})
	}
	t.Run("two answers to one put", func(t *testing.T) {
		in := instance(t, open(t, "garbage", Options{}), nil)
		if got, _, err := put(t.Context(), in, "twice"); got != "a" || err != nil {
			t.Fatalf("first put: %q, %v", got, err)
		}
		if got, _, err := put(t.Context(), in, "garbage", "x"); got != "--" || codeOf(err) != "unknown/bad_answer" {
			t.Errorf("second put: %q, %v", got, err)
		}
	})
	t.Run("check", func(t *testing.T) {
		in := instance(t, open(t, "garbage", Options{}), nil)
		if err := in.Check(t.Context()); codeOf(err) != "unknown/bad_answer" {
			t.Errorf("check: %v", err)
		}
	})
}

// A plugin writes 10 MB to each of its outputs during a put: both are read
// always, and little of it is logged (PLUG-04).
func TestFloodAndLongLinesHurtNobody(t *testing.T) {
	var log logBuffer
	r := open(t, "good", Options{Logger: textLogger(&log)})
	in := instance(t, r, nil)
	if got, _, err := put(t.Context(), in, "flood", "longline"); got != "aa" || err != nil {
		t.Fatalf("results %q, error %v", got, err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	if len(text) > 4<<20 {
		t.Errorf("%d bytes of log", len(text))
	}
	if !strings.Contains(text, "plugin writes too many lines") {
		t.Error("nothing says that lines were left out")
	}
}

// What comes after a line that is too long is logged (PLUG-05).
func TestLongLineIsCut(t *testing.T) {
	var log logBuffer
	in := instance(t, open(t, "good", Options{Logger: textLogger(&log)}), nil)
	if got, _, err := put(t.Context(), in, "longline"); got != "a" || err != nil {
		t.Fatalf("results %q, error %v", got, err)
	}
	eventually(t, "the next line is logged", func() bool { return strings.Contains(log.String(), "after the long line") })
	if n := len(log.String()); n > 2*maxLine {
		t.Errorf("%d bytes of log for a long line", n)
	}
}

func TestLogsReachTheHost(t *testing.T) {
	var log logBuffer
	r := open(t, "good", Options{Logger: textLogger(&log)})
	instance(t, r, map[string]any{"start": "log", "password": "s3cr3t-canary"})
	for _, want := range []string{
		`level=WARN msg="sink started" plugin=good password=(secret) size=3 task=0 writer=0`,
		`level=ERROR msg="plugin output" plugin=good line="dsn is user:(secret)"`,
		`level=INFO msg="plugin output" plugin=good line="to stdout"`,
	} {
		eventually(t, want, func() bool { return strings.Contains(log.String(), want) })
	}
	if strings.Contains(log.String(), "canary") {
		t.Error("the secret is in the log")
	}
}

// A process that ends by itself is logged, whether or not something waits for
// it; one that the host stops is not.
func TestTheEndOfAProcessIsLogged(t *testing.T) {
	const ended = `msg="plugin process ended by itself"`
	var log logBuffer
	r := open(t, "good", Options{Logger: textLogger(&log)})
	in := instance(t, r, nil)
	pid := pidOf(t, in, "pid")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`level=WARN %s plugin=good pid=%d err="plugin process ended: signal: killed`, ended, pid)
	eventually(t, want, func() bool { return strings.Contains(log.String(), want) })
	instance(t, r, nil)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), ended); n != 1 {
		t.Errorf("the end of a process was logged %d times, want once", n)
	}
}

// A child that the plugin left behind ends with it (PLUG-10).
func TestChildrenDieWithTheProcess(t *testing.T) {
	r := open(t, "good", Options{})
	in := instance(t, r, nil)
	child := ask(t, in, "fork")
	if !exists(child) {
		t.Fatalf("there is no child %s", child)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child is gone", func() bool { return !exists(child) })
}

func TestEnvironment(t *testing.T) {
	t.Setenv("LOADER_TEST_KEPT_1", "kept")
	t.Setenv("LOADER_TEST_SECRET", "hidden")
	r := open(t, "good", Options{Env: map[string]string{"REGION": "eu"}, InheritEnv: []string{"LOADER_TEST_KEPT_*"}})
	env := strings.Split(ask(t, instance(t, r, nil), "env"), "\n")
	for _, want := range []string{"REGION=eu", "LOADER_TEST_KEPT_1=kept", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")} {
		if !slices.Contains(env, want) {
			t.Errorf("environment lacks %s", want)
		}
	}
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "PLUGIN_") || strings.HasPrefix(name, "SLUICE_") || strings.HasPrefix(name, "LOADER_TEST_KEPT") ||
			slices.Contains(append(inherited, "REGION"), name) {
			continue
		}
		t.Errorf("environment has %s", name)
	}
}

func TestProcessesSpreadInstances(t *testing.T) {
	r := open(t, "good", Options{Processes: 3})
	count := map[uint64]int{}
	for range 6 {
		count[instance(t, r, nil).Process()]++
	}
	if len(count) != 3 {
		t.Errorf("instances in processes %v, want 2 in each of 3", count)
	}
	for p, n := range count {
		if n != 2 {
			t.Errorf("process %d has %d instances, want 2", p, n)
		}
	}
}

func TestIsolatedInstanceHasAProcessOfItsOwn(t *testing.T) {
	r := open(t, "good", Options{})
	shared := instance(t, r, nil)
	alone, err := r.NewIsolated(t.Context(), pluginapi.Config{Connector: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if err := alone.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := ask(t, alone, "pid")
	if alone.Process() == shared.Process() {
		t.Error("it shares a process")
	}
	if err := alone.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if exists(pid) {
		t.Error("its process outlives it")
	}
	if got, _, err := put(t.Context(), shared, "x"); got != "a" || err != nil {
		t.Errorf("the shared instance: %q, %v", got, err)
	}
}

func TestManyInstancesAtOnce(t *testing.T) {
	r := open(t, "good", Options{Processes: 2})
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			in, err := r.NewInstance(t.Context(), pluginapi.Config{Connector: "c", Writer: n})
			if err != nil {
				t.Error(err)
				return
			}
			if err := in.Start(t.Context()); err != nil {
				t.Error(err)
			}
			for i := range 50 {
				values := make([]string, i)
				want := strings.Repeat("a", i)
				if got, _, err := put(t.Context(), in, values...); got != want || err != nil {
					t.Errorf("results %q, error %v", got, err)
					return
				}
			}
			if err := in.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// Batches and records beyond what gRPC takes in one message (PLUG-07).
func TestLargeBatch(t *testing.T) {
	in := instance(t, open(t, "good", Options{}), nil)
	values := make([]string, 1000)
	for i := range values {
		values[i] = strings.Repeat("v", 10_000)
	}
	values = append(values, strings.Repeat("v", 70<<20))
	if got, _, err := put(t.Context(), in, values...); got != strings.Repeat("a", 1001) || err != nil {
		t.Errorf("%d results, error %v", len(strings.Trim(got, "-")), err)
	}
}

// TestPutsArriveAsTheyWereSent covers both ways of a put frame, through shared
// memory and through gRPC, and what is too large for the first.
func TestPutsArriveAsTheyWereSent(t *testing.T) {
	for _, name := range []string{"good", "unshared"} {
		t.Run(name, func(t *testing.T) {
			in := instance(t, open(t, name, Options{}), nil)
			if p := in.form.(*processInstance).host; p.reads != (name == "good") || p.takes != p.reads {
				t.Errorf("shared memory: %t, sockets: %t", p.reads, p.takes)
			}
			r := rand.New(rand.NewPCG(1, 2))
			for _, size := range []int{10, 1000, 3 << 20, 5, 40 << 20, 1 << 20} {
				values := make([]string, 1+r.IntN(5))
				for i := range values {
					b := make([]byte, size+i)
					for j := 0; j < len(b); j += 7 {
						b[j] = byte(r.Uint32())
					}
					values[i] = "sum " + string(b)
				}
				_, results, err := put(t.Context(), in, values...)
				if err != nil {
					t.Fatalf("%d bytes: %v", size, err)
				}
				for i, res := range results {
					if want := fmt.Sprint(crc32.ChecksumIEEE([]byte(values[i][4:]))); res.Err == nil || res.Err.Message != want {
						t.Errorf("record %d of %d bytes is not what was sent: %v, want %s", i, size, res.Err, want)
					}
				}
			}
		})
	}
}

func TestMemoryLimit(t *testing.T) {
	in := instance(t, open(t, "good", Options{MemoryBytes: 256 << 20}), nil)
	_, _, err := put(t.Context(), in, "gobble")
	if codeOf(err) != "unknown/crash" || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("error %v", err)
	}
}

// A temporary directory too long for a socket's path (PLUG-08).
func TestLongTemporaryDirectory(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", long)
	if got, _, err := put(t.Context(), instance(t, open(t, "good", Options{}), nil), "x"); got != "a" || err != nil {
		t.Errorf("results %q, error %v", got, err)
	}
}

func TestSocketDirectoryIsLeftNowhere(t *testing.T) {
	run := filepath.Join("/tmp", fmt.Sprintf("sl%d", os.Getpid()))
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(run)
	t.Setenv("XDG_RUNTIME_DIR", run)
	instance(t, open(t, "good", Options{}), nil)
	left, err := os.ReadDir(run)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("%v is there while the plugin runs", left)
	}
}

// TestAPutToAStoppedProcessEndsInTime: its host may be in the middle of sending
// a frame that nobody reads.
func TestAPutToAStoppedProcessEndsInTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	for _, name := range []string{"good", "unshared"} {
		for size, value := range map[string]string{"small": "v", "large": strings.Repeat("v", 40<<20)} {
			t.Run(name+", "+size, func(t *testing.T) {
				in := instance(t, open(t, name, Options{PutGrace: 100 * time.Millisecond}), nil)
				pid := pidOf(t, in, "pid")
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the process has stopped", func() bool {
					b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
					return err == nil && strings.Contains(string(b), ") T ")
				})
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, _, err := put(ctx, in, value)
				var crash *CrashError
				if !errors.As(err, &crash) || !strings.Contains(crash.Killed, "did not return within") {
					t.Errorf("error %v, want that the process was killed", err)
				}
				if !in.Gone() {
					t.Error("the instance is said to be of use")
				}
			})
		}
	}
}
