package service

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// installTimeout bounds [Plan.Install].
const installTimeout = time.Minute

// Plan says how a database server is installed in a folder of its own and run. The commands run in that folder, under the account.
type Plan struct {
	Name    string         // Part of the folder's name.
	Account string         // What to run under in place of root.
	Setup   string         // What the file "setup" in the folder holds; only the account may read it.
	Signal  syscall.Signal // Stops the server.

	Install func(ctx context.Context, dir string) *exec.Cmd // Makes the folder's data; has a minute.
	Run     func(dir, port string) *exec.Cmd                // Serves 127.0.0.1:port.
	Ask     func(address string) error                      // Succeeds when the server is ready.
}

// Shared is a database server of which a test process runs one, over all its tests. The zero value is not started. It is safe
// for concurrent use.
type Shared struct {
	mu        sync.Mutex
	address   string   // Empty until it is started.
	process   *Process // Nil for a server of another process.
	dir       string
	signal    syscall.Signal
	err       error // Of the start, which is tried once.
	databases int
}

// Start returns the server's HOST:PORT. The first call starts it, unless running is the address of one that another process
// started.
func (s *Shared) Start(running string, plan Plan) (address string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address == "" {
		s.address = running
	}
	if s.address == "" && s.err == nil {
		s.err = s.start(plan)
	}
	return s.address, s.err
}

// Stop stops the server if this process started it.
func (s *Shared) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Stop(s.signal)
		_ = os.RemoveAll(s.dir)
		s.process, s.address = nil, ""
	}
}

// Database returns a name for a database that no other test has, in this process or another.
func (s *Shared) Database() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.databases++
	return fmt.Sprintf("test_%d_%d", os.Getpid(), s.databases)
}

// Lines runs a client that asks query and returns the lines it prints.
func Lines(t testing.TB, query string, client *exec.Cmd) []string {
	t.Helper()
	out, err := client.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", query, err, out)
	}
	text := strings.TrimRight(string(out), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// start carries out plan. s.mu must be held.
func (s *Shared) start(plan Plan) (err error) {
	account, err := Unprivileged(plan.Account)
	if err != nil {
		return err
	}
	dir, err := Folder(plan.Name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	setup := filepath.Join(dir, "setup")
	if err := os.WriteFile(setup, []byte(plan.Setup), 0o600); err != nil {
		return err
	}
	for _, path := range []string{dir, setup} {
		if err := account.Own(path); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	install := plan.Install(ctx, dir)
	install.Dir = dir
	account.Run(install)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(install.Path), err, out)
	}
	address, err := Address()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	run := plan.Run(dir, port)
	run.Dir = dir
	account.Run(run)
	process, err := Start(run)
	if err != nil {
		return err
	}
	if err := process.Ready(func() error { return plan.Ask(address) }); err != nil {
		process.Stop(plan.Signal)
		return err
	}
	s.address, s.process, s.dir, s.signal = address, process, dir, plan.Signal
	return nil
}
