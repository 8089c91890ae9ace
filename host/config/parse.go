package config

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
)

// maxNesting bounds brackets within brackets: the parsers are recursive, and a
// stack that overflows cannot be recovered from.
const maxNesting = 100

// isJSON reports whether a file is in HCL's JSON form.
func isJSON(name string) bool { return strings.HasSuffix(name, ".json") }

// parseFile parses one file. The file it returns is never nil; with errors it
// holds what could be read.
func parseFile(name string, src []byte) (*hcl.File, hcl.Diagnostics) {
	empty := &hcl.File{Body: hcl.EmptyBody(), Bytes: src}
	if diags := checkBytes(name, src); diags.HasErrors() {
		return empty, diags
	}
	var file *hcl.File
	var diags hcl.Diagnostics
	if isJSON(name) {
		src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
		if diags := checkJSON(name, src); diags.HasErrors() {
			empty.Bytes = src
			return empty, diags
		}
		if file, diags = json.Parse(src, name); diags.HasErrors() {
			// What was read up to the error could be half of a definition.
			empty.Bytes = src
			return empty, diags
		}
	} else {
		tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos) // The parser reports what is wrong with them.
		if d := checkNesting(tokens); d != nil {
			return empty, hcl.Diagnostics{d}
		}
		file, diags = hclsyntax.ParseConfig(src, name, hcl.InitialPos)
		explainSyntax(src, diags)
	}
	if file == nil || file.Body == nil {
		file = empty
	}
	return file, diags
}

// checkBytes refuses what is not text, before a parser sees it.
func checkBytes(name string, src []byte) hcl.Diagnostics {
	if len(src) > maxFileBytes {
		return hcl.Diagnostics{errorAt(hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}, "File too large",
			"The file has %d bytes; a configuration file may have %s. Split it into several files of one directory.", len(src), sizeText(maxFileBytes))}
	}
	if at := bytes.IndexByte(src, 0); at >= 0 {
		return hcl.Diagnostics{errorAt(rangeAt(name, src, at), "Not a text file",
			"There is a NUL byte here. Save the file as UTF-8 text without NUL bytes.")}
	}
	if !utf8.Valid(src) {
		at := 0
		for at < len(src) {
			r, n := utf8.DecodeRune(src[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return hcl.Diagnostics{errorAt(rangeAt(name, src, at), "Not UTF-8",
			"The byte 0x%02x here is not UTF-8 text. Save the file as UTF-8.", src[at])}
	}
	return nil
}

// rangeAt is the one-byte range at offset at.
func rangeAt(name string, src []byte, at int) hcl.Range {
	at = min(max(at, 0), len(src))
	line := 1 + bytes.Count(src[:at], []byte("\n"))
	column := 1 + utf8.RuneCount(src[bytes.LastIndexByte(src[:at], '\n')+1:at])
	start := hcl.Pos{Line: line, Column: column, Byte: at}
	end := start
	if at < len(src) {
		end.Byte++
		end.Column++
	}
	return hcl.Range{Filename: name, Start: start, End: end}
}

// maxRun bounds the operators, indexes and directives of one expression that
// nest in the parser and evaluator though they need no brackets.
const maxRun = 500

// checkNesting walks the tokens, which takes no stack, and refuses what the
// recursive parser and evaluator may not survive: deep brackets, and long runs
// of operators. With both bounds the deepest recursion takes a fraction of the
// stack a goroutine may have; one that overflows would end the process.
func checkNesting(tokens hclsyntax.Tokens) *hcl.Diagnostic {
	type level struct {
		brace bool // Opened by a brace, so that a newline ends an expression.
		run   int
	}
	levels := []level{{brace: true}}
	for _, t := range tokens {
		top := &levels[len(levels)-1]
		switch t.Type {
		case hclsyntax.TokenOBrace:
			levels = append(levels, level{brace: true})
		case hclsyntax.TokenOBrack, hclsyntax.TokenTemplateControl:
			top.run++ // An index may follow an index, and a directive is in the one before.
			levels = append(levels, level{})
		case hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp:
			levels = append(levels, level{})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			if len(levels) > 1 {
				levels = levels[:len(levels)-1]
			}
		case hclsyntax.TokenComma:
			top.run = 0
		case hclsyntax.TokenNewline:
			if top.brace {
				top.run = 0
			}
		case hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenPlus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
			hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq,
			hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenAnd, hclsyntax.TokenOr,
			hclsyntax.TokenQuestion, hclsyntax.TokenDot:
			top.run++
		default:
		}
		if top = &levels[len(levels)-1]; len(levels) > maxNesting+1 || levels[max(len(levels)-2, 0)].run > maxRun || top.run > maxRun {
			return errorAt(t.Range, "Nested too deeply",
				"Brackets may stand in each other %d deep, and one expression may have %d operators. Close the brackets that are open, or give inner values a name in a locals block.", maxNesting, maxRun)
		}
	}
	return nil
}

// explainSyntax adds a remedy where the parser's message does not say what the
// author most likely wanted.
func explainSyntax(src []byte, diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Subject == nil || d.Subject.Start.Byte > len(src) {
			continue
		}
		line := lineAt(src, d.Subject.Start.Byte)
		for _, ref := range []struct{ written, remedy string }{
			{"${env:", `To read an environment variable write env("NAME").`},
			{"${file:", `To read a file write file("PATH").`},
			{"${secret", `To mark a value as secret write secret(VALUE).`},
		} {
			if strings.Contains(line, ref.written) {
				d.Detail += " " + ref.remedy
				break
			}
		}
		if dotted := regexp.MustCompile(`^\s*([A-Za-z_]+(?:\.[A-Za-z_]+)+)\s*=`).FindStringSubmatch(line); dotted != nil {
			d.Detail += fmt.Sprintf(" A Kafka Connect name with dots belongs into the connector's properties = { %q = \"…\" }.", dotted[1])
		}
	}
}

// lineAt returns the line that holds offset at.
func lineAt(src []byte, at int) string {
	at = min(at, len(src))
	from := bytes.LastIndexByte(src[:at], '\n') + 1
	to := len(src)
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		to = at + i
	}
	return string(src[from:to])
}

