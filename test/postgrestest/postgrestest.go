// Package postgrestest runs a real PostgreSQL for tests: one server per test process, on loopback, with the binaries of the
// machine, a database of its own for each test. [Main] belongs in the TestMain of a package that uses it.
package postgrestest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice/test/internal/service"
	"github.com/sluicehq/sluice/test/require"
)

// Server is the running server of this test process.
type Server struct{ address string }

// shared is the one server of the process. It lives as long as the test process, over all its tests.
var shared service.Shared

// AddressVariable is the environment variable that names a server already running, HOST:PORT, started by this package in
// another process: a test that runs itself again, with another TZ say, needs no second server.
const AddressVariable = "SLUICE_TEST_POSTGRES_ADDRESS"

// Main runs the tests, then stops the server if one was started. It returns the exit code.
func Main(m *testing.M) int {
	defer Stop()
	return m.Run()
}

// Stop stops the server of this process, if there is one.
func Stop() { shared.Stop() }

// Start returns the server, which the first call starts. Without PostgreSQL on the machine the test is skipped.
func Start(t testing.TB) *Server {
	t.Helper()
	bin := binaries()
	if bin == "" {
		require.Service(t, "postgres", "initdb and postgres are not in PATH or /usr/lib/postgresql (apt-get install postgresql)")
	}
	address, err := shared.Start(os.Getenv(AddressVariable), plan(bin))
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	return &Server{address}
}

// Database makes an empty database for the test and returns its address, with the password of a superuser.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := shared.Database()
	conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return s.DSN(name)
}

// Address returns HOST:PORT.
func (s *Server) Address() string { return s.address }

// DSN returns the address of a database.
func (s *Server) DSN(database string) string {
	return "postgres://postgres:" + Password + "@" + s.address + "/" + database
}

// Password is the superuser's password, for tests that look for it where it must not be.
const Password = "hush-postgres"

// Exec runs statements in the database at dsn.
func Exec(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Query returns the rows of a query as psql, PostgreSQL's own client, prints them: columns separated by "|", null as "NULL".
func (s *Server) Query(t testing.TB, dsn, query string) []string {
	t.Helper()
	return service.Lines(t, query, exec.CommandContext(t.Context(), psql(), "-X", "-A", "-t", "-q", "-P", "null=NULL", "-c", query, dsn))
}

// psql returns the path of PostgreSQL's own client.
func psql() string {
	path := filepath.Join(binaries(), "psql")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return "psql" // In PATH, or the error says so.
}

// binaries returns the folder of initdb and postgres, "" if there is none.
func binaries() string {
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return ""
	}
	sort.Sort(sort.Reverse(sort.StringSlice(folders)))
	if path, err := exec.LookPath("postgres"); err == nil {
		folders = append([]string{filepath.Dir(path)}, folders...)
	}
	for _, dir := range folders {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir
		}
	}
	return ""
}

func plan(bin string) service.Plan {
	return service.Plan{
		Name:    "postgres",
		Account: "postgres",
		Setup:   Password,
		Signal:  syscall.SIGINT,
		Install: func(ctx context.Context, dir string) *exec.Cmd {
			return exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres",
				"-A", "scram-sha-256", "--pwfile", filepath.Join(dir, "setup"), "-E", "UTF8", "--locale=C", "--no-sync")
		},
		Run: func(dir, port string) *exec.Cmd {
			// The zone is one that shows a client which forgets to set its own.
			return exec.Command(filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-p", port,
				"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "timezone=America/New_York",
				"-c", "deadlock_timeout=100ms", "-c", "max_prepared_transactions=0")
		},
		Ask: func(address string) error {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			conn, err := pgx.Connect(ctx, (&Server{address}).DSN("postgres"))
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
	}
}
