package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/host"
	"github.com/sluicehq/sluice/internal/version"
)

func runCommand() *cobra.Command {
	var level string
	cmd := &cobra.Command{
		Use: "run PATH...", Short: "Run a worker with the connectors defined in files or directories",
		Long: "Run a worker with the connectors defined in PATH: files, or directories of *.hcl and\n" +
			"*.hcl.json. A connector with a mistake is reported and left out; the others run.\n" +
			"SIGTERM or Ctrl-C stops in order; a second one at once.\n\n" +
			"A broker or target that cannot be reached does not end a worker, nor does a task\n" +
			"that failed: it goes on, and its status and metrics tell. It ends with 0 after a\n" +
			"stop, 2 where the definitions leave nothing to run, and 1 after a second signal or\n" +
			"for a fault of its own, such as an address it cannot listen on.",
		Args: wantPaths,
		RunE: func(cmd *cobra.Command, paths []string) error {
			log, err := newLogger(level)
			if err != nil {
				return err
			}
			d := readDefinitions(cmd.Context(), paths, nil, log)
			defer d.catalog.Close()
			d.print(os.Stderr)
			return runWorker(cmd.Context(), d, log)
		},
	}
	logLevelFlag(cmd, &level)
	return cmd
}

func logLevelFlag(cmd *cobra.Command, level *string) {
	cmd.Flags().StringVar(level, "log-level", "info", "what to log: debug, info, warn or error")
}

// runWorker runs what was bound until ctx ends. Without any connector that can
// run there is nothing to do, and the configuration is at fault.
func runWorker(ctx context.Context, d *definitions, log *slog.Logger) error {
	if !d.config.Worker.Usable {
		return &exitError{code: exitUsage, err: errors.New("the worker block has errors")}
	}
	if len(d.bound) == 0 {
		return &exitError{code: exitUsage, err: errors.New("no connector can be run")}
	}
	tuneGC(d.config.Worker.MemoryBytes)
	forgetProgram()
	v := version.Get()
	w, err := host.New(ctx, host.Options{
		Config: d.config, Bound: d.bound, Logger: log, Version: v.Version, Commit: v.Commit,
	})
	if err != nil {
		return &exitError{exitFailed, err}
	}
	if err := w.Run(ctx); err != nil {
		return &exitError{exitFailed, err}
	}
	return nil
}
