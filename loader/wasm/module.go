package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/pluginapi"
)

const (
	pageBytes     = 64 << 10
	defaultMemory = 64 << 20
	defaultGrace  = 500 * time.Millisecond
	maxFileBytes  = 256 << 20
)

// Options says what a module may do and where things go. The zero value is a
// module with the default memory and no network.
type Options struct {
	// MemoryBytes bounds an instance's memory, rounded down to whole pages of
	// 64 KiB, 4 GiB at most. Zero means 64 MiB.
	MemoryBytes int64

	// AllowHosts lists where the module may send HTTP requests: "host:port",
	// "host" (any port), an address in place of a host, or a network
	// ("10.1.0.0/16"). A name that resolves to a private, loopback or link-local
	// address is refused unless the address is listed too; "localhost" is
	// enough for itself.
	AllowHosts []string

	// CacheDir keeps compiled code from one run of the worker to the next. The
	// code in it is run as it is: nobody else may write there. Empty means no
	// cache. A cache that cannot be used is logged and done without.
	CacheDir string

	// SHA256 is the checksum the file must have, in hexadecimal. Empty means any.
	SHA256 string

	// Grace is how long a call may take after its context ended, to return what
	// it knows. Zero means 500 ms.
	Grace time.Duration

	// Logger gets the module's log, until an instance is started with a logger
	// of its own. Nil discards.
	Logger *slog.Logger
}

// Module is a compiled WASM sink. It is safe for concurrent use.
type Module struct {
	path     string
	opts     Options
	log      *slog.Logger
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	http     *sandbox
	frames   sync.Pool // Of *[]byte, for put requests.

	mu      sync.Mutex
	running int  // Calls in progress. Code must not be unmapped under them.
	closed  bool // Set by Close: no more calls.
	idle    chan struct{}
}

// Open reads, checks and compiles the module at path. It runs nothing of it.
// An error says what the file lacks.
func Open(ctx context.Context, path string, opts Options) (*Module, error) {
	m := &Module{path: path, opts: opts, log: opts.Logger, idle: make(chan struct{})}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.opts.MemoryBytes == 0 {
		m.opts.MemoryBytes = defaultMemory
	}
	if m.opts.Grace == 0 {
		m.opts.Grace = defaultGrace
	}
	if pages := m.opts.MemoryBytes / pageBytes; pages < 1 || pages > 1<<16 {
		return nil, fmt.Errorf("open %s: memory limit of %d bytes is not between 64 KiB and 4 GiB", path, m.opts.MemoryBytes)
	}
	var err error
	if m.http, err = newSandbox(opts.AllowHosts); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	binary, err := readModule(path, opts.SHA256)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := m.load(ctx, binary, opts.CacheDir); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return m, nil
}

func readModule(path, checksum string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	binary, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(binary) > maxFileBytes {
		return nil, fmt.Errorf("larger than %d MiB", maxFileBytes>>20)
	}
	if checksum != "" {
		sum := sha256.Sum256(binary)
		if got := hex.EncodeToString(sum[:]); !strings.EqualFold(got, checksum) {
			return nil, fmt.Errorf("checksum is %s, want %s", got, strings.ToLower(checksum))
		}
	}
	return binary, checkHeader(binary)
}

// load compiles with the cache, and without it if that does not work: a broken
// cache is no reason not to run.
func (m *Module) load(ctx context.Context, binary []byte, cacheDir string) error {
	if cacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(cacheDir)
		if err == nil {
			if err = m.compile(ctx, binary, cache); err == nil || errors.Is(err, errUnfit) {
				return err
			}
		}
		m.log.WarnContext(ctx, "compilation cache not used", "plugin", m.path, "dir", cacheDir, "err", err)
	}
	return m.compile(ctx, binary, nil)
}

func (m *Module) compile(ctx context.Context, binary []byte, cache wazero.CompilationCache) (err error) {
	config := wazero.NewRuntimeConfig().
		WithMemoryLimitPages(uint32(m.opts.MemoryBytes / pageBytes)).
		WithCloseOnContextDone(true)
	if cache != nil {
		config = config.WithCompilationCache(cache)
	}
	r := wazero.NewRuntimeWithConfig(ctx, config)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close(ctx))
		}
	}()
	compiled, err := r.CompileModule(ctx, binary)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return fmt.Errorf("provide wasi: %w", err)
	}
	if err := checkModule(compiled, r.Module(wasiModule).ExportedFunctionDefinitions()); err != nil {
		return err
	}
	if err := provideImports(ctx, r); err != nil {
		return fmt.Errorf("provide imports: %w", err)
	}
	m.runtime, m.compiled = r, compiled
	return nil
}

// Describe makes an instance, asks it for the plugin's description and drops
// it. The description is not checked beyond its form.
func (m *Module) Describe(ctx context.Context) (pluginapi.Description, error) {
	inst, err := m.Instance(ctx)
	if err != nil {
		return pluginapi.Description{}, err
	}
	var d pluginapi.Description
	err = inst.call(ctx, "describe", func(ctx context.Context) error {
		answer, err := inst.answer(ctx, inst.describe, 0, 0)
		if err != nil {
			return err
		}
		d, err = abi.DecodeDescription(answer)
		return err
	})
	inst.close()
	if err != nil {
		return pluginapi.Description{}, err
	}
	return d, nil
}

// errClosed is returned by calls after Close.
var errClosed = errors.New("module is closed")

// enter counts a call in; leave counts it out, and closes the runtime after the
// last one if Close was called meanwhile.
func (m *Module) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	m.running++
	return nil
}

func (m *Module) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	if m.running == 0 && m.closed {
		close(m.idle)
	}
}

// Close frees the module and its instances, which are gone then. It waits for
// calls in progress until ctx ends; if some are left it returns an error, and
// the module is freed when the last of them has ended.
func (m *Module) Close(ctx context.Context) error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	running := m.running
	if running == 0 {
		close(m.idle)
	}
	m.mu.Unlock()

	m.http.close()
	select {
	case <-m.idle:
	default:
		select {
		case <-m.idle:
		case <-ctx.Done():
			go func() { // Ends with the last call; owned by nobody, as that call is.
				<-m.idle
				_ = m.runtime.Close(context.WithoutCancel(ctx))
			}()
			return fmt.Errorf("close %s: %d calls still run: %w", m.path, running, context.Cause(ctx))
		}
	}
	if err := m.runtime.Close(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("close %s: %w", m.path, err)
	}
	return nil
}