// checkJSON refuses what the JSON form of HCL takes but nobody means: the same
// key twice in one object, of which one would silently win, and deep nesting.
// What is not JSON at all is left to the parser, which explains it better.
func checkJSON(name string, src []byte) hcl.Diagnostics {
	var diags hcl.Diagnostics
	dec := stdjson.NewDecoder(bytes.NewReader(src))
	type level struct {
		keys map[string]int // Offset behind the key; nil in an array.
		want bool           // The next token is a key.
	}
	var stack []level
	for {
		tok, err := dec.Token()
		if err != nil {
			return diags // The end, or what is not JSON.
		}
		top := len(stack) - 1
		if text, ok := tok.(string); ok && (strings.Contains(text, "${") || strings.Contains(text, "%{")) {
			// Texts are templates, which are parsed when they are evaluated.
			tokens, _ := hclsyntax.LexTemplate([]byte(text), name, hcl.InitialPos)
			if d := checkNesting(tokens); d != nil {
				at := rangeAt(name, src, int(dec.InputOffset())-1)
				d.Subject = &at
				return append(diags, d)
			}
		}
		if delim, ok := tok.(stdjson.Delim); ok && (delim == '}' || delim == ']') {
			stack = stack[:top]
			if top > 0 && stack[top-1].keys != nil {
				stack[top-1].want = true
			}
			continue
		}
		if top >= 0 && stack[top].want {
			key, _ := tok.(string)
			end := int(dec.InputOffset())
			if first, twice := stack[top].keys[key]; twice && key != "//" {
				diags = append(diags, errorAt(keyRange(name, src, key, end), "Duplicate key",
					"The key %q was already written at %s. Remove one of the two; for several blocks of one kind write a list of objects.",
					key, place(keyRange(name, src, key, first))))
			} else {
				stack[top].keys[key] = end
			}
			stack[top].want = false
			continue
		}
		if top >= 0 && stack[top].keys != nil {
			stack[top].want = true
		}
		if delim, ok := tok.(stdjson.Delim); ok {
			next := level{}
			if delim == '{' {
				next = level{keys: map[string]int{}, want: true}
			}
			if stack = append(stack, next); len(stack) > maxNesting {
				return append(diags, errorAt(rangeAt(name, src, int(dec.InputOffset())-1), "Nested too deeply",
					"Objects and lists may stand in each other %d deep.", maxNesting))
			}
		}
	}
}

// keyRange finds the range of a JSON key that ends at offset end.
func keyRange(name string, src []byte, key string, end int) hcl.Range {
	start := end - len(key) - 2
	if start < 0 || start >= len(src) || src[start] != '"' { // Written with escapes.
		start = end - 1
	}
	r := rangeAt(name, src, start)
	r.End = rangeAt(name, src, end).Start
	return r
}

// jsonDepth reports an error when a JSON text nests deeper than maxNesting.
func jsonDepth(text string) error {
	depth := 0
	inString, escaped := false, false
	for i := range len(text) {
		switch c := text[i]; {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxNesting {
				return fmt.Errorf("the JSON nests deeper than %d", maxNesting)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
