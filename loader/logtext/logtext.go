// Package logtext makes what plugins write fit for a log and a terminal.
package logtext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns text that cannot do anything to a terminal: bytes that are
// no UTF-8 are replaced, control characters but tab and newline escaped.
func Printable(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if !strings.ContainsFunc(text, isControl) {
		return text
	}
	var out strings.Builder
	for _, c := range text {
		if isControl(c) {
			const hex = "0123456789abcdef"
			out.WriteString(`\x`)
			out.WriteByte(hex[c>>4&15])
			out.WriteByte(hex[c&15])
			continue
		}
		out.WriteRune(c)
	}
	return out.String()
}

func isControl(c rune) bool {
	return unicode.IsControl(c) && c != '\t' && c != '\n' && utf8.RuneLen(c) <= 2
}
