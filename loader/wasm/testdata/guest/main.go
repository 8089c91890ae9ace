// Command guest is the module the tests of this package load. What its sink
// does is in the setting "mode" and in the values of the records.
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/guest"
)

func init() {
	guest.Serve(pluginapi.Plugin{
		Name: "guest", Version: "1.2.3", Summary: "test guest",
		Settings: []pluginapi.Setting{
			{Name: "mode", Type: pluginapi.String},
			{Name: "url", Type: pluginapi.String},
			{Name: "wait", Type: pluginapi.Duration, Default: time.Second},
			{Name: "tags", Type: pluginapi.List},
		},
		New: func() pluginapi.Sink { return &sink{} },
	})
}

func main() {}

var garbage []*byte

type sink struct {
	cfg  pluginapi.Config
	kept [][]byte
}

func (s *sink) Start(_ context.Context, cfg pluginapi.Config) error {
	s.cfg = cfg
	cfg.Logger.With("a", 1).WithGroup("g").Warn("started", "wait", cfg.Duration("wait"), "text", "two words")
	switch cfg.String("mode") {
	case "refuse":
		return &pluginapi.Error{Class: pluginapi.Invalid, Code: "E1", Message: "no such table", RetryAfter: time.Second}
	case "exit":
		os.Exit(3)
	}
	return nil
}

func (s *sink) Stop(context.Context) error {
	fmt.Print("stopped without newline")
	return nil
}

func (s *sink) Check(ctx context.Context) error {
	if s.cfg.String("mode") == "down" {
		return errors.New("target is down")
	}
	return nil
}

func (s *sink) Put(ctx context.Context, batch []pluginapi.Record) ([]pluginapi.Result, error) {
	switch s.cfg.String("mode") {
	case "few":
		return pluginapi.Accepted(len(batch) - 1), nil
	case "many":
		return pluginapi.Accepted(len(batch) + 1), nil
	case "zero":
		r := pluginapi.Accepted(len(batch))
		r[1] = pluginapi.Result{}
		return r, nil
	case "error":
		return pluginapi.Accepted(1), &pluginapi.Error{Class: pluginapi.Unavailable, Code: "57P03", Message: "starting up"}
	}
	results := make([]pluginapi.Result, len(batch))
	for i := range batch {
		var err error
		if results[i], err = s.one(ctx, &batch[i]); err != nil {
			return results[:i], err
		}
	}
	return results, nil
}

func (s *sink) one(ctx context.Context, rec *pluginapi.Record) (pluginapi.Result, error) {
	value, ok := rec.Value.Bytes()
	if !ok {
		typed, isData := rec.Value.Data()
		if !isData {
			return pluginapi.Rejected("tombstone", rec.ID()), nil
		}
		return pluginapi.Rejected(typed.Schema.Name, string(typed.Value.AppendJSON(nil))), nil
	}
	word, rest, _ := strings.Cut(string(value), " ")
	switch word {
	case "echo":
		deadline, _ := ctx.Deadline()
		left := time.Until(deadline) > 0
		header, _ := rec.Header("h")
		return pluginapi.Rejected("echo", fmt.Sprintf("%s %v %s %s %t", rec.ID(), rec.Timestamp.UnixMilli(), header.AppendText(nil), rest, left)), nil
	case "sum": // The host reads the log line, and the answer, where memory has grown.
		s.kept = append(s.kept, make([]byte, len(rest)))
		copy(s.kept[len(s.kept)-1], rest)
		s.cfg.Logger.Error("summed", "bytes", len(rest))
		return pluginapi.Rejected("sum", fmt.Sprint(crc32.ChecksumIEEE(s.kept[len(s.kept)-1]))), nil
	case "retry":
		return pluginapi.Retried(&pluginapi.Error{Class: pluginapi.Throttled, Code: "429", RetryAfter: 1500 * time.Millisecond}), nil
	case "panic":
		panic(rest)
	case "gopanic":
		go panic(rest)
		time.Sleep(time.Second)
	case "loop":
		for n := 0; ; n++ {
			spin = n
		}
	case "sleep":
		time.Sleep(s.cfg.Duration("wait"))
	case "wait":
		<-ctx.Done()
		return pluginapi.Retried(pluginapi.NewError(pluginapi.Transient, "waited", ctx.Err().Error())), nil
	case "memory":
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			s.kept = append(s.kept, b)
		}
	case "garbage": // Tells of the collector: its runs, and its own seconds of work, beside what those that allocate did for it.
		for range 16 {
			garbage = make([]*byte, 1<<10)
		}
		samples := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}}
		metrics.Read(samples)
		return pluginapi.Rejected(fmt.Sprint(samples[0].Value.Uint64()), fmt.Sprint(samples[1].Value.Float64())), nil
	case "exit":
		os.Exit(0)
	case "flood":
		line := strings.Repeat("x", 99)
		for range 20_000 {
			fmt.Fprintln(os.Stderr, line)
		}
		fmt.Print(strings.Repeat("y", 1<<20), "\nlast line\x1b[31m\xff\n")
	case "log":
		s.cfg.Logger.Error("from put", "n", 1)
	case "files":
		_, err := os.ReadDir("/")
		_, err2 := os.ReadFile("/etc/passwd")
		return pluginapi.Rejected("files", fmt.Sprintf("%t %t %d %d", err != nil, err2 != nil, len(os.Environ()), len(os.Args))), nil
	case "clock":
		return pluginapi.Rejected("clock", fmt.Sprint(time.Now().UnixMilli())), nil
	case "get", "post":
		return s.request(ctx, strings.ToUpper(word), rest)
	}
	return pluginapi.Result{Outcome: pluginapi.Accept}, nil
}

var spin int

func (s *sink) request(ctx context.Context, method, url string) (pluginapi.Result, error) {
	resp, err := guest.Do(ctx, guest.Request{
		Method: method, URL: url, Headers: []guest.Header{{Name: "X-Test", Value: "1"}}, Body: []byte("body"),
	})
	if err != nil {
		e := pluginapi.AsError(err, pluginapi.NoClass)
		return pluginapi.Rejected(e.Code, e.Class.String()+": "+e.Message), nil
	}
	return pluginapi.Rejected(fmt.Sprint(resp.Status), resp.Header("content-type")+" "+string(resp.Body[:min(len(resp.Body), 100)])), nil
}
