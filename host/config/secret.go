package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// secretText stands for a secret wherever one would be shown.
const secretText = "(secret)"

// Secret is a text that no way of printing shows. The zero Secret is empty.
type Secret struct{ text string }

// NewSecret returns text as a Secret.
func NewSecret(text string) Secret { return Secret{text: text} }

// Reveal returns the text itself, for the one place that needs it.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether the secret is the empty text.
func (s Secret) IsZero() bool { return s.text == "" }

// String returns "(secret)", or "" for an empty secret.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return secretText
}

// Format prints what String returns, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue keeps the text out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON keeps the text out of JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// MarshalText keeps the text out of every other encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// redactor knows the secret texts of one load and blots them out of messages.
// It is safe for concurrent use.
type redactor struct {
	mu    sync.Mutex
	known []string // Longest first, so that a secret within a secret leaves no rest.
}

// shortSecret is the length below which a secret is blotted out only where it
// stands in quotes: replacing each "a" of a text would hide the text and tell
// the secret.
const shortSecret = 4

func (r *redactor) add(text string) {
	if text == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.known, text) {
		return
	}
	at, _ := slices.BinarySearchFunc(r.known, text, func(a, b string) int { return len(b) - len(a) })
	r.known = slices.Insert(r.known, at, text)
}

// redact returns text without the secrets known so far, as they are and as a
// quoted string would show them.
func (r *redactor) redact(text string) string {
	if r == nil {
		return text
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.known {
		quoted := fmt.Sprintf("%q", s)
		text = strings.ReplaceAll(text, quoted, `"`+secretText+`"`)
		if len(s) < shortSecret {
			continue
		}
		text = strings.ReplaceAll(text, s, secretText)
		if inner := quoted[1 : len(quoted)-1]; inner != s {
			text = strings.ReplaceAll(text, inner, secretText)
		}
	}
	return text
}
