package sample

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// After an answer to a body not read to its end, net/http waits half a
	// second before it closes the connection.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

func TestStreamMakesAnOrderEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		var keys []string
		err := Stream(ctx, time.Second, func(_ context.Context, key, value []byte) error {
			var o Order
			if err := json.Unmarshal(value, &o); err != nil {
				return err
			}
			if o.ID == 0 || o.Customer == "" || o.Item == "" || o.Quantity < 1 || o.Price == "" || len(o.UpdatedAt) != len(timeFormat) {
				t.Errorf("got %s", value)
			}
			keys = append(keys, string(key))
			return nil
		})
		if err != nil || strings.Join(keys, " ") != "1 2 3 4" {
			t.Errorf("got keys %v, %v", keys, err)
		}
	})
}

func TestStreamEndsWithTheProducersError(t *testing.T) {
	refused := errors.New("refused")
	err := Stream(t.Context(), time.Hour, func(context.Context, []byte, []byte) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want the producer's error", err)
	}
}

// watched runs a watch, waits until it said want lines and ends it.
func watched(t *testing.T, w Watch, said <-chan string, do func(), want ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w(ctx) }()
	do()
	for _, line := range want {
		select {
		case got := <-said:
			if got != line {
				t.Errorf("got %q, want %q", got, line)
			}
		case <-time.After(time.Minute):
			t.Errorf("nothing said, want %q", line)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(said) > 0 {
		t.Errorf("also said %q", <-said)
	}
}

func TestWatchTableSaysOrdersOfThisRunOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "orders.db")
	dsn := "sqlite:" + file
	for range 2 { // The second time it is there.
		if err := CreateTable(t.Context(), dsn, `or"ders`); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	upsert := func(id int, price, at string) {
		if _, err := db.ExecContext(t.Context(), `INSERT OR REPLACE INTO "or""ders" VALUES (?, 'Ada', 'tea', 2, ?, ?)`, id, price, at); err != nil {
			t.Error(err)
		}
	}
	upsert(1, "1.00", "2020-01-01T00:00:00.000000Z")
	upsert(2, "1.00", "2020-01-01T00:00:00.000000Z")
	said := make(chan string, 10)
	w := WatchTable(dsn, `or"ders`, func(line string) { said <- line })
	now := time.Now().UTC()
	watched(t, w, said, func() {
		upsert(1, "3.50", now.Add(time.Minute).Format(timeFormat)) // Replaces a row of an earlier run.
		upsert(3, "40.25", now.Add(time.Hour).Format(timeFormat))
	}, "order 1: 2 x tea for Ada, 3.50 each", "order 3: 2 x tea for Ada, 40.25 each")
}

func TestCreateTableIsForSQLite(t *testing.T) {
	err := CreateTable(t.Context(), "postgres://u:s3cr3t-canary@127.0.0.1/x", "orders")
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want an error without the DSN", err)
	}
}

func TestWatchFileSaysWholeNewLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orders.jsonl")
	write := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("{\"old\":1}\n")
	said := make(chan string, 10)
	w := WatchFile(path, func(line string) { said <- line })
	watched(t, w, said, func() {
		write(`{"id":1,"customer":"Ada","item":"tea","quan`)
		write("tity\":2,\"price\":3.50}\nno order\n{\"half")
	}, "order 1: 2 x tea for Ada, 3.50 each", "no order\n")
}

func TestEchoSaysWhatItGets(t *testing.T) {
	said := make(chan string, 10)
	e, err := StartEcho(t.Context(), "127.0.0.1:0", func(line string) { said <- line })
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + e.listener.Addr().String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for body, want := range map[string]int{
		`{"id":7,"customer":"Ada","item":"tea","quantity":2,"price":3.50}`: http.StatusNoContent,
		strings.Repeat("x", maxOrder+1):                                    http.StatusBadRequest,
	} {
		res, err := client.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("body of %d bytes: got %s, want %d", len(body), res.Status, want)
		}
	}
	if got := <-said; got != "order 7: 2 x tea for Ada, 3.50 each" || len(said) != 0 {
		t.Errorf("got %q and %d more", got, len(said))
	}
	if _, err := StartEcho(t.Context(), e.listener.Addr().String(), nil); err == nil {
		t.Error("an address in use was taken")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
