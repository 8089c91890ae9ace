package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Sources holds the files of one load, for printing diagnostics with the lines
// they are about, and the secrets to blot out of them. A nil Sources has none.
type Sources struct {
	files   map[string]*hcl.File
	secrets *redactor
}

// Redact returns text with every secret of the configuration blotted out.
func (s *Sources) Redact(text string) string {
	if s == nil {
		return text
	}
	return s.secrets.redact(text)
}

// bytes returns a file's text, nil if it is not known.
func (s *Sources) bytes(name string) []byte {
	if s == nil || s.files[name] == nil {
		return nil
	}
	return s.files[name].Bytes
}

// context names the top-level block at a position: `connector "orders"`.
func (s *Sources) context(at hcl.Range) string {
	if s == nil || s.files[at.Filename] == nil {
		return ""
	}
	nav, ok := s.files[at.Filename].Nav.(interface{ ContextString(offset int) string })
	if !ok {
		return ""
	}
	return nav.ContextString(at.Start.Byte)
}

// Format writes diagnostics for people: what is wrong, the file, line and
// block, the source line, and what to do. color adds terminal colours. It
// returns w's error.
func Format(w io.Writer, diags hcl.Diagnostics, sources *Sources, color bool) error {
	var out bytes.Buffer
	for _, d := range diags {
		formatOne(&out, d, sources, color)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// The terminal's escape sequences.
const (
	colorRed    = "\x1b[1;31m"
	colorYellow = "\x1b[1;33m"
	colorMark   = "\x1b[4m"
	colorNone   = "\x1b[0m"
)

func formatOne(out *bytes.Buffer, d *hcl.Diagnostic, sources *Sources, color bool) {
	word, paint, reset := "Error", colorRed, colorNone
	if d.Severity == hcl.DiagWarning {
		word, paint = "Warning", colorYellow
	}
	if !color {
		paint, reset = "", ""
	}
	fmt.Fprintf(out, "%s%s%s: %s\n\n", paint, word, reset, printable(sources.Redact(d.Summary)))
	if at := d.Subject; at != nil {
		fmt.Fprintf(out, "  on %s line %d", printable(at.Filename), at.Start.Line)
		if in := sources.context(*at); in != "" {
			fmt.Fprintf(out, ", in %s", printable(sources.Redact(in)))
		}
		out.WriteString(":\n")
		if s := snippetOf(*at, sources); s != nil {
			code := s.Code
			if color && s.end > s.start {
				code = code[:s.start] + colorMark + code[s.start:s.end] + colorNone + code[s.end:]
			}
			fmt.Fprintf(out, "%4d: %s\n", at.Start.Line, code)
		}
		out.WriteString("\n")
	}
	if d.Detail != "" {
		fmt.Fprintf(out, "%s\n\n", printable(sources.Redact(d.Detail)))
	}
}

// snippet is the source line of a diagnostic, cut to what can be read.
type snippet struct {
	Context   string `json:"context,omitempty"`
	Code      string `json:"code"`
	StartLine int    `json:"start_line"`
	start     int    // What the diagnostic is about, as offsets in Code.
	end       int
}

// maxSnippet bounds a source line shown, in bytes: a file may be one line.
const maxSnippet = 160

// snippetOf returns nil where there is no line to show.
func snippetOf(at hcl.Range, sources *Sources) *snippet {
	src := sources.bytes(at.Filename)
	if at.Start.Byte > len(src) || len(src) == 0 {
		return nil
	}
	line := lineAt(src, at.Start.Byte)
	begin := at.Start.Byte - (bytes.LastIndexByte(src[:at.Start.Byte], '\n') + 1)
	end := min(begin+max(at.End.Byte-at.Start.Byte, 0), len(line))
	before, marked, after := line[:begin], line[begin:end], line[end:]
	if redacted := sources.Redact(line); redacted != line {
		// Parts are blotted out one by one only if that leaves no rest of a
		// secret that reaches over their borders.
		parts := sources.Redact(before) + sources.Redact(marked) + sources.Redact(after)
		if parts == redacted {
			before, marked, after = sources.Redact(before), sources.Redact(marked), sources.Redact(after)
		} else {
			before, marked, after = redacted, "", ""
		}
	}
	before, marked, after = printable(before), printable(marked), printable(after)
	if len(before)+len(marked)+len(after) > maxSnippet {
		before = tail(before, maxSnippet/4)
		marked = head(marked, maxSnippet/2)
		after = head(after, maxSnippet/4)
	}
	after = strings.TrimRight(after, " \t\r")
	return &snippet{
		Context: printable(sources.Redact(sources.context(at))), Code: before + marked + after,
		StartLine: at.Start.Line, start: len(before), end: len(before) + len(marked),
	}
}

func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	from := len(s) - n
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return "…" + s[from:]
}

// printable replaces what could steer a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return -1
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError:
			return '\uFFFD'
		default:
			return r
		}
	}, s)
}

// jsonPos, jsonRange and jsonDiagnostic have the shape that
// `terraform validate -json` prints, which editors already read.
type jsonPos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

type jsonRange struct {
	Filename string  `json:"filename"`
	Start    jsonPos `json:"start"`
	End      jsonPos `json:"end"`
}

type jsonDiagnostic struct {
	Severity string     `json:"severity"`
	Summary  string     `json:"summary"`
	Detail   string     `json:"detail"`
	Range    *jsonRange `json:"range,omitempty"`
	Snippet  *snippet   `json:"snippet,omitempty"`
}

// FormatJSON writes diagnostics for machines, as one JSON object: valid,
// error_count, warning_count and diagnostics. It returns w's error.
func FormatJSON(w io.Writer, diags hcl.Diagnostics, sources *Sources) error {
	out := struct {
		Valid        bool             `json:"valid"`
		ErrorCount   int              `json:"error_count"`
		WarningCount int              `json:"warning_count"`
		Diagnostics  []jsonDiagnostic `json:"diagnostics"`
	}{Diagnostics: []jsonDiagnostic{}}
	for _, d := range diags {
		j := jsonDiagnostic{Severity: "error", Summary: sources.Redact(d.Summary), Detail: sources.Redact(d.Detail)}
		if d.Severity == hcl.DiagWarning {
			j.Severity = "warning"
			out.WarningCount++
		} else {
			out.ErrorCount++
		}
		if at := d.Subject; at != nil {
			j.Range = &jsonRange{
				Filename: at.Filename,
				Start:    jsonPos{at.Start.Line, at.Start.Column, at.Start.Byte},
				End:      jsonPos{at.End.Line, at.End.Column, at.End.Byte},
			}
			j.Snippet = snippetOf(*at, sources)
		}
		out.Diagnostics = append(out.Diagnostics, j)
	}
	out.Valid = out.ErrorCount == 0
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(out)
}
