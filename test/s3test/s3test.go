// Package s3test runs a real S3 server, versitygw, for tests: one per test process, on loopback, keeping its objects in a
// temporary folder. [Main] belongs in the TestMain of a package that uses it.
package s3test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/internal/service"
	"github.com/sluicehq/sluice/test/require"
)

// Server is the running server of this test process.
type Server struct {
	process *service.Process
	dir     string
	address string
}

// AccessKey and SecretKey are the server's credentials.
const (
	AccessKey = "sluice"
	SecretKey = "hush-versitygw"
)

// Region is the region the server says it is.
const Region = "us-east-1"

// shared is the one server of the process. It lives as long as the test process, over all its tests.
var shared struct {
	sync.Mutex
	server *Server
	err    error
}

// Main runs the tests, then stops the server if one was started. It returns the exit code.
func Main(m *testing.M) int {
	defer Stop()
	return m.Run()
}

// Stop stops the server of this process, if there is one.
func Stop() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.process.Stop(syscall.SIGTERM)
		_ = os.RemoveAll(shared.server.dir)
		shared.server = nil
	}
}

// Start returns the server, which the first call starts. Without versitygw on the machine the test is skipped.
func Start(t testing.TB) *Server {
	t.Helper()
	program := find()
	if program == "" {
		require.Service(t, "s3", "versitygw is not in PATH, GOPATH/bin or .cache/bin of the repository (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0)")
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start(program)
	}
	if shared.err != nil {
		t.Fatalf("start versitygw: %v", shared.err)
	}
	return shared.server
}

// Endpoint returns the server's URL.
func (s *Server) Endpoint() string { return "http://" + s.address }

// find returns the path of versitygw, "" if there is none.
func find() string {
	const name = "versitygw"
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	var folders []string
	if gopath := os.Getenv("GOPATH"); gopath != "" {
		folders = append(folders, filepath.Join(gopath, "bin"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		folders = append(folders, filepath.Join(home, "go", "bin"))
	}
	// Tests run in their package's folder; the root of the repository is the one with go.mod.
	if dir, err := os.Getwd(); err == nil {
		for {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				folders = append(folders, filepath.Join(dir, ".cache", "bin"))
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	for _, dir := range folders {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

func start(program string) (s *Server, err error) {
	dir, err := service.Folder("versitygw")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	address, err := service.Address()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "--port", address, "posix", dir)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	process, err := service.Start(cmd)
	if err != nil {
		return nil, err
	}
	s = &Server{process: process, dir: dir, address: address}
	err = process.Ready(func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		process.Stop(syscall.SIGTERM)
		return nil, err
	}
	return s, nil
}
