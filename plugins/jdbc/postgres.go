package jdbc

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// postgres is a connection to PostgreSQL. Parameters travel in text form without a type, so the server takes each for what
// its column is.
type postgres struct {
	config *pgconn.Config
	scrub  scrubber
	conn   *pgconn.PgConn
	// prepared holds the server's statements by text: nil after the first use of a text, prepared at its second. Full batches
	// of one shape have one text, and its reading costs the server more than the rows.
	prepared map[string]*pgconn.StatementDescription
	names    int
	forget   bool // The server's statements are to be dropped: the types they were made for may have changed.
	plain    bool // A pooler stands between us and the server, and statements do not stay where they were prepared.
	settings
}

// maxPrepared bounds the statements that a connection remembers.
const maxPrepared = 64

func openPostgres(dsn string, s *settings) (database, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		// The text of the error holds parts of the address.
		return nil, invalid("dsn: not a PostgreSQL address; want postgres://user:password@host:5432/database, with what is special in URLs percent-encoded")
	}
	config.ConnectTimeout = s.connectTimeout
	// Texts without a zone, and dates, mean the same whatever the server's or the user's defaults are.
	config.RuntimeParams["timezone"] = "UTC"
	config.RuntimeParams["datestyle"] = "ISO, MDY"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "sluice"
	}
	return &postgres{config: config, scrub: newScrubber(config.Password, dsn), settings: *s}, nil
}

func (p *postgres) quote(name string) string { return quoteWith(`"`, name) }
func (p *postgres) maxParams() int           { return 65535 }
func (p *postgres) numbered() bool           { return true }
func (p *postgres) savepoints() bool         { return true }

func (p *postgres) begin() string {
	if p.forget {
		p.forget = false
		return "DEALLOCATE ALL; BEGIN"
	}
	return "BEGIN"
}

func (p *postgres) insert(t *table, s *settings, sh *shape) (head, tail string) {
	return onConflict(p, t, s, sh)
}

func (p *postgres) connect(ctx context.Context, _ bool) *fault {
	if p.conn != nil && !p.conn.IsClosed() {
		return nil
	}
	p.conn = nil
	ctx, cancel := context.WithTimeout(ctx, p.connectTimeout)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, p.config)
	if err != nil {
		return p.connectFault(err)
	}
	p.conn = conn
	p.prepared, p.forget = make(map[string]*pgconn.StatementDescription), false
	return nil
}

// connectFault classifies the error of a connection attempt. All but a database that does not exist may be put right while
// we wait.
func (p *postgres) connectFault(err error) *fault {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		if server.Code == "3D000" {
			return p.scrub.fault(faultFatal, server.Code, "connect: "+server.Message)
		}
		return p.scrub.fault(faultTarget, server.Code, "connect: "+server.Message)
	}
	return p.scrub.fault(faultTarget, "connect", "connect: "+rootText(err))
}

