package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lab is where the runs take place: a broker, the programs, and a folder for what they write.
type lab struct {
	root      string // Of the repository.
	dir       string
	bootstrap string
	brokers   []int  // Their processes.
	libs      string // Folder of Kafka's jars.
	gogc      int    // Of the raw clients in Go.
	replicas  int16  // Of topics.

	sink func() error // Compiles the Connect sink, once.
}

func (l *lab) program(name string) string { return filepath.Join(l.dir, "bin", name) }

// plugins is the folder Sluice finds its plugins of one form in; it starts faster without those it does not use.
func (l *lab) plugins(form string) string { return filepath.Join(l.dir, "plugins", form) }

// build compiles the programs of this checkout into the lab.
func (l *lab) build() error {
	if err := os.MkdirAll(l.plugins("builtin"), 0o700); err != nil {
		return err
	}
	for _, b := range []struct {
		out, from string
		wasm      bool
	}{
		{l.program("sluice"), "./cmd/sluice", false},
		{l.program("rawsession"), "./test/bench/rawsession", false},
		{l.program("rawconsumer"), "./test/bench/rawconsumer", false},
		{filepath.Join(l.plugins("process"), "sluice-sink-drop"), "./plugins/drop/sluice-sink-drop", false},
		{filepath.Join(l.plugins("wasm-go"), "drop.wasm"), "./test/bench/wasmdrop", true},
		{filepath.Join(l.plugins("process-refuse"), "sluice-sink-refuse"), "./test/bench/sluice-sink-refuse", false},
		{filepath.Join(l.plugins("wasm-refuse"), "refuse.wasm"), "./test/bench/wasmrefuse", true},
	} {
		args, env := []string{"build", "-o", b.out}, os.Environ()
		if b.wasm {
			args, env = append(args, "-buildmode=c-shared", "-ldflags=-s -w"), append(env, "GOOS=wasip1", "GOARCH=wasm")
		}
		cmd := exec.Command("go", append(args, b.from)...)
		cmd.Dir, cmd.Env = l.root, env
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", b.from, err, out)
		}
	}
	if err := os.MkdirAll(l.plugins("wasm-c"), 0o700); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(l.root, "examples/plugins/wasm-c/build"), filepath.Join(l.plugins("wasm-c"), "drop.wasm"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the example in C: %w\n%s", err, out)
	}
	return nil
}

// findBroker looks for the process of the broker among this one's children, by the file it was started with.
func (l *lab) findBroker(properties string) error {
	for _, pid := range children(os.Getpid()) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(b), properties) {
			l.brokers = append(l.brokers, pid)
			return nil
		}
	}
	return fmt.Errorf("no child process was started with %s", properties)
}

// busy is the CPU seconds the brokers have taken.
func (l *lab) busy() (sum float64) {
	for _, pid := range l.brokers {
		sum += cpuOf(pid)
	}
	return sum
}

// compiling is what of it their compilers have.
func (l *lab) compiling() (sum float64) {
	for _, pid := range l.brokers {
		sum += compilersOf(pid)
	}
	return sum
}
