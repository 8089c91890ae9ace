package guest

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
)

// logHandler writes a log record as one line, "message key=value …", to the
// host, which adds time, connector and plugin.
type logHandler struct {
	log    func(level int32, line string)
	attrs  string // Written already, each with a space in front.
	prefix string // Of the open groups, "a.b.".
}

// Enabled reports true: the host decides what it keeps.
func (h *logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle writes one record.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, h.prefix, a)
		return true
	})
	h.log(int32(r.Level), b.String())
	return nil
}

// WithAttrs returns a handler that writes attrs in every line.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range attrs {
		writeAttr(&b, h.prefix, a)
	}
	out := *h
	out.attrs = b.String()
	return &out
}

// WithGroup returns a handler that puts name in front of the keys to come.
func (h *logHandler) WithGroup(name string) slog.Handler {
	out := *h
	if name != "" {
		out.prefix += name + "."
	}
	return &out
}

func writeAttr(b *strings.Builder, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range v.Group() {
			writeAttr(b, prefix, inner)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	b.WriteByte(' ')
	b.WriteString(prefix)
	b.WriteString(a.Key)
	b.WriteByte('=')
	text := v.String()
	if text == "" || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == '"' || c == '=' }) {
		text = strconv.Quote(text)
	}
	b.WriteString(text)
}
