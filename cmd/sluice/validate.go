package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/host/config"
)

func validateCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "validate PATH...", Short: "Check definitions without a broker",
		Long: "Check the definitions in PATH and the settings of their plugins. Every problem is\n" +
			"reported at once. Nothing is connected to. Exit code 2 means there are errors;\n" +
			"warnings alone are fine.",
		Args: wantPaths,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if err := checkOutput(format); err != nil {
				return err
			}
			log, err := newLogger("error")
			if err != nil {
				return err
			}
			d := readDefinitions(cmd.Context(), paths, nil, log)
			defer d.catalog.Close()
			out := cmd.OutOrStdout()
			if format == "json" {
				if err := config.FormatJSON(out, d.diags, d.config.Sources); err != nil {
					return &exitError{exitFailed, err}
				}
			} else {
				d.print(cmd.ErrOrStderr())
			}
			if d.diags.HasErrors() {
				if format == "json" {
					return &exitError{code: exitUsage}
				}
				return &exitError{exitUsage, errors.New(tally(d.diags))}
			}
			if format == "text" {
				fmt.Fprintf(out, "%s fine%s\n", plural(len(d.bound), "connector"), warnings(d.diags))
			}
			return nil
		},
	}
	outputFlag(cmd, &format)
	return cmd
}

// tally counts the errors and warnings.
func tally(diags config.Diagnostics) string {
	n, _ := config.Count(diags)
	return plural(n, "error") + warnings(diags)
}

func warnings(diags config.Diagnostics) string {
	_, n := config.Count(diags)
	if n == 0 {
		return ""
	}
	return ", " + plural(n, "warning")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
