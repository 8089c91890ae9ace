package loader

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/pluginapi"
)

// workerKey makes the test binary a worker that loads a plugin and waits to be
// killed.
const workerKey = "SLUICE_LOADER_TEST_DIR"

// runWorker starts two plugin processes with a child each, prints all pids, and
// waits.
func runWorker() {
	ctx := context.Background()
	c := NewCatalog(CatalogOptions{Dirs: []string{os.Getenv(workerKey)}})
	p, err := c.Resolve(ctx, "good", Pin{})
	if err != nil {
		panic(err)
	}
	r, err := p.Open(ctx, Options{Processes: 2})
	if err != nil {
		panic(err)
	}
	for range 2 {
		in, err := r.NewInstance(ctx, pluginapi.Config{Connector: "c"})
		if err != nil {
			panic(err)
		}
		if err := in.Start(ctx); err != nil {
			panic(err)
		}
		_, results, err := put(ctx, in, "pid", "fork")
		if err != nil {
			panic(err)
		}
		fmt.Println(results[0].Err.Message, results[1].Err.Message)
	}
	fmt.Println("ready", os.TempDir())
	select {}
}

// A worker that is killed cannot stop its plugins. The parent-death signal ends
// the plugin, the guard its children. A signal of the worker's terminal does not
// reach them: they have a process group of their own (PLUG-01).
func TestNothingOutlivesAKilledWorker(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir := t.TempDir()
	drop(t, dir, "good")
	for round := range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), workerKey+"="+dir, "TMPDIR="+t.TempDir())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var pids []string
		s := bufio.NewScanner(out)
		for s.Scan() && !strings.HasPrefix(s.Text(), "ready") {
			pids = append(pids, strings.Fields(s.Text())...)
		}
		if len(pids) != 4 {
			t.Fatalf("round %d: processes %v, want two plugins with a child each", round, pids)
		}
		for _, pid := range pids {
			if !exists(pid) {
				t.Fatalf("round %d: process %s is not there before the kill", round, pid)
			}
		}
		for i := 0; i < len(pids); i += 2 { // The plugins.
			if group := processGroup(t, pids[i]); group != pids[i] {
				t.Errorf("round %d: plugin %s is in process group %s, want its own", round, pids[i], group)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		for _, pid := range pids {
			eventually(t, "process "+pid+" is gone", func() bool { return !exists(pid) })
		}
	}
	if left := processes(dir); len(left) > 0 {
		t.Errorf("plugin processes %v are left", left)
	}
}

// processGroup returns the process group of a process.
func processGroup(t *testing.T, pid string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ") // Its name may have blanks.
	return strings.Fields(rest)[2]
}
