// Package jsonlines writes records as JSON lines, one record a line, for the
// sinks that store or send them so. Its main type is [Format].
package jsonlines

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// Includable returns the names New takes, in the order they are written.
func Includable() []string {
	return []string{"topic", "partition", "offset", "timestamp", "key", "headers"}
}

// Format turns records into lines. Without anything included a line is the
// record's value; with it, an object of what is included and "value".
//
// How things are written:
//
//   - data as JSON with every digit kept (see data.Value.AppendJSON);
//   - a value of bytes that are JSON in UTF-8 as they are, without the white
//     space around and between tokens if there is a line break in it; so a
//     number keeps its digits and an object its order;
//   - other bytes, and all bytes of keys and headers, as a JSON string if they
//     are UTF-8, else as an object with one field, {"base64":"…"}, so that text
//     and binary stay apart;
//   - a tombstone's value, a null key and a null header value as null;
//   - the timestamp in RFC 3339 form, UTC, with milliseconds; null without one;
//   - headers as an array of {"key":…,"value":…}: they keep their order and may
//     repeat.
//
// A Format is immutable and safe for concurrent use.
type Format struct {
	object                                            bool
	topic, partition, offset, timestamp, key, headers bool
}

// New returns the format with the named things included, see [Includable].
// Naming something twice, or something else, is an error.
func New(include []string) (*Format, error) {
	f := &Format{object: len(include) > 0}
	for i, name := range include {
		if slices.Contains(include[:i], name) {
			return nil, fmt.Errorf("include names %q twice", name)
		}
		switch name {
		case "topic":
			f.topic = true
		case "partition":
			f.partition = true
		case "offset":
			f.offset = true
		case "timestamp":
			f.timestamp = true
		case "key":
			f.key = true
		case "headers":
			f.headers = true
		default:
			return nil, fmt.Errorf("include names %q; it may name %s", name, strings.Join(Includable(), ", "))
		}
	}
	return f, nil
}

// Append appends r as one line, without a line break at its end or within. It
// has no record it cannot write; the error is for formats to come.
func (f *Format) Append(dst []byte, r *pluginapi.Record) ([]byte, error) {
	if !f.object {
		return appendValue(dst, r.Value), nil
	}
	dst = append(dst, '{')
	if f.topic {
		dst = append(dst, `"topic":`...)
		dst = data.AppendJSONString(dst, r.Topic)
		dst = append(dst, ',')
	}
	if f.partition {
		dst = append(dst, `"partition":`...)
		dst = strconv.AppendInt(dst, int64(r.Partition), 10)
		dst = append(dst, ',')
	}
	if f.offset {
		dst = append(dst, `"offset":`...)
		dst = strconv.AppendInt(dst, r.Offset, 10)
		dst = append(dst, ',')
	}
	if f.timestamp {
		dst = append(dst, `"timestamp":`...)
		dst = appendTimestamp(dst, r)
		dst = append(dst, ',')
	}
	if f.key {
		dst = append(dst, `"key":`...)
		dst = appendText(dst, r.Key)
		dst = append(dst, ',')
	}
	if f.headers {
		dst = append(dst, `"headers":`...)
		dst = appendHeaders(dst, r.Headers)
		dst = append(dst, ',')
	}
	dst = append(dst, `"value":`...)
	dst = appendValue(dst, r.Value)
	return append(dst, '}'), nil
}

func appendValue(dst []byte, d pluginapi.Datum) []byte {
	b, ok := d.Bytes()
	if !ok {
		return appendText(dst, d)
	}
	valid, broken := scan(b)
	switch {
	case !valid:
		return appendText(dst, d)
	case broken:
		buf := bytes.NewBuffer(dst)
		if json.Compact(buf, b) == nil {
			return buf.Bytes()
		}
		return appendText(dst, d)
	default:
		return append(dst, b...)
	}
}

// appendText appends a datum without looking for JSON in its bytes.
func appendText(dst []byte, d pluginapi.Datum) []byte {
	if typed, ok := d.Data(); ok {
		return typed.Value.AppendJSON(dst)
	}
	b, ok := d.Bytes()
	switch {
	case !ok:
		return append(dst, "null"...)
	case utf8.Valid(b):
		return data.AppendJSONString(dst, string(b))
	default:
		dst = append(dst, `{"base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, b)
		return append(dst, `"}`...)
	}
}

func appendTimestamp(dst []byte, r *pluginapi.Record) []byte {
	if r.TimestampType == pluginapi.NoTimestamp {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = r.Timestamp.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z07:00")
	return append(dst, '"')
}

func appendHeaders(dst []byte, headers []pluginapi.Header) []byte {
	dst = append(dst, '[')
	for i := range headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":`...)
		dst = data.AppendJSONString(dst, headers[i].Key)
		dst = append(dst, `,"value":`...)
		dst = appendText(dst, headers[i].Value)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
