package kafkatest

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/require"
)

const (
	// readyTimeout bounds the start of a cluster, on a machine busy with other tests too.
	readyTimeout = 2 * time.Minute

	// startAttempts is how often a cluster is tried: between the choice of a port and the broker's bind another process may take it.
	startAttempts = 3
)

//go:embed log4j2.xml
var log4jConfig []byte

// Cluster is one or more running Kafka brokers. Brokers are counted from 0; the node id of broker i is i+1. Its methods may be
// called from several goroutines, those that take a [testing.TB] only from the test's own.
type Cluster struct {
	opts    Options
	dir     string
	dirLock *os.File
	ports   []map[string]int // by broker, by listener
	brokers []*broker
	certs   *Certificates // nil without a TLS listener
}

// process is what all clusters of the test process share.
var process struct {
	slots  slots
	once   sync.Once
	shared *Cluster
	err    error
}

// Shared returns the one-broker cluster of the test process and starts it at the first call. It ends with the process. Tests use
// topics and groups of their own ([Cluster.Topic], [Cluster.CreateTopic]) and must not stop its broker.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	libs := findLibs(t, Version)
	process.once.Do(func() { process.shared, process.err = start(context.Background(), libs, Options{}) })
	if process.err != nil {
		t.Fatalf("start the shared Kafka broker: %v", process.err)
	}
	c := process.shared
	t.Cleanup(func() { c.logFailure(t) })
	return c
}

// New starts a cluster for this test alone and stops it when the test ends.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	libs := findLibs(t, cmp.Or(o.Version, Version))
	c, err := start(t.Context(), libs, o)
	if err != nil {
		t.Fatalf("start Kafka: %v", err)
	}
	t.Cleanup(func() {
		c.logFailure(t)
		c.close()
	})
	return c
}

// findLibs returns the folder of the jars, or ends the test: Java or the jars are missing.
func findLibs(t testing.TB, version string) string {
	t.Helper()
	if _, err := exec.LookPath("java"); err != nil {
		require.Service(t, "kafka", `there is no "java" (17 or newer) on the path; "make test-deps" installs it`)
	}
	libs := os.Getenv("SLUICE_KAFKA_LIBS")
	if libs == "" || version != Version {
		root, err := moduleRoot()
		if err != nil {
			t.Fatalf("find Kafka's jars: %v", err)
		}
		libs = filepath.Join(root, ".cache", "kafka", version, "libs")
	}
	if jars, _ := filepath.Glob(filepath.Join(libs, "kafka_*.jar")); len(jars) == 0 {
		require.Service(t, "kafka", fmt.Sprintf("no jars in %s; \"make test-deps\" fetches them", libs))
	}
	return libs
}

// moduleRoot walks up from the working folder, which "go test" sets to the package's, to the repository's go.mod. Modules inside
// the repository have a go.mod of their own: the outermost one counts.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	found := ""
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			found = dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	if found == "" {
		return "", errors.New("no go.mod above the working folder")
	}
	return found, nil
}

// start makes a cluster and waits until every broker knows every other.
func start(ctx context.Context, libs string, o Options) (_ *Cluster, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if !o.training {
		if err := process.slots.acquire(ctx); err != nil {
			return nil, err
		}
	}
	for attempt := 1; ; attempt++ {
		c, err := startOnce(ctx, libs, o)
		if err == nil {
			return c, nil
		}
		if attempt == startAttempts || !strings.Contains(err.Error(), "Address already in use") {
			if !o.training {
				process.slots.release()
			}
			return nil, err
		}
	}
}

func startOnce(ctx context.Context, libs string, o Options) (_ *Cluster, err error) {
	sweep(os.TempDir())
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	c := &Cluster{opts: o, dir: dir}
	defer func() {
		if err != nil {
			c.remove()
		}
	}()
	if c.dirLock, err = tryLock(filepath.Join(dir, "owner")); err != nil {
		return nil, err
	}
	for _, l := range o.Listeners {
		if l.TLS && c.certs == nil {
			if c.certs, err = WriteCertificates(dir); err != nil {
				return nil, err
			}
		}
	}
	if err := c.prepare(ctx, libs); err != nil {
		return nil, err
	}
	for _, b := range c.brokers {
		if err := b.start(); err != nil {
			return nil, err
		}
	}
	for _, b := range c.brokers {
		if err := c.awaitReady(ctx, b, len(c.brokers)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// close ends the brokers without ceremony, removes their folder and frees the slot.
func (c *Cluster) close() {
	c.remove()
	if !c.opts.training {
		process.slots.release()
	}
}

func (c *Cluster) remove() {
	for _, b := range c.brokers {
		if b.running() {
			_ = b.end(syscall.SIGKILL) // gone already is as good
		}
	}
	_ = os.RemoveAll(c.dir) // what stays is swept by the next start
	if c.dirLock != nil {
		_ = c.dirLock.Close()
	}
}

// logFailure shows the end of the brokers' logs with a failed test.
func (c *Cluster) logFailure(t testing.TB) {
	if !t.Failed() {
		return
	}
	for _, b := range c.brokers {
		t.Logf("last lines of the log of broker %d:\n%s", b.index, b.tail(15))
	}
}
