package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sluice": main})
}

// patience is how long a script waits for something to happen.
const patience = 90 * time.Second

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		// A plain "! exec" does not tell which code a command ended with.
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "await": await, "get": get,
		},
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"USED_PORT", "FREE_PORT"} {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					return err
				}
				env.Setenv(name, fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
				if name == "FREE_PORT" {
					if err := l.Close(); err != nil {
						return err
					}
					continue
				}
				env.Defer(func() { _ = l.Close() })
			}
			return nil
		},
	})
}

// exits runs a command and compares its exit code: exits CODE COMMAND...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = regexp.MustCompile(`exit status (\d+)`).ReplaceAllString(err.Error(), "$1")
	}
	if code != args[0] {
		ts.Fatalf("%v ended with %s, want %s", args[1:], code, args[0])
	}
}

// await waits until a file matches a pattern: await PATTERN FILE
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await PATTERN FILE")
	}
	poll(ts, args[0], func() string {
		text, err := os.ReadFile(ts.MkAbs(args[1]))
		if err != nil {
			return err.Error()
		}
		return string(text)
	})
}

// get waits until an address answers with what matches a pattern: get PATTERN URL
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get PATTERN URL")
	}
	client := http.Client{Timeout: 5 * time.Second}
	poll(ts, args[0], func() string {
		res, err := client.Get(args[1])
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return fmt.Sprint(res.StatusCode, " ", string(body), err)
	})
}

// poll looks again and again until pattern matches.
func poll(ts *testscript.TestScript, pattern string, look func() string) {
	re := regexp.MustCompile("(?m)" + pattern)
	timeout := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		text := look()
		if re.MatchString(text) {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			ts.Fatalf("waited for %q, got %s", pattern, text)
		}
	}
}
