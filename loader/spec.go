package loader

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/internal/abi/rpc"
)

// spec is what a plugin process is started from.
type spec struct {
	path   string
	sha256 string // What the file must have, if it is pinned; else empty.
	opts   Options
	name   string // For messages.
}

func newSpec(p *Plugin, opts Options) spec {
	s := spec{path: p.Path, opts: opts, name: p.Name}
	if p.pinned {
		s.sha256 = p.SHA256
	}
	return s
}

// command makes the process's command, with the host's end of its lifeline: a
// pipe that ends when this process does. files must be closed once the command
// is started, and so must what it is to inherit.
func (s *spec) command(handshake []string, inherit []childFile) (cmd *exec.Cmd, lifeline *os.File, files []*os.File, err error) {
	cmd = exec.Command(s.path) //nolint:noctx // Its end is the process's own business.
	if s.sha256 != "" {
		file, err := openVerified(s.path, s.sha256)
		if err != nil {
			return nil, nil, nil, err
		}
		// What is started is the file that was read, whatever its name stands
		// for by then. The descriptor is the process's third.
		files = append(files, file)
		cmd.ExtraFiles = []*os.File{file}
		if fd := "/proc/self/fd/3"; canExecDescriptor() {
			cmd.Path = fd
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		closeAll(files)
		return nil, nil, nil, fmt.Errorf("make lifeline: %w", err)
	}
	files = append(files, r)
	cmd.Stdin = r
	cmd.Env = slices.Concat(s.environment(), handshake, []string{rpc.LifelineKey + "=0"})
	for _, in := range inherit {
		if in.file != nil {
			cmd.ExtraFiles = append(cmd.ExtraFiles, in.file)
			cmd.Env = append(cmd.Env, in.key+"="+strconv.Itoa(2+len(cmd.ExtraFiles)))
		}
	}
	endWithWorker(cmd)
	return cmd, w, files, nil
}

// childFile is a file a plugin process has from its start, under the number in
// the variable key. Without a file it has neither.
type childFile struct {
	key  string
	file *os.File
}

// inherited are the variables every plugin process gets from the worker.
var inherited = []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ"}

// environment returns the process's environment without the handshake's part.
// Later entries win.
func (s *spec) environment() []string {
	env := []string{rpc.LogLevelKey + "=" + strings.ToLower(lowestLevel(s.opts.Logger).String())}
	if s.opts.MemoryBytes > 0 {
		// Above this the collector works harder, before the limit is met.
		env = append(env, fmt.Sprintf("GOMEMLIMIT=%d", s.opts.MemoryBytes/10*9))
	}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(inherited, name) || matchesAny(s.opts.InheritEnv, name) {
			env = append(env, entry)
		}
	}
	for name, value := range s.opts.Env {
		env = append(env, name+"="+value)
	}
	return env
}

func matchesAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := path.Match(glob, name)
		return err == nil && ok
	})
}

// lowestLevel returns the lowest of the four levels that logger takes.
func lowestLevel(logger *slog.Logger) slog.Level {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if logger.Enabled(context.Background(), level) {
			return level
		}
	}
	return slog.LevelError
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
