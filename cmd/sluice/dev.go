package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/host"
	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/host/devbroker"
	"github.com/sluicehq/sluice/host/sample"
)

// devFlags are the flags of `sluice dev`.
type devFlags struct {
	level string
	limit time.Duration
	every time.Duration
	echo  string
}

// firstConnector is what `sluice dev` runs when no definition is given.
const firstConnector = `worker {
  group_protocol = "share"
  listen         = "127.0.0.1:0"
}

connector "orders-to-file" {
  sink   = "file"
  topics = ["orders"]

  value {
    converter = "json"
  }

  config {
    path = "orders.jsonl"
  }
}
`

func devCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use: "dev [PATH...]", Short: "Try connectors with an embedded broker and sample records",
		Long: "Run a worker with an embedded broker in place of Kafka: nothing else is needed.\n" +
			"The topics the connectors list are made, the topic \"orders\" gets a stream of sample\n" +
			"orders, and what arrives in SQLite tables, files and the HTTP echo is printed.\n" +
			"Without PATH one connector writes the orders to ./orders.jsonl.",
		RunE: func(cmd *cobra.Command, paths []string) error { return f.run(cmd, paths) },
	}
	cmd.Flags().DurationVar(&f.limit, "for", 0, "end by itself after this time; 0 runs until Ctrl-C")
	cmd.Flags().DurationVar(&f.every, "every", 500*time.Millisecond, "time between two sample orders")
	cmd.Flags().StringVar(&f.echo, "echo", "127.0.0.1:8085", "address of the HTTP echo; empty for none")
	cmd.Flags().StringVar(&f.level, "log-level", "warn", "what to log: debug, info, warn or error")
	return cmd
}

