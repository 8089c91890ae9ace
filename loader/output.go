package loader

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluicehq/sluice/loader/logtext"
)

// Bounds on what a plugin writes.
const (
	maxLine      = 16 << 10 // Bytes of a line; the rest of it is left out.
	maxTailLine  = 512      // Bytes of a line kept for a crash's error.
	tailLines    = 20       // Lines kept for a crash's error.
	panicLines   = 30       // Lines kept from a panic on.
	linesASecond = 100      // Lines logged for long.
	burstLines   = 1000     // Lines logged in a burst.
)

// output turns what a plugin process writes into log records. It never stops
// reading, whatever is written. Safe for concurrent use.
type output struct {
	logger *slog.Logger

	mu      sync.Mutex
	limit   *rate.Limiter
	dropped int // Lines left out since the last record.
	// secrets are texts that are not logged as they are.
	secrets *strings.Replacer
	tail    []string // The last lines.
	panic   []string // The first lines of a panic.
	reader  sync.WaitGroup
}

func newOutput(logger *slog.Logger) *output {
	return &output{logger: logger, limit: rate.NewLimiter(linesASecond, burstLines), secrets: strings.NewReplacer()}
}

// hide adds texts that are to be shown as "(secret)".
func (o *output) hide(secrets []string) {
	var pairs []string
	for _, s := range secrets {
		if len(s) >= minSecret {
			pairs = append(pairs, s, "(secret)")
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.secrets = strings.NewReplacer(pairs...)
}

// minSecret is the length from which a secret is looked for in the output: a
// shorter one would hide ordinary words.
const minSecret = 6

// read logs the lines of r until its end.
func (o *output) read(r io.Reader) {
	o.lines(bufio.NewReaderSize(r, maxLine))
}

func (o *output) lines(r *bufio.Reader) {
	for {
		line, err := readLine(r)
		if line != "" || err == nil {
			o.line(line)
		}
		if err != nil {
			return
		}
	}
}

// readLine returns the next line without its end, cut at the reader's size.
func readLine(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	line := strings.TrimRight(string(b), "\r\n")
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	return line + "… (cut)", err
}

// line logs one line.
func (o *output) line(line string) {
	o.mu.Lock()
	line = logtext.Printable(o.secrets.Replace(line))
	inPanic := o.keep(line)
	now := time.Now()
	allowed := o.limit.AllowN(now, 1)
	dropped := o.dropped
	if allowed {
		o.dropped = 0
	} else {
		o.dropped++
	}
	o.mu.Unlock()
	if !allowed {
		return
	}
	if dropped > 0 {
		o.logger.Warn("plugin writes too many lines", "dropped", dropped)
	}
	logLine(o.logger, line, inPanic)
}

// keep keeps the line for a crash's error and reports whether it belongs to a
// panic. o.mu must be held.
func (o *output) keep(line string) bool {
	if isPanic(line) {
		o.panic = o.panic[:0]
	}
	kept := line
	if len(kept) > maxTailLine {
		kept = strings.ToValidUTF8(kept[:maxTailLine], "") + "…"
	}
	if isPanic(line) || len(o.panic) > 0 && len(o.panic) < panicLines {
		o.panic = append(o.panic, kept)
		return true
	}
	if strings.TrimSpace(kept) != "" {
		if len(o.tail) == tailLines {
			o.tail = append(o.tail[:0], o.tail[1:]...)
		}
		o.tail = append(o.tail, kept)
	}
	return false
}

// isPanic reports whether a line begins the last words of a Go program.
func isPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "runtime: ")
}

// last returns a panic's first lines, or else the last lines.
func (o *output) last() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.panic) > 0 {
		return append([]string(nil), o.panic...)
	}
	return append([]string(nil), o.tail...)
}

// close reports what was left out.
func (o *output) close() {
	o.mu.Lock()
	dropped := o.dropped
	o.dropped = 0
	o.mu.Unlock()
	if dropped > 0 {
		o.logger.Warn("plugin writes too many lines", "dropped", dropped)
	}
}

// writer returns a writer of text that has come another way, cut into lines.
func (o *output) writer() io.Writer { return &lineWriter{output: o} }

// lineWriter is used by one goroutine.
type lineWriter struct {
	output *output
	line   []byte
}

// Write logs whole lines and keeps the beginning of the next, up to maxLine.
func (w *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		w.line = append(w.line, line[:min(len(line), maxLine-len(w.line))]...)
		if !ended {
			return n, nil
		}
		w.output.line(string(w.line))
		w.line, b = w.line[:0], rest
	}
}
