package jdbc

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// mysqlDB is a connection to MySQL or MariaDB.
type mysqlDB struct {
	sqlConn
	config *mysql.Config
	scrub  scrubber
	settings
}

func openMySQL(dsn string, s *settings) (database, error) {
	config, err := mysqlConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.Timeout = s.connectTimeout
	return &mysqlDB{config: config, scrub: newScrubber(config.Passwd, dsn), settings: *s}, nil
}

func (m *mysqlDB) quote(name string) string { return quoteWith("`", name) }
func (m *mysqlDB) maxParams() int           { return 65535 }
func (m *mysqlDB) numbered() bool           { return false }
func (m *mysqlDB) savepoints() bool         { return false }
func (m *mysqlDB) begin() string            { return "START TRANSACTION" }

func (m *mysqlDB) insert(t *table, s *settings, sh *shape) (head, tail string) {
	return onDuplicate(m, t, s, sh)
}

func (m *mysqlDB) connect(ctx context.Context, _ bool) *fault {
	if m.conn != nil {
		return nil
	}
	connector, err := mysql.NewConnector(m.config)
	if err != nil {
		return m.scrub.fault(faultFatal, "dsn", "dsn: "+err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, m.connectTimeout)
	defer cancel()
	if err := m.open(ctx, connector); err != nil {
		var server *mysql.MySQLError
		switch {
		case !errors.As(err, &server):
			return m.scrub.fault(faultTarget, "connect", "connect: "+err.Error())
		case server.Number == 1049:
			return m.scrub.fault(faultFatal, mysqlCode(server), "connect: "+server.Message)
		default:
			return m.scrub.fault(faultTarget, mysqlCode(server), "connect: "+server.Message)
		}
	}
	return nil
}

func (m *mysqlDB) ping(ctx context.Context) *fault { return m.exec(ctx, "SELECT 1", nil) }

func (m *mysqlDB) exec(ctx context.Context, statement string, params []any) *fault {
	return m.fault(ctx, m.run(ctx, statement, params))
}

func (m *mysqlDB) commit(ctx context.Context) (f *fault, unknown bool) {
	err := m.run(ctx, "COMMIT", nil)
	if err == nil {
		return nil, false
	}
	f = m.fault(ctx, err)
	if f.isolates() || f.kind == faultConflict {
		return f, false
	}
	m.close()
	return f, true
}

// fault classifies an error of an open connection and drops the connection if it is gone.
func (m *mysqlDB) fault(ctx context.Context, err error) *fault {
	if err == nil {
		return nil
	}
	var server *mysql.MySQLError
	switch {
	case errors.Is(err, mysql.ErrPktTooLarge):
		// Halving the statement makes it smaller, down to the row that is too large alone.
		return m.scrub.fault(faultData, "1153", "the row is larger than the server's max_allowed_packet")
	case !errors.As(err, &server):
		m.close()
		if f := contextFault(ctx.Err()); f != nil {
			return f
		}
		return m.scrub.fault(faultLost, "connection", "the connection was lost: "+err.Error())
	}
	kind := mysqlKind(server)
	if kind == faultOdd && strings.Contains(server.Message, "max_allowed_packet") {
		kind = faultData // It has no number of its own.
	}
	if kind == faultTarget {
		m.close()
	}
	if server.Number == 1242 {
		return m.scrub.fault(kind, mysqlCode(server), "the row has the value of another row, with another key, in a unique index beside the key's")
	}
	return m.scrub.fault(kind, mysqlCode(server), server.Message)
}

// mysqlCode returns the error's number, which says more than its SQLSTATE, and the SQLSTATE.
func mysqlCode(e *mysql.MySQLError) string {
	return strings.TrimRight(string(e.SQLState[:]), "\x00") + "/" + strconv.Itoa(int(e.Number))
}

// mysqlKind classifies an error of the server.
func mysqlKind(e *mysql.MySQLError) faultKind {
	switch e.Number {
	case 1205, 1213, 1020: // Lock wait, deadlock, record changed.
		return faultConflict
	case 1317, 3024, 1969: // Interrupted, statement time.
		return faultTimeout
	case 1021, 1037, 1038, 1040, 1041, 1045, 1053, 1114, 1129, 1130, 1203, 1226, 1290, 1698, 1792, 1836, 1927, 3118:
		// Disk full, no memory, too many connections, refused, going down, read-only.
		return faultTarget
	case 1054, 1136, 1146, 1906, 3105: // Columns, tables, generated columns.
		return faultStale
	case 1044, 1049, 1142, 1143, 1227, 1370: // Rights.
		return faultFatal
	case 1153, 1242, 1265, 1364, 1366, 1411, 1526, 3140, 3819, 4025:
		return faultData
	}
	switch string(e.SQLState[:2]) {
	case "21", "22", "23", "44", "45":
		return faultData
	case "08":
		return faultTarget
	case "28":
		return faultTarget
	case "40":
		return faultConflict
	case "42":
		return faultFatal
	default:
		return faultOdd
	}
}