func (f *devFlags) run(cmd *cobra.Command, paths []string) (err error) {
	log, err := newLogger(f.level)
	if err != nil {
		return err
	}
	if f.every <= 0 || f.limit < 0 {
		return errors.New("--every must be above 0 and --for not below")
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	if len(paths) == 0 {
		dir, err := os.MkdirTemp("", "sluice-dev-")
		if err != nil {
			return &exitError{exitFailed, err}
		}
		defer func() { _ = os.RemoveAll(dir) }()
		paths = []string{filepath.Join(dir, "dev.hcl")}
		if err := os.WriteFile(paths[0], []byte(firstConnector), 0o600); err != nil {
			return &exitError{exitFailed, err}
		}
	}
	broker, err := devbroker.Start(ctx, f.topics(paths))
	if err != nil {
		return &exitError{exitUnreachable, err}
	}
	defer broker.Close()
	d := readDefinitions(ctx, paths, broker.Bootstrap(), log)
	defer d.catalog.Close()
	d.print(os.Stderr)
	if d.diags.HasErrors() {
		return &exitError{exitUsage, errors.New(tally(d.diags))}
	}
	say := newSpeaker(cmd.OutOrStdout())
	demo := &demo{flags: f, broker: broker, say: say, log: log}
	if err := demo.prepare(ctx, d.bound); err != nil {
		return &exitError{exitFailed, err}
	}
	defer func() { err = errors.Join(err, demo.close()) }()
	f.introduce(cmd.OutOrStdout(), broker, d)
	return demo.run(ctx, d)
}

// introduce says what is about to be seen.
func (f *devFlags) introduce(w io.Writer, broker *devbroker.Broker, d *definitions) {
	fmt.Fprintf(w, "An embedded broker on %s stands in for Kafka. A sample order is sent to its\ntopic %q every %s, and taken from there by:\n\n",
		broker.Bootstrap()[0], sample.Topic, f.every)
	for _, b := range d.bound {
		target := ""
		if s := cmp.Or(b.Shown("path"), b.Shown("url")); s != "" {
			target = " -> " + shorten(s)
		} else if s := b.Shown("table"); s != "" {
			target = " -> table " + s
		}
		fmt.Fprintf(w, "  %-18s %s%s\n", b.Name(), b.Sink(), target)
	}
	end := "Ctrl-C ends it."
	if f.limit > 0 {
		end = fmt.Sprintf("It ends by itself after %s, or with Ctrl-C.", f.limit)
	}
	fmt.Fprintf(w, "\n%s This is what arrives:\n\n", end)
}

// shorten gives paths from the working directory where that is shorter.
func shorten(target string) string {
	wd, err := os.Getwd()
	if err != nil {
		return target
	}
	return strings.Replace(target, wd+string(filepath.Separator), "", 1)
}

// topics returns the topics to make: the sample's and all that are listed.
func (f *devFlags) topics(paths []string) []string {
	topics := []string{sample.Topic}
	cfg, _ := config.Load(paths, config.Env{Dev: true}) // Problems are printed when it is read for good.
	for _, c := range cfg.Connectors {
		for _, t := range c.Topics {
			if !slices.Contains(topics, t) {
				topics = append(topics, t)
			}
		}
	}
	return topics
}

// settle is the time the last records get to arrive before the worker stops.
const settle = time.Second

// demo is what goes on around the worker in `sluice dev`.
type demo struct {
	flags  *devFlags
	broker *devbroker.Broker
	say    *speaker
	log    *slog.Logger
	echo   *sample.Echo
	watch  []sample.Watch
	sent   int // Orders. Written by the stream; read after it has ended.
}

// prepare makes what the sample's connectors need: a table for each SQLite
// database, the echo; and arranges to watch what arrives.
func (d *demo) prepare(ctx context.Context, bound []*host.Bound) error {
	for _, b := range bound {
		say := func(line string) { d.say.line(b.Name(), line) }
		dsn, table, path := b.Setting("dsn"), b.Setting("table"), b.Setting("path")
		switch {
		case dsn != "" && table != "":
			if err := sample.CreateTable(ctx, dsn, table); err != nil {
				d.log.Warn("no sample table for this connector", "connector", b.Name(), "err", err)
				continue
			}
			d.watch = append(d.watch, sample.WatchTable(dsn, table, say))
		case path != "":
			d.watch = append(d.watch, sample.WatchFile(path, say))
		}
	}
	if d.flags.echo == "" {
		return nil
	}
	var err error
	d.echo, err = sample.StartEcho(ctx, d.flags.echo, func(line string) { d.say.line("HTTP echo", line) })
	if err != nil {
		return fmt.Errorf("%w (--echo names another address)", err)
	}
	return nil
}

// run runs the worker, the stream and the watchers until ctx ends or the time
// is over: then the stream ends, what it sent arrives, the worker stops in
// order, and the watchers have a last look.
func (d *demo) run(ctx context.Context, defs *definitions) error {
	streamCtx, stopStream := context.WithCancel(ctx)
	if d.flags.limit > 0 {
		streamCtx, stopStream = context.WithTimeout(ctx, d.flags.limit)
	}
	defer stopStream()
	workCtx, stopWorker := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorker()
	watchCtx, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	wait := d.start(streamCtx, watchCtx)
	context.AfterFunc(streamCtx, func() { time.AfterFunc(settle, stopWorker) })
	err := runWorker(workCtx, defs, d.log)
	stopStream()
	stopWatch()
	wait()
	if err == nil {
		d.say.summary(d.sent)
	}
	return err
}

// start sets the stream and the watchers off; the function it returns waits
// for them after both contexts have ended.
func (d *demo) start(streamCtx, watchCtx context.Context) (wait func()) {
	var wg sync.WaitGroup
	run := func(ctx context.Context, what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("sample stopped", "part", what, "err", err)
			}
		})
	}
	run(streamCtx, "orders", func(ctx context.Context) error {
		return sample.Stream(ctx, d.flags.every, func(ctx context.Context, key, value []byte) error {
			if err := d.broker.Produce(ctx, sample.Topic, key, value); err != nil {
				return err
			}
			d.sent++
			return nil
		})
	})
	for _, w := range d.watch {
		run(watchCtx, "watch", w)
	}
	return wg.Wait
}

func (d *demo) close() error {
	if d.echo == nil {
		return nil
	}
	return d.echo.Close()
}

// speaker prints what arrived, a line at a time, and counts it.
type speaker struct {
	mu     sync.Mutex
	out    io.Writer      // Guarded by mu.
	counts map[string]int // Lines by who. Guarded by mu.
}

func newSpeaker(w io.Writer) *speaker { return &speaker{out: w, counts: make(map[string]int)} }

func (s *speaker) line(who, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[who]++
	fmt.Fprintf(s.out, "%-20s %s\n", who, what)
}

// summary says how many orders arrived where.
func (s *speaker) summary(sent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "\nStopped in order. %s sent; arrived:\n", plural(sent, "order"))
	for _, who := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(s.out, "  %-18s %d\n", who, s.counts[who])
	}
}
