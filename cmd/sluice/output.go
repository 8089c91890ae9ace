package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
)

// outputFlag adds -o to a command that prints something.
func outputFlag(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "text", `how to print: "text" or "json"`)
}

// checkOutput refuses an unknown -o.
func checkOutput(format string) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("--output %q: want \"text\" or \"json\"", format)
	}
	return nil
}

// printJSON writes v, indented, with a newline.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return &exitError{exitFailed, fmt.Errorf("print: %w", err)}
	}
	return nil
}

// newLogger logs to stderr, as text on a terminal and as JSON otherwise.
func newLogger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	if isTerminal(os.Stderr) {
		return slog.New(slog.NewTextHandler(os.Stderr, opts)), nil
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, opts)), nil
}

// isTerminal reports whether f is a character device.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