// rootText returns the texts at the ends of an error's chain: pgconn's own text repeats the user and the database for each
// address.
func rootText(err error) string {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		err = connect.Unwrap()
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

func (p *postgres) close() {
	if p.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	_ = p.conn.Close(ctx) // It is dropped either way.
	p.conn = nil
}

func (p *postgres) ping(ctx context.Context) *fault {
	return p.exec(ctx, "SELECT 1", nil)
}

func (p *postgres) exec(ctx context.Context, statement string, params []any) *fault {
	if p.conn == nil {
		return newFault(faultLost, "connection", "there is no connection")
	}
	if params == nil {
		_, err := p.conn.Exec(ctx, statement).ReadAll()
		return p.fault(ctx, err)
	}
	values, formats := make([][]byte, len(params)), make([]int16, len(params))
	for i, param := range params {
		switch v := param.(type) {
		case string:
			values[i] = []byte(v)
		case []byte:
			values[i], formats[i] = v, 1
		}
	}
	prepared, err := p.prepare(ctx, statement)
	switch {
	case err != nil:
		return p.fault(ctx, err)
	case prepared == nil:
		return p.fault(ctx, p.conn.ExecParams(ctx, statement, values, nil, formats, nil).Read().Err)
	default:
		return p.fault(ctx, p.conn.ExecStatement(ctx, prepared, values, formats, nil).Read().Err)
	}
}

// prepare returns the server's statement for a text, nil at the text's first use.
func (p *postgres) prepare(ctx context.Context, statement string) (*pgconn.StatementDescription, error) {
	prepared, seen := p.prepared[statement]
	if prepared != nil {
		return prepared, nil
	}
	if p.plain {
		return nil, nil
	}
	if len(p.prepared) >= maxPrepared {
		p.dropPrepared()
	}
	if !seen {
		p.prepared[statement] = nil
		return nil, nil
	}
	p.names++
	prepared, err := p.conn.Prepare(ctx, "sluice_"+strconv.Itoa(p.names), statement, nil)
	if err != nil {
		return nil, err
	}
	p.prepared[statement] = prepared
	return prepared, nil
}

func (p *postgres) commit(ctx context.Context) (f *fault, unknown bool) {
	if p.conn == nil {
		return newFault(faultLost, "connection", "there is no connection"), false
	}
	results, err := p.conn.Exec(ctx, "COMMIT").ReadAll()
	if err == nil {
		// A transaction that failed without our knowing answers COMMIT with ROLLBACK, and no error.
		if len(results) == 1 && results[0].CommandTag.String() == "ROLLBACK" {
			return newFault(faultConflict, "rolled_back", "the transaction was rolled back"), false
		}
		return nil, false
	}
	// An error below FATAL is the server's word that the transaction is undone. After anything else it may have been done:
	// a server that is shut down while it waits for its replicas has committed already.
	var server *pgconn.PgError
	if errors.As(err, &server) && server.SeverityUnlocalized == "ERROR" && server.Code != "40003" {
		return p.fault(ctx, err), false
	}
	f = p.fault(ctx, err)
	p.close()
	return f, true
}

// dropPrepared forgets the server's statements; the next transaction begins with their end.
func (p *postgres) dropPrepared() {
	clear(p.prepared)
	p.forget = !p.plain
}

// fault classifies an error of an open connection and drops the connection if it is gone.
func (p *postgres) fault(ctx context.Context, err error) *fault {
	if err == nil {
		return nil
	}
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		p.close()
		if f := contextFault(ctx.Err()); f != nil {
			return f
		}
		return p.scrub.fault(faultLost, "connection", "the connection was lost: "+err.Error())
	}
	kind := postgresKind(server.Code)
	switch {
	case server.Code == "26000" || server.Code == "42P05":
		p.plain = true
		p.dropPrepared()
	case kind == faultStale, server.Code == "22P02", server.Code == "22003", server.Code == "22007", server.Code == "22008":
		// A text that is no number, too large a one, no date: a statement was prepared for the types that columns had then.
		// The rows are tried again without.
		p.dropPrepared()
	}
	if kind == faultTarget || kind == faultLost || p.conn.IsClosed() {
		// Behind the same address there may be another server by now, after a failover.
		p.close()
	}
	// Detail is left out: it holds the row.
	return p.scrub.fault(kind, server.Code, describe(server.Message,
		"table", server.TableName, "column", server.ColumnName, "constraint", server.ConstraintName))
}

// postgresKind classifies an SQLSTATE.
func postgresKind(code string) faultKind {
	switch code {
	case "40001", "40P01", "55P03", "26000", "42P05":
		return faultConflict
	case "57014":
		return faultTimeout
	case "25006": // Read-only: a replica, or a server that fails over.
		return faultTarget
	case "42703", "42P01", "42804", "428C9", "42846", "0A000":
		return faultStale
	case "3D000", "3F000":
		return faultFatal
	}
	switch code[:min(2, len(code))] {
	case "21", "22", "23", "44", "54", "P0":
		return faultData
	case "08":
		return faultLost
	case "28", "53", "57", "58":
		return faultTarget
	case "42":
		return faultFatal
	case "25", "40":
		return faultConflict
	default:
		return faultOdd
	}
}
