package loader

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// maxLogAttrs bounds the attributes taken from one line.
const maxLogAttrs = 32

// logLine logs a plugin's line at the level it names: a JSON object as slog or
// hclog write them, or text that begins with a level in brackets. Other text is
// logged at info, that of a panic at error.
func logLine(logger *slog.Logger, line string, inPanic bool) {
	ctx := context.Background()
	if strings.HasPrefix(line, "{") {
		if level, msg, attrs, ok := parseLogLine(line); ok {
			logger.LogAttrs(ctx, level, msg, attrs...) //nolint:sloglint // The plugin's own message.
			return
		}
	}
	level := slog.LevelInfo
	if inPanic {
		level = slog.LevelError
	} else if name, rest, ok := strings.Cut(line, "]"); ok && strings.HasPrefix(name, "[") {
		if l, ok := parseLevel(name[1:]); ok {
			level, line = l, strings.TrimSpace(rest)
		}
	}
	logger.LogAttrs(ctx, level, "plugin output", slog.String("line", line))
}

// parseLogLine reads a JSON log line.
func parseLogLine(line string) (slog.Level, string, []slog.Attr, bool) {
	var fields map[string]any
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return 0, "", nil, false
	}
	take := func(names ...string) string {
		for _, name := range names {
			if s, ok := fields[name].(string); ok {
				delete(fields, name)
				return s
			}
		}
		return ""
	}
	level, ok := parseLevel(take("level", "@level"))
	msg := take("msg", "message", "@message")
	if !ok || msg == "" {
		return 0, "", nil, false
	}
	take("time")
	take("@timestamp")
	attrs := make([]slog.Attr, 0, min(len(fields), maxLogAttrs))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if len(attrs) == maxLogAttrs {
			break
		}
		attrs = append(attrs, slog.Any(name, fields[name]))
	}
	return level, msg, attrs, true
}

func parseLevel(name string) (slog.Level, bool) {
	switch strings.ToLower(name) {
	case "trace", "debug":
		return slog.LevelDebug, true
	case "info", "notice":
		return slog.LevelInfo, true
	case "warn", "warning":
		return slog.LevelWarn, true
	case "error", "fatal", "critical":
		return slog.LevelError, true
	}
	var l slog.Level // "INFO+2"
	if name == "" || l.UnmarshalText([]byte(name)) != nil {
		return 0, false
	}
	return l, true
}
