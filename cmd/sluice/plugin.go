package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/host/config"
	"github.com/sluicehq/sluice/loader"
	"github.com/sluicehq/sluice/pluginapi"
)

func pluginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plugin", Short: "Look at plugins", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(pluginListCommand(), pluginDescribeCommand())
	return cmd
}

// pluginFlags say where plugins are looked for.
type pluginFlags struct {
	paths  []string
	dirs   []string
	format string
}

func (f *pluginFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.dirs, "plugin-path", nil, "a drop-in directory; can be given again")
	cmd.Flags().StringArrayVarP(&f.paths, "config", "c", nil, "take worker.plugin_path from these definitions")
	outputFlag(cmd, &f.format)
}

// catalog returns the plugins the flags lead to.
func (f *pluginFlags) catalog(cmd *cobra.Command) (*loader.Catalog, error) {
	if err := checkOutput(f.format); err != nil {
		return nil, err
	}
	log, err := newLogger("error")
	if err != nil {
		return nil, err
	}
	dirs := f.dirs
	if len(f.paths) > 0 {
		cfg, diags := config.Load(f.paths, config.Env{Dev: true})
		if diags.HasErrors() && !cfg.Worker.Usable {
			_ = config.Format(cmd.ErrOrStderr(), diags, cfg.Sources, false)
			return nil, &exitError{exitUsage, errors.New(tally(diags))}
		}
		dirs = append(dirs, cfg.Worker.PluginPath...)
	}
	return newCatalog(dirs, "", nil, log), nil
}

func pluginListCommand() *cobra.Command {
	var f pluginFlags
	cmd := &cobra.Command{
		Use: "list", Short: "List the plugins found", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			catalog, err := f.catalog(cmd)
			if err != nil {
				return err
			}
			defer catalog.Close()
			found, problems := catalog.Scan(cmd.Context())
			type row struct {
				Name    string `json:"name"`
				Form    string `json:"form"`
				Version string `json:"version"`
				Summary string `json:"summary"`
				Path    string `json:"path,omitempty"`
				SHA256  string `json:"sha256,omitempty"`
			}
			rows := []row{}
			for _, p := range found {
				d := &p.Description
				rows = append(rows, row{p.Name, string(p.Form), d.Version, d.Summary, p.Path, p.SHA256})
			}
			out := cmd.OutOrStdout()
			if f.format == "json" {
				if err := printJSON(out, rows); err != nil {
					return err
				}
			} else {
				tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
				fmt.Fprintln(tw, "NAME\tFORM\tVERSION\tSUMMARY")
				for _, r := range rows {
					fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", r.Name, r.Form, r.Version, r.Summary)
				}
				if err := tw.Flush(); err != nil {
					return &exitError{exitFailed, err}
				}
			}
			for _, p := range problems {
				fmt.Fprintf(cmd.ErrOrStderr(), "Error: %s: %v\n", p.Path, p.Err)
			}
			if len(problems) > 0 {
				return &exitError{code: exitPlugin}
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

func pluginDescribeCommand() *cobra.Command {
	var f pluginFlags
	cmd := &cobra.Command{
		Use: "describe NAME", Short: "Show a plugin's settings", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			catalog, err := f.catalog(cmd)
			if err != nil {
				return err
			}
			defer catalog.Close()
			p, err := catalog.Resolve(cmd.Context(), args[0], loader.Pin{})
			if err != nil {
				return &exitError{exitPlugin, err}
			}
			if f.format == "json" {
				return printJSON(cmd.OutOrStdout(), describeJSON(p))
			}
			return describe(cmd.OutOrStdout(), p)
		},
	}
	f.add(cmd)
	return cmd
}

// settingJSON is a setting as -o json shows it.
type settingJSON struct {
	Name       string        `json:"name"`
	Type       string        `json:"type"`
	Elem       string        `json:"elem,omitempty"`
	Required   bool          `json:"required"`
	Default    any           `json:"default,omitempty"`
	Allowed    []string      `json:"allowed,omitempty"`
	Secret     bool          `json:"secret,omitempty"`
	Template   bool          `json:"template,omitempty"`
	Deprecated string        `json:"deprecated,omitempty"`
	Help       string        `json:"help"`
	Group      string        `json:"group,omitempty"`
	Fields     []settingJSON `json:"fields,omitempty"`
}

func settingsJSON(settings []pluginapi.Setting) []settingJSON {
	out := []settingJSON{}
	for i := range settings {
		s := &settings[i]
		j := settingJSON{
			Name: s.Name, Type: s.Type.String(), Required: s.Required, Allowed: s.Allowed, Secret: s.Secret,
			Template: s.Template, Deprecated: s.Deprecated, Help: s.Help, Group: s.Group,
		}
		if s.Default != nil {
			j.Default = fmt.Sprint(s.Default)
		}
		if s.Elem != 0 {
			j.Elem = s.Elem.String()
		}
		if len(s.Fields) > 0 {
			j.Fields = settingsJSON(s.Fields)
		}
		out = append(out, j)
	}
	return out
}

func describeJSON(p *loader.Plugin) any {
	d := &p.Description
	return struct {
		Name          string        `json:"name"`
		Form          string        `json:"form"`
		Version       string        `json:"version"`
		ABIVersion    int           `json:"abi_version"`
		Summary       string        `json:"summary"`
		Documentation string        `json:"documentation,omitempty"`
		Path          string        `json:"path,omitempty"`
		SHA256        string        `json:"sha256,omitempty"`
		Settings      []settingJSON `json:"settings"`
	}{p.Name, string(p.Form), d.Version, d.ABIVersion, d.Summary, d.Documentation, p.Path, p.SHA256, settingsJSON(d.Settings)}
}

func describe(w io.Writer, p *loader.Plugin) error {
	d := &p.Description
	fmt.Fprintf(w, "%s %s (%s)\n%s\n", p.Name, d.Version, p.Form, d.Summary)
	if p.Path != "" {
		fmt.Fprintf(w, "file    %s\nsha256  %s\n", p.Path, p.SHA256)
	}
	if d.Documentation != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(d.Documentation))
	}
	fmt.Fprintln(w, "\nSettings of its config block:")
	describeSettings(w, d.Settings, "  ")
	return nil
}

func describeSettings(w io.Writer, settings []pluginapi.Setting, indent string) {
	settings = slices.Clone(settings)
	slices.SortStableFunc(settings, func(a, b pluginapi.Setting) int { return a.Order - b.Order })
	for i := range settings {
		s := &settings[i]
		notes := []string{s.Type.String()}
		if s.Type == pluginapi.List || s.Type == pluginapi.Map {
			elem := s.Elem
			if elem == 0 {
				elem = pluginapi.String
			}
			notes[0] += " of " + elem.String()
		}
		switch {
		case s.Required:
			notes = append(notes, "required")
		case s.Default != nil:
			notes = append(notes, fmt.Sprintf("default %v", s.Default))
		}
		if len(s.Allowed) > 0 {
			notes = append(notes, "one of "+strings.Join(s.Allowed, ", "))
		}
		if s.Secret {
			notes = append(notes, "secret")
		}
		if s.Template {
			notes = append(notes, "template")
		}
		if s.Deprecated != "" {
			notes = append(notes, "deprecated: "+s.Deprecated)
		}
		fmt.Fprintf(w, "%s%s  (%s)\n%s    %s\n", indent, s.Name, strings.Join(notes, "; "), indent, s.Help)
		describeSettings(w, s.Fields, indent+"    ")
	}
}
