package sample

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite" // The driver the table is made with.
)

// maxOrder bounds a body the echo reads.
const maxOrder = 1 << 20

// Echo is an HTTP service that says what it got.
type Echo struct {
	server   *http.Server
	listener net.Listener
}

// StartEcho serves on address and calls say with a line per order. say is
// called from several goroutines.
func StartEcho(ctx context.Context, address string, say func(string)) (*Echo, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("start the HTTP echo: %w", err)
	}
	e := &Echo{listener: l, server: &http.Server{
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOrder))
			if err != nil {
				http.Error(w, "body not read", http.StatusBadRequest)
				return
			}
			say(describe(body))
			w.WriteHeader(http.StatusNoContent)
		}),
	}}
	go func() { _ = e.server.Serve(l) }() // Ends with Close; there is nobody to tell.
	return e, nil
}

// Close stops the service.
func (e *Echo) Close() error { return e.server.Close() }

// describe makes a line of an order's JSON, or of anything else.
func describe(body []byte) string {
	var o Order
	if err := json.Unmarshal(body, &o); err != nil || o.ID == 0 {
		return fmt.Sprintf("%.100s", body)
	}
	return o.String()
}

// CreateTable makes the table the orders go into, if it is not there, in the
// SQLite database that a dsn "sqlite:FILE" names.
func CreateTable(ctx context.Context, dsn, table string) error {
	file, err := sqliteFile(dsn)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return fmt.Errorf("make the database's folder: %w", err)
	}
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(2000)")
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS "`+strings.ReplaceAll(table, `"`, `""`)+`" (
	id INTEGER PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL, quantity INTEGER NOT NULL,
	price NUMERIC NOT NULL, updated_at TEXT NOT NULL)`)
	if err != nil {
		return fmt.Errorf("create table %s in %s: %w", table, file, err)
	}
	return nil
}

func sqliteFile(dsn string) (string, error) {
	file, ok := strings.CutPrefix(dsn, "sqlite:")
	if !ok {
		return "", errors.New("the sample's table can be made in SQLite only")
	}
	file, _, _ = strings.Cut(strings.TrimPrefix(file, "//"), "?")
	return file, nil
}

// Watch looks at a target until ctx ends.
type Watch func(ctx context.Context) error

// WatchTable returns a watch that calls say with each order made from now on
// that is in the table, also where it replaces one of an earlier run. It knows
// the columns CreateTable makes; of another table it says nothing.
func WatchTable(dsn, table string, say func(string)) Watch {
	seen := time.Now().UTC().Format(timeFormat)
	return func(ctx context.Context) error { return watchTable(ctx, dsn, table, seen, say) }
}

func watchTable(ctx context.Context, dsn, table, seen string, say func(string)) error {
	file, err := sqliteFile(dsn)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(2000)")
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	defer func() { _ = db.Close() }()
	query := `SELECT id, customer, item, quantity, CAST(price AS TEXT), updated_at FROM "` +
		strings.ReplaceAll(table, `"`, `""`) + `" WHERE updated_at > ? ORDER BY updated_at LIMIT 1000`
	return every(ctx, func(ctx context.Context) {
		orders, err := readOrders(ctx, db, query, seen)
		if err != nil {
			return // A look that fails is made again at the next tick.
		}
		for _, o := range orders {
			say(o.String())
			seen = o.UpdatedAt
		}
	})
}

func readOrders(ctx context.Context, db *sql.DB, query, after string) (orders []Order, err error) {
	rows, err := db.QueryContext(ctx, query, after)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var o Order
		var price string
		if err := rows.Scan(&o.ID, &o.Customer, &o.Item, &o.Quantity, &price, &o.UpdatedAt); err != nil {
			return nil, err
		}
		if number, err := strconv.ParseFloat(price, 64); err == nil {
			price = strconv.FormatFloat(number, 'f', 2, 64) // SQLite keeps 12.50 as 12.5.
		}
		o.Price = json.Number(price)
		orders = append(orders, o)
	}
	return orders, rows.Err()
}

// WatchFile returns a watch that calls say with each order added from now on to
// a file of JSON lines. The file need not be there yet.
func WatchFile(path string, say func(string)) Watch {
	var off int64
	if info, err := os.Stat(path); err == nil {
		off = info.Size()
	}
	return func(ctx context.Context) error { return watchFile(ctx, path, off, say) }
}

func watchFile(ctx context.Context, path string, off int64, say func(string)) error {
	return every(ctx, func(context.Context) {
		f, err := os.Open(path)
		if err != nil {
			return // Not there yet.
		}
		defer func() { _ = f.Close() }()
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			return
		}
		r := bufio.NewReader(io.LimitReader(f, maxOrder))
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			off += int64(len(line))
			say(describe(line))
		}
	})
}

// every calls look again and again until ctx ends, and a last time after that,
// so that nothing that arrived is left unsaid.
func every(ctx context.Context, look func(ctx context.Context)) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
			defer cancel()
			look(last)
			return nil
		}
	}
}

const (
	lookInterval = 300 * time.Millisecond
	lastLook     = 2 * time.Second
)
