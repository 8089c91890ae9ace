package kafka

import "log/slog"

// Secret is text that is never shown: it prints, logs and marshals as
// "(secret)". Convert it to a string to use it.
type Secret string

const redacted = "(secret)"

// String returns "(secret)", or nothing for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString returns what String does.
func (s Secret) GoString() string { return s.String() }

// LogValue returns what String does.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns what String does.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
