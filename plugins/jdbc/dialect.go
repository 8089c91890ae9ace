package jdbc

import (
	"context"
	"strings"

	"github.com/sluicehq/sluice/pluginapi/data"
)

// dialect is what differs between databases in the text and values of statements. It holds no connection.
type dialect interface {
	// quote returns a name as an identifier.
	quote(name string) string
	// insert returns the text before and after the rows of a statement.
	insert(t *table, s *settings, sh *shape) (head, tail string)
	// value returns v as the database takes it for c: a string, []byte, int64, uint64, float64, or nil for NULL. The error
	// says why c cannot hold v.
	value(c *column, v data.Value) (any, error)
	// maxParams is the most parameters of one statement.
	maxParams() int
	// numbered says that parameters are written $1, $2, not ?.
	numbered() bool
	// savepoints says that a statement that failed spoils its transaction.
	savepoints() bool
}

// database is one connection to one database. It is used by one goroutine, and connects again by itself after close.
type database interface {
	dialect
	// connect connects if there is no connection. For a connection that shall write, write is true.
	connect(ctx context.Context, write bool) *fault
	// close drops the connection, if there is one.
	close()
	// ping asks the server for a sign of life.
	ping(ctx context.Context) *fault
	// read returns what is known of a table, nil if there is no such table.
	read(ctx context.Context, name tableName) (*table, *fault)
	// exec runs a statement.
	exec(ctx context.Context, statement string, params []any) *fault
	// commit ends the transaction that exec began. The second result says that it is not known whether it was committed.
	commit(ctx context.Context) (f *fault, unknown bool)
	// begin returns the statement that begins a transaction that writes.
	begin() string
}

// open returns the database that dsn names, without connecting.
func open(dsn string, s *settings) (database, error) {
	scheme, _, ok := strings.Cut(dsn, ":")
	switch {
	case !ok:
		return nil, invalid("dsn: want postgres://…, mysql://… or sqlite:FILE")
	case scheme == "postgres" || scheme == "postgresql":
		return openPostgres(dsn, s)
	case scheme == "mysql" || scheme == "mariadb":
		return openMySQL(dsn, s)
	case scheme == "sqlite":
		return openSQLite(dsn, s)
	default:
		return nil, invalid("dsn: this kind of database is not known; want postgres://…, mysql://… or sqlite:FILE")
	}
}

// scrubber replaces secrets in texts that come from drivers and servers.
type scrubber struct{ replacer *strings.Replacer }

// newScrubber returns one for the given secrets; short and empty ones would only garble the text.
func newScrubber(secrets ...string) scrubber {
	var pairs []string
	for _, s := range secrets {
		if len(s) >= 3 {
			pairs = append(pairs, s, "(secret)")
		}
	}
	return scrubber{strings.NewReplacer(pairs...)}
}

func (s scrubber) fault(kind faultKind, code, message string) *fault {
	return newFault(kind, code, s.replacer.Replace(message))
}
