package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

func errorAt(at hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &at}
}

func warnAt(at hcl.Range, summary, detail string, args ...any) *hcl.Diagnostic {
	d := errorAt(at, summary, detail, args...)
	d.Severity = hcl.DiagWarning
	return d
}

// place writes where a range begins, for a message that points elsewhere too.
func place(r hcl.Range) string {
	return fmt.Sprintf("%s:%d,%d", r.Filename, r.Start.Line, r.Start.Column)
}

// errorCount counts the errors, so that a caller sees whether a step added
// some.
func errorCount(diags hcl.Diagnostics) int {
	n, _ := Count(diags)
	return n
}

// tidy puts diagnostics in the order of the files and lines, drops repeated
// ones, blots secrets out and cuts them off from the values they came from.
func tidy(diags hcl.Diagnostics, secrets *redactor) hcl.Diagnostics {
	out := make(hcl.Diagnostics, 0, len(diags))
	seen := make(map[string]bool, len(diags))
	for _, d := range diags {
		c := *d
		c.Expression, c.EvalContext, c.Extra = nil, nil, nil
		c.Summary, c.Detail = secrets.redact(c.Summary), secrets.redact(c.Detail)
		key := c.Summary + "\x00" + c.Detail
		if c.Subject != nil {
			key += "\x00" + c.Subject.String()
		}
		if !seen[key] {
			seen[key] = true
			out = append(out, &c)
		}
	}
	slices.SortStableFunc(out, func(a, b *hcl.Diagnostic) int {
		switch {
		case a.Subject == nil && b.Subject == nil:
			return 0
		case a.Subject == nil:
			return -1
		case b.Subject == nil:
			return 1
		}
		if c := strings.Compare(a.Subject.Filename, b.Subject.Filename); c != 0 {
			return c
		}
		return a.Subject.Start.Byte - b.Subject.Start.Byte
	})
	if len(out) == 0 {
		return nil
	}
	return fewAlike(out)
}

// maxAlike is how many problems of one kind are told of one place: a block with
// for_each may have the same one for each of a thousand connectors.
const maxAlike = 10

func fewAlike(diags hcl.Diagnostics) hcl.Diagnostics {
	type kind struct {
		severity hcl.DiagnosticSeverity
		summary  string
		at       hcl.Range
	}
	seen := map[kind]int{}
	last := map[kind]*hcl.Diagnostic{}
	out := diags[:0]
	for _, d := range diags {
		if d.Subject == nil {
			out = append(out, d)
			continue
		}
		k := kind{d.Severity, d.Summary, *d.Subject}
		if seen[k]++; seen[k] <= maxAlike {
			out = append(out, d)
			last[k] = d
		}
	}
	for k, n := range seen {
		if n > maxAlike {
			last[k].Detail += fmt.Sprintf(" And %d more like this.", n-maxAlike)
		}
	}
	return out
}

// Diagnostics are problems found in definitions: the type that [Load] and
// [Format] share, for callers that do not know HCL.
type Diagnostics = hcl.Diagnostics //nolint:errname // HCL's type has an Error method; the name is its own.

// Count returns how many errors and warnings diags holds.
func Count(diags Diagnostics) (errors, warnings int) {
	for _, d := range diags {
		switch d.Severity {
		case hcl.DiagError:
			errors++
		case hcl.DiagWarning:
			warnings++
		case hcl.DiagInvalid:
		}
	}
	return errors, warnings
}
