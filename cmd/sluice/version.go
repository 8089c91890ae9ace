package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/internal/version"
	"github.com/sluicehq/sluice/pluginapi"
)

func versionCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "version", Short: "Print version, commit and plugin ABI versions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(format); err != nil {
				return err
			}
			info := version.Get()
			v := struct {
				Version string `json:"version"`
				Commit  string `json:"commit"`
				ABI     []int  `json:"abi_versions"`
			}{info.Version, info.Commit, []int{pluginapi.ABIVersion}}
			if format == "json" {
				return printJSON(cmd.OutOrStdout(), v)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "sluice %s\ncommit %s\nplugin ABI %d\n", v.Version, v.Commit, pluginapi.ABIVersion)
			return nil
		},
	}
	outputFlag(cmd, &format)
	return cmd
}
