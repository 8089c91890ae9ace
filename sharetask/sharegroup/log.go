package sharegroup

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLog passes the client's log on, a level lower: what it warns of is about
// connections and requests, and shows in what the source itself reports.
type clientLog struct{ log *slog.Logger }

var _ kgo.Logger = clientLog{}

// Level returns the most that is logged.
func (l clientLog) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelError
}

// Log logs one message of the client.
func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelDebug
	if level == kgo.LogLevelError {
		to = slog.LevelWarn
	}
	l.log.Log(context.Background(), to, "kafka client reports", append([]any{"report", msg}, keyvals...)...)
}
