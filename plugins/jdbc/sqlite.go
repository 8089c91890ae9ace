package jdbc

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"modernc.org/sqlite"
)

// sqliteDB is a connection to an SQLite file.
type sqliteDB struct {
	sqlConn
	path string
	wal  bool // The journal's mode is set.
	settings
}

func openSQLite(dsn string, s *settings) (database, error) {
	path := strings.TrimPrefix(dsn, "sqlite:")
	path = strings.TrimPrefix(path, "//")
	switch {
	case path == "" || path == ":memory:":
		return nil, invalid("dsn: want the path of a database file, as in sqlite:/var/lib/app/orders.db")
	case strings.ContainsAny(path, "?\x00"):
		return nil, invalid("dsn: the path of an SQLite file has no options behind a question mark")
	}
	return &sqliteDB{path: path, settings: *s}, nil
}

func (l *sqliteDB) quote(name string) string { return quoteWith(`"`, name) }
func (l *sqliteDB) maxParams() int           { return 32766 }
func (l *sqliteDB) numbered() bool           { return false }
func (l *sqliteDB) savepoints() bool         { return false }

// begin takes the write lock at once. A transaction that only wants it later may be refused without any waiting, since what
// it has read is stale.
func (l *sqliteDB) begin() string { return "BEGIN IMMEDIATE" }

func (l *sqliteDB) insert(t *table, s *settings, sh *shape) (head, tail string) {
	return onConflict(l, t, s, sh)
}

func (l *sqliteDB) connect(ctx context.Context, write bool) *fault {
	if l.conn == nil {
		if f := l.dial(ctx); f != nil {
			return f
		}
	}
	if write && !l.wal {
		// The mode is stored in the file, so it is not set before something is written.
		if err := l.run(ctx, "PRAGMA journal_mode=WAL", nil); err != nil {
			return l.fault(ctx, err)
		}
		l.wal = true
	}
	return nil
}

func (l *sqliteDB) dial(ctx context.Context) *fault {
	if _, err := os.Stat(l.path); errors.Is(err, os.ErrNotExist) {
		return newFault(faultFatal, "no_database", fmt.Sprintf("the database file %s does not exist; create it with its tables", l.path))
	}
	// mode=rw: a file that is not there is not made, by a check least of all.
	address := url.URL{Scheme: "file", Opaque: (&url.URL{Path: l.path}).EscapedPath(), RawQuery: "mode=rw"}
	connector, err := sqlite.NewConnector(address.String())
	if err != nil {
		return newFault(faultFatal, "dsn", "dsn: "+err.Error())
	}
	if err := l.open(ctx, connector); err != nil {
		return l.fault(ctx, err)
	}
	wait := strconv.FormatInt(l.timeout.Milliseconds(), 10)
	for _, pragma := range [...]string{"busy_timeout=" + wait, "foreign_keys=ON", "synchronous=FULL"} {
		if err := l.run(ctx, "PRAGMA "+pragma, nil); err != nil {
			return l.fault(ctx, err)
		}
	}
	return nil
}

func (l *sqliteDB) close() {
	l.sqlConn.close()
	l.wal = false
}

func (l *sqliteDB) ping(ctx context.Context) *fault {
	return l.exec(ctx, "SELECT count(*) FROM sqlite_schema", nil)
}

func (l *sqliteDB) exec(ctx context.Context, statement string, params []any) *fault {
	return l.fault(ctx, l.run(ctx, statement, params))
}

func (l *sqliteDB) commit(ctx context.Context) (f *fault, unknown bool) {
	if f = l.fault(ctx, l.run(ctx, "COMMIT", nil)); f == nil {
		return nil, false
	}
	// A transaction that cannot be committed stays open, unless the disk failed in the middle.
	if f.isolates() || f.kind == faultConflict {
		return f, false
	}
	l.close()
	return f, true
}

// fault classifies an error.
func (l *sqliteDB) fault(ctx context.Context, err error) *fault {
	if err == nil {
		return nil
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		l.close()
		if f := contextFault(ctx.Err()); f != nil {
			return f
		}
		return newFault(faultLost, "connection", err.Error())
	}
	kind := sqliteKind(e.Code())
	if kind == faultTarget || kind == faultTimeout {
		l.close()
	}
	if f := contextFault(ctx.Err()); f != nil && kind == faultTimeout {
		return f
	}
	return newFault(kind, strconv.Itoa(e.Code()), e.Error())
}

// sqliteKind classifies an extended result code.
func sqliteKind(code int) faultKind {
	switch code & 0xff {
	case 19, 20, 18: // Constraint, mismatch, too big.
		return faultData
	case 5, 6: // Busy, locked.
		return faultConflict
	case 9: // Interrupted.
		return faultTimeout
	case 1: // No such table or column, or a statement that does not fit.
		return faultStale
	case 3, 7, 8, 10, 13, 14, 15, 23: // Permission, memory, read-only, input and output, full, cannot open, protocol, not allowed.
		return faultTarget
	case 11, 26: // Corrupt, not a database.
		return faultFatal
	default:
		return faultOdd
	}
}
