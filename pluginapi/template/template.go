// Package template is the one template language of the sinks' settings: text
// with placeholders that each record fills in.
//
//	{topic} {partition} {offset}   where the record was read
//	{key} {key.field}              its key, or a field of it
//	{value} {value.a.b}            its value, or a field of it, nested by dots
//	{header.name}                  its last header called name
//	{timestamp:2006-01-02}         its timestamp in UTC, laid out as by package time
//	{timestamp}                    its timestamp in milliseconds since 1970
//	{{                             one opening brace
//
// A name that holds a dot, a brace or a back-tick stands in back-ticks, with a
// back-tick doubled inside: {value.`a.b`}. What follows "header." is one name,
// dots included. A closing brace outside a placeholder is itself.
//
// Bytes are not looked into: {value.id} needs a converter that makes data. The
// package imports only the standard library and pluginapi.
package template

import (
	"strconv"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// MaxLength is the length of the longest template in bytes.
const MaxLength = 64 << 10

// Template is a parsed template. It is immutable and safe for concurrent use.
type Template struct {
	text  string
	parts []part
}

// part is a piece of literal text or one placeholder.
type part struct {
	source source
	text   string   // The literal text, or the placeholder as it was written.
	path   []string // Field names, outermost first; of a key or value.
	header string
	layout string // Of a timestamp; empty means milliseconds.
}

type source uint8

const (
	literal source = iota
	topic
	partition
	offset
	key
	value
	header
	timestamp
)

// String returns the text the template was parsed from.
func (t *Template) String() string { return t.text }

// Constant returns the template's text if it has no placeholder, and whether
// that is so.
func (t *Template) Constant() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].source == literal:
		return t.parts[0].text, true
	default:
		return "", false
	}
}

// Append appends the template filled in from r. The error is a [*FieldError]:
// r lacks something the template names. dst's length is then as it came.
func (t *Template) Append(dst []byte, r *pluginapi.Record) ([]byte, error) {
	return t.AppendEscaped(dst, r, nil)
}

// AppendEscaped is Append with every placeholder's text passed through escape,
// which appends field to dst in a form that is safe where the template stands.
// Literal text is not escaped. A nil escape appends field as it is. escape
// must not keep field.
func (t *Template) AppendEscaped(dst []byte, r *pluginapi.Record, escape func(dst, field []byte) []byte) ([]byte, error) {
	start := len(dst)
	var field []byte
	for i := range t.parts {
		p := &t.parts[i]
		var err error
		switch {
		case p.source == literal:
			dst = append(dst, p.text...)
		case escape == nil:
			dst, err = p.append(dst, r)
		default:
			if field, err = p.append(field[:0], r); err == nil {
				dst = escape(dst, field)
			}
		}
		if err != nil {
			return dst[:start], err
		}
	}
	return dst, nil
}

func (p *part) append(dst []byte, r *pluginapi.Record) ([]byte, error) {
	switch p.source {
	case topic:
		return append(dst, r.Topic...), nil
	case partition:
		return strconv.AppendInt(dst, int64(r.Partition), 10), nil
	case offset:
		return strconv.AppendInt(dst, r.Offset, 10), nil
	case key:
		return p.appendDatum(dst, r.Key, "key")
	case value:
		return p.appendDatum(dst, r.Value, "value")
	case header:
		d, ok := r.Header(p.header)
		if !ok {
			return dst, p.fault("the record has no such header")
		}
		return p.appendDatum(dst, d, "header's value")
	case timestamp:
		if r.TimestampType == pluginapi.NoTimestamp {
			return dst, p.fault("the record has no timestamp")
		}
		if p.layout == "" {
			return strconv.AppendInt(dst, r.Timestamp.UnixMilli(), 10), nil
		}
		return r.Timestamp.UTC().AppendFormat(dst, p.layout), nil
	default:
		return append(dst, p.text...), nil
	}
}

// appendDatum appends a key, value or header's value, or the field of it that
// p names. what is its name in an error.
func (p *part) appendDatum(dst []byte, d pluginapi.Datum, what string) ([]byte, error) {
	if d.IsAbsent() {
		return dst, p.fault("the record has no " + what)
	}
	typed, ok := d.Data()
	if !ok {
		if len(p.path) > 0 {
			return dst, p.fault("the " + what + ` is bytes; set a converter that reads it, such as "json"`)
		}
		return d.AppendText(dst), nil
	}
	v := typed.Value
	for _, name := range p.path {
		if kind := v.Kind(); kind != data.KindStruct && kind != data.KindMap {
			return dst, p.fault("there is no field " + strconv.Quote(name) + " in a " + kind.String())
		}
		if v = v.Get(name); v.Kind() == data.KindMissing {
			return dst, p.fault("the record has no field " + strconv.Quote(name))
		}
	}
	if v.IsNull() {
		return dst, p.fault("it is null")
	}
	return v.AppendText(dst), nil
}

func (p *part) fault(problem string) error {
	return &FieldError{Placeholder: p.text, Problem: problem}
}

// FieldError says that a record lacks what a placeholder names. It is the
// record's fault: filling the template in again gives the same error.
type FieldError struct {
	Placeholder string // As it stands in the template, e.g. "{value.id}".
	Problem     string // What the record lacks. It holds names, never content.
}

// Error returns the placeholder and what is wrong with it.
func (e *FieldError) Error() string { return e.Placeholder + ": " + e.Problem }
