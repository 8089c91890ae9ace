// Command sluice moves records from Kafka into sinks. See `sluice help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes, as the help says them.
const (
	exitFailed      = 1 // Failed while running.
	exitUsage       = 2 // The command line or the configuration is wrong.
	exitPlugin      = 3 // The plugin is wrong.
	exitUnreachable = 4 // The broker cannot be reached. A worker tries again instead.
)

// exitError carries an exit code. Its text may be empty when all was said.
type exitError struct {
	code int
	err  error
}

// Error returns the cause's text.
func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

func main() { os.Exit(execute()) }

// execute runs the command line and returns the exit code.
func execute() int {
	ctx, stop := signals()
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return 0
	}
	code := exitUsage // What cobra refuses is a wrong command line.
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(os.Stderr, "Error:", text)
	}
	return code
}

// signals returns a context that ends at the first SIGINT or SIGTERM, which
// asks for an ordered stop. A second one ends the process at once: what is not
// acknowledged stays with the group.
func signals() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	go func() {
		if _, ok := <-ch; !ok {
			return
		}
		cancel()
		if _, ok := <-ch; ok {
			fmt.Fprintln(os.Stderr, "stopped at once by a second signal")
			os.Exit(exitFailed)
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(ch)
		cancel()
	}
}

// wantPaths refuses a command line that names no definitions.
func wantPaths(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name at least one file or directory of definitions; see \"%s --help\"", cmd.CommandPath())
	}
	return nil
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Sluice moves records from Kafka into sinks",
		Long: "Sluice reads connector definitions in HCL, loads sink plugins, and runs each\n" +
			"connector as tasks of a Kafka share group or consumer group.\n\n" +
			"Exit codes: 0 done, 1 failed while running, 2 the command line or the configuration\n" +
			"is wrong, 3 a plugin is wrong, 4 the broker cannot be reached. \"run\" never ends with\n" +
			"4: a worker whose broker or target cannot be reached goes on and tries again.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see \"%s --help\"", err, cmd.CommandPath())
	})
	root.AddCommand(runCommand(), devCommand(), validateCommand(), groupCommand(), pluginCommand(), versionCommand())
	return root
}
