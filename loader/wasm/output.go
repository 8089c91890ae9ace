package wasm

import (
	"bytes"
	"context"
	"log/slog"
	"sync"

	"golang.org/x/time/rate"

	"github.com/sluicehq/sluice/loader/logtext"
)

// Bounds on what a module writes into the log.
const (
	maxLine      = 8 << 10 // Bytes of one line; what is beyond is cut.
	maxWords     = 512     // Bytes of a line kept for an error's text.
	linesASecond = 50
	lineBurst    = 500
)

// output turns what an instance writes into log lines: bounded in length and
// number, control characters escaped. It never makes the module wait.
type output struct {
	mu      sync.Mutex
	logger  *slog.Logger
	limit   *rate.Limiter
	dropped int
	streams []*stream
	words   string // The last line of stderr, or the one that says why it dies.
	dying   bool
}

func newOutput(l *slog.Logger) *output {
	return &output{logger: l, limit: rate.NewLimiter(linesASecond, lineBurst)}
}

// to changes where lines go.
func (o *output) to(l *slog.Logger) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.logger = l
}

// log writes a line the module gave a level.
func (o *output) log(ctx context.Context, level slog.Level, line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.emit(ctx, min(max(level, slog.LevelDebug), slog.LevelError), line, len(line) > maxLine)
}

// emit writes one line. o.mu must be held.
func (o *output) emit(ctx context.Context, level slog.Level, line []byte, isCut bool) {
	if !o.logger.Enabled(ctx, level) {
		return
	}
	if !o.limit.Allow() {
		o.dropped++
		return
	}
	attrs := []slog.Attr{slog.String("line", logtext.Printable(string(line[:min(len(line), maxLine)])))}
	if isCut {
		attrs = append(attrs, slog.Bool("cut", true))
	}
	o.logger.LogAttrs(ctx, level, "plugin output", attrs...)
}

// settle reports lines that were dropped.
func (o *output) settle(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped > 0 {
		o.logger.LogAttrs(ctx, slog.LevelWarn, "plugin log lines dropped", slog.Int("lines", o.dropped))
		o.dropped = 0
	}
}

// flush writes lines that have no end yet.
func (o *output) flush() {
	o.mu.Lock()
	streams := o.streams
	o.mu.Unlock()
	for _, s := range streams {
		if len(s.line) > 0 {
			_, _ = s.Write([]byte("\n"))
		}
	}
	o.settle(context.Background())
}

// lastWords returns what the module wrote about its end, empty if nothing.
func (o *output) lastWords() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.words
}

// stream returns a writer for a stream whose lines have the given level.
func (o *output) stream(level slog.Level) *stream {
	s := &stream{out: o, level: level}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.streams = append(o.streams, s)
	return s
}

// stream cuts output into lines. It is written to by one call at a time.
type stream struct {
	out   *output
	level slog.Level
	line  []byte // Begun and not ended, at most maxLine long.
	cut   bool
}

// Write takes everything, always.
func (s *stream) Write(p []byte) (int, error) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		room := min(maxLine-len(s.line), len(line))
		s.line = append(s.line, line[:room]...)
		s.cut = s.cut || room < len(line)
		if ended {
			s.out.remember(s.level, s.line)
			s.out.emit(context.Background(), s.level, bytes.TrimSuffix(s.line, []byte("\r")), s.cut)
			s.line, s.cut = s.line[:0], false
		}
		rest = after
	}
	return len(p), nil
}

// remember keeps a line for the text of an error. o.mu must be held.
func (o *output) remember(level slog.Level, line []byte) {
	if o.dying || level < slog.LevelWarn || len(bytes.TrimSpace(line)) == 0 {
		return
	}
	for _, start := range [...]string{"panic:", "fatal error:", "thread '", "abort:"} {
		o.dying = o.dying || bytes.HasPrefix(line, []byte(start))
	}
	o.words = logtext.Printable(string(line[:min(len(line), maxWords)]))
}
