package host

import (
	"context"
	"fmt"
	"log/slog"
)

// redactor is a log handler that blots known secrets out of what is logged,
// whatever path they took: an error of a driver may quote its whole DSN.
type redactor struct {
	next   slog.Handler
	redact func(string) string
}

// redacted returns log with the secrets redact knows blotted out.
func redacted(log *slog.Logger, redact func(string) string) *slog.Logger {
	return slog.New(&redactor{log.Handler(), redact})
}

// Enabled asks the handler behind.
func (r *redactor) Enabled(ctx context.Context, level slog.Level) bool {
	return r.next.Enabled(ctx, level)
}

// Handle passes a blotted copy on.
func (r *redactor) Handle(ctx context.Context, rec slog.Record) error {
	out := slog.NewRecord(rec.Time, rec.Level, r.redact(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(r.attr(a))
		return true
	})
	return r.next.Handle(ctx, out)
}

// WithAttrs keeps blotted attributes.
func (r *redactor) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = r.attr(a)
	}
	return &redactor{r.next.WithAttrs(out), r.redact}
}

// WithGroup opens a group.
func (r *redactor) WithGroup(name string) slog.Handler {
	return &redactor{r.next.WithGroup(name), r.redact}
}

// attr returns a with its value blotted. A value of a type of its own becomes
// text only if it shows a secret.
func (r *redactor) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(r.redact(v.String()))
	case slog.KindGroup:
		group := v.Group()
		out := make([]slog.Attr, len(group))
		for i, g := range group {
			out[i] = r.attr(g)
		}
		v = slog.GroupValue(out...)
	case slog.KindAny:
		text := fmt.Sprintf("%+v", v.Any())
		if clean := r.redact(text); clean != text {
			v = slog.StringValue(clean)
		}
	default: // Numbers, times and the like hold no secret.
	}
	return slog.Attr{Key: a.Key, Value: v}
}
