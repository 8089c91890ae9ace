package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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
	fmt.Fprintf(cmd.OutOrStdout(), "embedded broker on %s, %s; Ctrl-C ends it\n", broker.Bootstrap()[0], plural(len(d.bound), "connector"))
	if f.limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, f.limit)
		defer cancel()
	}
	stop := demo.start(ctx)
	err = runWorker(ctx, d, log)
	cancel()
	stop()
	return err
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

// demo is what goes on around the worker in `sluice dev`.
type demo struct {
	flags  *devFlags
	broker *devbroker.Broker
	say    func(who, what string)
	log    *slog.Logger
	echo   *sample.Echo
	watch  []func(ctx context.Context) error
}

// prepare makes what the sample's connectors need: a table for each SQLite
// database, the echo; and arranges to watch what arrives.
func (d *demo) prepare(ctx context.Context, bound []*host.Bound) error {
	for _, b := range bound {
		say := func(line string) { d.say(b.Name(), line) }
		dsn, table, path := b.Setting("dsn"), b.Setting("table"), b.Setting("path")
		switch {
		case dsn != "" && table != "":
			if err := sample.CreateTable(ctx, dsn, table); err != nil {
				d.log.Warn("no sample table for this connector", "connector", b.Name(), "err", err)
				continue
			}
			d.watch = append(d.watch, func(ctx context.Context) error { return sample.WatchTable(ctx, dsn, table, say) })
		case path != "":
			d.watch = append(d.watch, func(ctx context.Context) error { return sample.WatchFile(ctx, path, say) })
		}
	}
	if d.flags.echo == "" {
		return nil
	}
	var err error
	d.echo, err = sample.StartEcho(ctx, d.flags.echo, func(line string) { d.say("HTTP echo", line) })
	if err != nil {
		return fmt.Errorf("%w (--echo names another address)", err)
	}
	return nil
}

// start sets the stream and the watchers off; the function it returns waits
// for them after ctx has ended.
func (d *demo) start(ctx context.Context) (wait func()) {
	var wg sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("sample stopped", "part", what, "err", err)
			}
		})
	}
	run("orders", func(ctx context.Context) error {
		return sample.Stream(ctx, d.flags.every, func(ctx context.Context, key, value []byte) error {
			return d.broker.Produce(ctx, sample.Topic, key, value)
		})
	})
	for _, w := range d.watch {
		run("watch", w)
	}
	return wg.Wait
}

func (d *demo) close() error {
	if d.echo == nil {
		return nil
	}
	return d.echo.Close()
}

// newSpeaker returns a function that prints one line at a time.
func newSpeaker(w io.Writer) func(who, what string) {
	var mu sync.Mutex
	return func(who, what string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "%-18s %s\n", who, what)
	}
}
