package template

import (
	"fmt"
	"strings"
	"time"
)

// SyntaxError says where a template's text is wrong, and what to write.
type SyntaxError struct {
	Text   string // The whole template.
	Offset int    // In bytes, of the brace the trouble begins at.
	Reason string // What is wrong and what to do.
}

// Error returns the place, counted in bytes from 1, and the reason.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("template %q, position %d: %s", e.Text, e.Offset+1, e.Reason)
}

const known = "{topic}, {partition}, {offset}, {key}, {value.field}, {header.name} or {timestamp:2006-01-02}"

// Parse reads a template. The error is a [*SyntaxError].
func Parse(text string) (*Template, error) {
	t := &Template{text: text}
	if len(text) > MaxLength {
		return nil, &SyntaxError{Text: text[:32] + "…", Offset: MaxLength, Reason: fmt.Sprintf("it is longer than %d bytes; shorten it", MaxLength)}
	}
	var lit strings.Builder
	for i := 0; i < len(text); {
		switch {
		case text[i] != '{':
			lit.WriteByte(text[i])
			i++
		case strings.HasPrefix(text[i:], "{{"):
			lit.WriteByte('{')
			i += 2
		default:
			end := closing(text, i+1)
			if end < 0 {
				return nil, &SyntaxError{Text: text, Offset: i, Reason: `the brace is never closed; close it with "}", or write "{{" for a brace`}
			}
			p, problem := parsePlaceholder(text[i+1 : end])
			if problem != "" {
				return nil, &SyntaxError{Text: text, Offset: i, Reason: problem}
			}
			p.text = text[i : end+1]
			if lit.Len() > 0 {
				t.parts = append(t.parts, part{text: lit.String()})
				lit.Reset()
			}
			t.parts = append(t.parts, p)
			i = end + 1
		}
	}
	if lit.Len() > 0 {
		t.parts = append(t.parts, part{text: lit.String()})
	}
	return t, nil
}

// closing returns where the placeholder that begins at from ends: its closing
// brace, outside of back-ticks; or -1.
func closing(text string, from int) int {
	quoted := false
	for i := from; i < len(text); i++ {
		switch {
		case text[i] == '`':
			quoted = !quoted
		case text[i] == '}' && !quoted:
			return i
		}
	}
	return -1
}

// parsePlaceholder reads what stands between the braces. problem is empty if
// it is right.
func parsePlaceholder(body string) (p part, problem string) {
	name, rest := body, ""
	if i := strings.IndexAny(body, ".:"); i >= 0 {
		name, rest = body[:i], body[i:]
	}
	switch name {
	case "topic":
		p.source = topic
	case "partition":
		p.source = partition
	case "offset":
		p.source = offset
	case "key":
		p.source = key
	case "value":
		p.source = value
	case "header":
		p.source = header
		p.header, problem = parseHeader(rest)
		return p, problem
	case "timestamp":
		p.source = timestamp
		p.layout, problem = parseLayout(rest)
		return p, problem
	case "":
		return p, `a placeholder has no name; write "{{" for a brace`
	default:
		return p, fmt.Sprintf(`there is no placeholder {%s}; use %s, or "{{" for a brace`, body, known)
	}
	if rest == "" {
		return p, ""
	}
	if p.source != key && p.source != value {
		return p, fmt.Sprintf("{%s} has nothing behind its name; write {%s}", name, name)
	}
	p.path, problem = parsePath(rest)
	return p, problem
}

// parsePath reads ".a.b", with names in back-ticks or without.
func parsePath(s string) (path []string, problem string) {
	for s != "" {
		if s[0] != '.' {
			return nil, "a field's name follows a dot, as in {value.a.b}"
		}
		s = s[1:]
		var name string
		if strings.HasPrefix(s, "`") {
			var ok bool
			if name, s, ok = unquote(s); !ok {
				return nil, "a back-tick is never closed; a back-tick in a name is written twice"
			}
		} else {
			i := strings.IndexAny(s, ".`")
			if i < 0 {
				i = len(s)
			}
			name, s = s[:i], s[i:]
			if strings.HasPrefix(s, "`") {
				return nil, "a name with a back-tick stands in back-ticks, with the one inside written twice"
			}
		}
		if name == "" {
			return nil, "a field's name is empty; write {value.a.b}, and a name with a dot in back-ticks"
		}
		path = append(path, name)
	}
	return path, ""
}

// unquote reads a name in back-ticks from the start of s.
func unquote(s string) (name, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != '`' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '`' {
			b.WriteByte('`')
			i++
			continue
		}
		return b.String(), s[i+1:], true
	}
	return "", "", false
}

func parseHeader(s string) (name, problem string) {
	const want = "a header's name follows a dot, as in {header.trace-id}"
	if s == "" || s[0] != '.' {
		return "", want
	}
	name = s[1:]
	if strings.HasPrefix(name, "`") {
		quoted, rest, ok := unquote(name)
		if !ok || rest != "" {
			return "", "nothing stands behind the back-ticks of a header's name; a back-tick inside is written twice"
		}
		name = quoted
	}
	if name == "" {
		return "", want
	}
	return name, ""
}

// parseLayout reads ":2006-01-02".
func parseLayout(s string) (layout, problem string) {
	const want = "a layout follows a colon and is written with the date 2006-01-02 15:04:05, as in {timestamp:2006-01-02}"
	if s == "" {
		return "", ""
	}
	layout = s[1:]
	if s[0] != ':' || layout == "" {
		return "", want
	}
	// A layout such as YYYY-MM-dd formats to itself: every record would get
	// the same text, which nobody means.
	if sample.Format(layout) == layout {
		return "", fmt.Sprintf("the layout %q holds no part of a date; %s", layout, want)
	}
	return layout, ""
}

// sample shares no field with the reference time of package time, so that
// every element of a layout changes when it is formatted.
var sample = time.Date(2017, 12, 13, 21, 44, 55, 987654321, time.UTC)
