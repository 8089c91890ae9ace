package serve

import (
	"io"
	"log/slog"
)

// maxLogText is where a log message or attribute is cut, in bytes.
const maxLogText = 4 << 10

// newHandler writes log records to w as the host reads them: one JSON object a
// line with time, level, msg and the attributes. level is the lowest one
// wanted, info where it says nothing.
func newHandler(w io.Writer, level string) slog.Handler {
	lowest := slog.LevelInfo
	if err := lowest.UnmarshalText([]byte(level)); err != nil {
		lowest = slog.LevelInfo
	}
	return slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: lowest,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindString && len(a.Value.String()) > maxLogText {
				a.Value = slog.StringValue(a.Value.String()[:maxLogText] + "…")
			}
			return a
		},
	})
}
