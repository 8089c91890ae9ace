package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/host"
	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/internal/kafka"
	"github.com/sluicehq/sluice/loader/settings"
)

func groupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "group", Short: "Work on the groups of connectors", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(groupConvertCommand())
	return cmd
}

// groupConvertFlags are the flags of `sluice group convert`.
type groupConvertFlags struct {
	paths  []string
	to     string
	dryRun bool
	format string
	level  string
}

func groupConvertCommand() *cobra.Command {
	var f groupConvertFlags
	cmd := &cobra.Command{
		Use: "convert CONNECTOR --to share|consumer --config PATH", Short: "Make a connector's consumer group a share group, or the reverse",
		Long: "Make the group of CONNECTOR, which is defined in the files or directories given with\n" +
			"--config, one of the other kind that goes on where the group was. Kafka has no such step:\n" +
			"the positions are saved in worker.state_dir, the group is deleted, the positions are set\n" +
			"in a new group of the same name and read back. Stop the connector in every worker first.\n" +
			"A run that was cut off can be repeated: it goes on with what was saved. What is delivered\n" +
			"twice is printed; --dry-run prints it and changes nothing.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one connector; see \"sluice group convert --help\"")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	cmd.Flags().StringArrayVarP(&f.paths, "config", "c", nil, "a file or directory of definitions; can be given again")
	cmd.Flags().StringVar(&f.to, "to", "", `the kind of group to make: "share" or "consumer"`)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "look and print only")
	outputFlag(cmd, &f.format)
	cmd.Flags().StringVar(&f.level, "log-level", "warn", "what to log: debug, info, warn or error")
	return cmd
}

func (f *groupConvertFlags) run(cmd *cobra.Command, name string) error {
	if err := checkOutput(f.format); err != nil {
		return err
	}
	if f.to != config.GroupShare && f.to != config.GroupConsumer {
		return fmt.Errorf("--to %q: want \"share\" or \"consumer\"", f.to)
	}
	if len(f.paths) == 0 {
		return errors.New("say with --config where the connector is defined; see \"sluice group convert --help\"")
	}
	log, err := newLogger(f.level)
	if err != nil {
		return err
	}
	cfg, diags := config.Load(f.paths, config.Env{})
	if diags.HasErrors() {
		// Those of other connectors do not matter, but may explain why this one
		// is not found. There is nowhere to report a failure to print.
		_ = config.Format(cmd.ErrOrStderr(), diags, cfg.Sources, isTerminal(os.Stderr))
	}
	connector, err := findConnector(cfg, name)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	done, err := host.ConvertGroup(cmd.Context(), host.GroupConversion{
		Config: cfg, Connector: connector, To: f.to, DryRun: f.dryRun, Logger: log,
	})
	if err != nil {
		return &exitError{brokerCode(err), err}
	}
	out := cmd.OutOrStdout()
	if f.format == "json" {
		return printJSON(out, done)
	}
	if err := printConversion(out, done, connector); err != nil {
		return &exitError{exitFailed, err}
	}
	return nil
}

// findConnector returns a connector that can be used.
func findConnector(cfg *config.Config, name string) (*config.Connector, error) {
	names := make([]string, 0, len(cfg.Connectors))
	for _, c := range cfg.Connectors {
		names = append(names, c.Name)
		if c.Name != name {
			continue
		}
		switch {
		case !c.Usable:
			return nil, fmt.Errorf("the definition of connector %q has errors", name)
		case !cfg.Worker.Usable:
			return nil, errors.New("the worker block has errors")
		}
		return c, nil
	}
	text := fmt.Sprintf("no connector %q is defined", name)
	if near := settings.Suggest(name, names); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return nil, errors.New(text)
}

// brokerCode returns the exit code of a failed talk with a broker.
func brokerCode(err error) int {
	if errors.Is(err, kafka.ErrUnreachable) || errors.Is(err, kafka.ErrAuth) || errors.Is(err, kafka.ErrTLS) {
		return exitUnreachable
	}
	return exitFailed
}

// printConversion says for people what was done.
func printConversion(w io.Writer, g host.ConvertedGroup, def *config.Connector) error {
	switch g.Result {
	case host.GroupMissing:
		_, err := fmt.Fprintf(w, "There is no group %q, or it may not be seen: nothing needs converting. Connector %q makes it when it starts.\n"+
			"A conversion that was cut off would have left %s; if it ran elsewhere, finish it there.\n", g.Group, g.Connector, g.File)
		return err
	case host.GroupUnchanged:
		_, err := fmt.Fprintf(w, "Group %q is a %s group already: nothing is done.\n", g.Group, g.To)
		return err
	case host.GroupPlanned:
		fmt.Fprintf(w, "Group %q of connector %q would be converted from %s to %s. Nothing is changed.\n", g.Group, g.Connector, g.From, g.To)
	default:
		fmt.Fprintf(w, "Group %q of connector %q is converted from %s to %s.\n", g.Group, g.Connector, g.From, g.To)
	}
	if g.Resumed {
		fmt.Fprintf(w, "An earlier run did not come to its end: the positions it saved are used.\n")
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "TOPIC\tPARTITION\tSTARTS AT\tLOG END\tTWICE AT MOST\tNOTE")
	for _, p := range g.Positions {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%s\n", p.Topic, p.Partition, p.Offset, p.LogEnd, p.Twice, p.Note)
	}
	for _, p := range g.Skipped {
		fmt.Fprintf(tw, "%s\t%d\t-\t-\t-\t%s, it was at %d\n", p.Topic, p.Partition, p.Note, p.Offset)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if g.Twice == 0 {
		fmt.Fprintln(w, "Nothing is delivered twice because of this.")
	} else {
		fmt.Fprintf(w, "At most %s, already written, %s delivered a second time.\n", plural(int(g.Twice), "record"), is(g.Twice))
	}
	if g.Result == host.GroupPlanned {
		return nil
	}
	fmt.Fprintf(w, "The positions are kept in %s.\n", g.File)
	if def.GroupProtocol != g.To {
		fmt.Fprintf(w, "Next: write group_protocol = %q in connector %q before it is started.\n", g.To, g.Connector)
	}
	return nil
}

func is(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
