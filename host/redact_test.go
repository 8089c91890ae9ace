package host

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

type shows struct{ text string }

func (s shows) String() string { return s.text }

func TestLogsShowNoSecret(t *testing.T) {
	const canary = "s3cr3t-canary"
	redact := func(s string) string { return strings.ReplaceAll(s, canary, "(secret)") }
	for _, tc := range []struct {
		name string
		log  func(*slog.Logger)
	}{
		{"message", func(l *slog.Logger) { l.Info("dsn " + canary) }},
		{"text", func(l *slog.Logger) { l.Info("m", "dsn", canary) }},
		{"error", func(l *slog.Logger) { l.Info("m", "err", fmt.Errorf("dial: %w", errors.New("bad dsn "+canary))) }},
		{"list", func(l *slog.Logger) { l.Info("m", "all", []string{"a", canary}) }},
		{"map", func(l *slog.Logger) { l.Info("m", "all", map[string]any{"dsn": canary}) }},
		{"stringer", func(l *slog.Logger) { l.Info("m", "v", shows{canary}) }},
		{"group", func(l *slog.Logger) { l.Info("m", slog.Group("g", "dsn", canary)) }},
		{"attribute kept", func(l *slog.Logger) { l.With("dsn", canary).WithGroup("g").Info("m") }},
		{"under a group", func(l *slog.Logger) { l.WithGroup("g").Info("m", "dsn", canary) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
				"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
				"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			} {
				var out bytes.Buffer
				tc.log(redacted(slog.New(handler(&out)), redact))
				if got := out.String(); strings.Contains(got, canary) || !strings.Contains(got, "(secret)") {
					t.Errorf("%s: got %s", name, got)
				}
			}
		})
	}
	t.Run("what holds none stays as it is", func(t *testing.T) {
		var out bytes.Buffer
		redacted(slog.New(slog.NewJSONHandler(&out, nil)), redact).Info("m", "n", 7, "all", []string{"a", "b"})
		if got := out.String(); !strings.Contains(got, `"n":7,"all":["a","b"]`) {
			t.Errorf("got %s", got)
		}
	})
}
