// Package mariadbtest runs a real MariaDB for tests: one server per test process, on loopback, with the binaries of the
// machine, a database of its own for each test. [Main] belongs in the TestMain of a package that uses it.
package mariadbtest

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sluicehq/sluice/test/internal/service"
	"github.com/sluicehq/sluice/test/require"
)

// Server is the running server of this test process.
type Server struct{ address string }

// shared is the one server of the process. It lives as long as the test process, over all its tests.
var shared service.Shared

// User and Password are those of an account that may do everything, for tests that look for the password where it must not be.
const (
	User     = "sluice"
	Password = "hush-mariadb"
)

// AddressVariable is the environment variable that names a server already running, HOST:PORT, started by this package in
// another process: a test that runs itself again, with another TZ say, needs no second server.
const AddressVariable = "SLUICE_TEST_MARIADB_ADDRESS"

// Main runs the tests, then stops the server if one was started. It returns the exit code.
func Main(m *testing.M) int {
	defer Stop()
	return m.Run()
}

// Stop stops the server of this process, if there is one.
func Stop() { shared.Stop() }

// Start returns the server, which the first call starts. Without MariaDB on the machine the test is skipped.
func Start(t testing.TB) *Server {
	t.Helper()
	install, daemon := find("mariadb-install-db"), find("mariadbd")
	if install == "" || daemon == "" {
		require.Service(t, "mariadb", "mariadbd and mariadb-install-db are not in PATH or /usr/sbin (apt-get install mariadb-server)")
	}
	address, err := shared.Start(os.Getenv(AddressVariable), plan(install, daemon))
	if err != nil {
		t.Fatalf("start MariaDB: %v", err)
	}
	return &Server{address}
}

// Database makes an empty database for the test and returns its address, mysql://USER:PASSWORD@HOST:PORT/NAME.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := shared.Database()
	s.Exec(t, "", "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	return s.DSN(name)
}

// Address returns HOST:PORT.
func (s *Server) Address() string { return s.address }

// DSN returns the address of a database.
func (s *Server) DSN(database string) string {
	return "mysql://" + User + ":" + Password + "@" + s.address + "/" + database
}

// Exec runs statements in the database at dsn, one of this server; "" is none.
func (s *Server) Exec(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	db, err := s.open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Query returns the rows of a query as MariaDB's own client prints them: columns separated by "|", null as "NULL".
func (s *Server) Query(t testing.TB, dsn, query string) []string {
	t.Helper()
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), find("mariadb"), "--no-defaults", "-h", host, "-P", port, "-u", User,
		"--default-character-set=utf8mb4", "-N", "-B", "-e", query, dsn[strings.LastIndexByte(dsn, '/')+1:])
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+Password)
	lines := service.Lines(t, query, cmd)
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "\t", "|")
	}
	return lines
}

func (s *Server) open(dsn string) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.Timeout = User, Password, "tcp", s.address, 5*time.Second
	if dsn != "" {
		cfg.DBName = dsn[strings.LastIndexByte(dsn, '/')+1:]
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// find returns the path of a program, "" if there is none.
func find(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path := filepath.Join("/usr/sbin", name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

func plan(install, daemon string) service.Plan {
	return service.Plan{
		Name:    "mariadb",
		Account: "mysql",
		Setup:   fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO '%s'@'%%' WITH GRANT OPTION;\n", User, Password, User),
		Signal:  syscall.SIGTERM,
		Install: func(ctx context.Context, dir string) *exec.Cmd {
			return exec.CommandContext(ctx, install, "--no-defaults", "--datadir="+filepath.Join(dir, "data"),
				"--auth-root-authentication-method=normal", "--skip-test-db")
		},
		Run: func(dir, port string) *exec.Cmd {
			// The zone is one that shows a client which forgets to set its own.
			return exec.Command(daemon, "--no-defaults", "--datadir="+filepath.Join(dir, "data"), "--port="+port,
				"--bind-address=127.0.0.1", "--skip-name-resolve", "--socket="+filepath.Join(dir, "s.sock"),
				"--pid-file="+filepath.Join(dir, "pid"), "--init-file="+filepath.Join(dir, "setup"), "--default-time-zone=+02:00")
		},
		Ask: func(address string) error {
			db, err := (&Server{address}).open("")
			if err != nil {
				return err
			}
			defer db.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return db.PingContext(ctx)
		},
	}
}
