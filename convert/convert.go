// Package convert turns the bytes of a record's key, value and headers into
// the data a sink gets: converters "bytes", "string" and "json", and the
// [Chain] of one connector. It reads only; nothing here writes to Kafka.
package convert

import (
	"fmt"
	"strconv"

	"github.com/sluicehq/sluice/pluginapi"
)

// The stages an [Error] may name, in Kafka Connect's words.
const (
	StageKey    = "KEY_CONVERTER"
	StageValue  = "VALUE_CONVERTER"
	StageHeader = "HEADER_CONVERTER"
)

// Error says that a part of a record could not be read. It is the record's
// fault: converting it again gives the same error.
type Error struct {
	Stage string // StageKey, StageValue or StageHeader.
	Err   error  // Names places and fields of the record, never its content.
}

// Error returns the cause's text.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Converter reads one key, value or header value. It is immutable from its
// user's view and safe for concurrent use.
type Converter interface {
	// Convert reads raw, which is not nil. The datum may share raw's memory,
	// so raw must not change while the datum is in use.
	Convert(raw []byte) (pluginapi.Datum, error)
}

// Chain holds the converters of one connector. A nil one keeps the bytes. It is
// safe for concurrent use.
type Chain struct {
	Key, Value, Header Converter
}

// Convert sets out to rec as the sink shall see it. What is absent stays
// absent whatever the converter: a tombstone is one afterwards. rec is not
// changed; out shares its memory. keep is always true, since a converter drops
// nothing. The error is an [*Error], and out then holds nothing of use.
func (c *Chain) Convert(rec, out *pluginapi.Record) (keep bool, err error) {
	*out = *rec
	if out.Key, err = convert(c.Key, rec.Key); err != nil {
		return false, &Error{Stage: StageKey, Err: err}
	}
	if out.Value, err = convert(c.Value, rec.Value); err != nil {
		return false, &Error{Stage: StageValue, Err: err}
	}
	if c.Header == nil || len(rec.Headers) == 0 {
		return true, nil
	}
	if _, same := c.Header.(bytesConverter); same {
		return true, nil
	}
	out.Headers = make([]pluginapi.Header, len(rec.Headers))
	for i := range rec.Headers {
		h := &rec.Headers[i]
		out.Headers[i].Key = h.Key
		if out.Headers[i].Value, err = convert(c.Header, h.Value); err != nil {
			return false, &Error{Stage: StageHeader, Err: fmt.Errorf("header %s: %w", clip(h.Key), err)}
		}
	}
	return true, nil
}

// convert reads d unless it is absent, or no longer bytes.
func convert(c Converter, d pluginapi.Datum) (pluginapi.Datum, error) {
	raw, ok := d.Bytes()
	if !ok || c == nil {
		return d, nil
	}
	return c.Convert(raw)
}

// clip quotes a name from a record, shortened, so that an error stays short.
func clip(name string) string {
	const most = 64
	if len(name) > most {
		return strconv.QuoteToASCII(name[:most]) + "…"
	}
	return strconv.Quote(name)
}
