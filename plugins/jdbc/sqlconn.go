package jdbc

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// sqlConn is one connection of a database/sql driver.
type sqlConn struct {
	pool *sql.DB
	conn *sql.Conn
}

// open makes the connection.
func (c *sqlConn) open(ctx context.Context, connector driver.Connector) error {
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(1)
	conn, err := pool.Conn(ctx)
	if err != nil {
		_ = pool.Close() // It holds nothing.
		return err
	}
	c.pool, c.conn = pool, conn
	return nil
}

func (c *sqlConn) close() {
	if c.conn != nil {
		_ = c.conn.Close() // It is dropped either way.
		_ = c.pool.Close()
		c.pool, c.conn = nil, nil
	}
}

func (c *sqlConn) run(ctx context.Context, statement string, params []any) error {
	if c.conn == nil {
		return driver.ErrBadConn
	}
	_, err := c.conn.ExecContext(ctx, statement, params...)
	return err
}

// rows returns the rows of a query as texts by column name; NULL is "".
func (c *sqlConn) rows(ctx context.Context, query string, params ...any) (out []map[string]string, err error) {
	if c.conn == nil {
		return nil, driver.ErrBadConn
	}
	rows, err := c.conn.QueryContext(ctx, query, params...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		values, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make(map[string]string, len(names))
		for i, name := range names {
			row[name] = values[i].String
		}
		out = append(out, row)
	}
	return out, rows.Err()
}
