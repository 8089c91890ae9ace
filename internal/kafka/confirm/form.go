package confirm

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/pluginapi"
)

// Form is how much of a record is written, and how.
type Form struct {
	Omit       Omission
	Now        bool // Under the time of writing instead of its own.
	MaxedBytes int  // Size of the record when it was found too large.
}

// Omission is what is left out of a record that is too large.
type Omission uint8

// The omissions.
const (
	Nothing Omission = iota
	Value
	All // Value, key and headers.
)

// form is a Form, and with whom it is written.
type form struct {
	Form
	alone bool // In a batch of its own: others must not suffer for it.
}

// Original makes a message of r's key, value and headers, as far as f leaves
// them in, for r's partition. Everything is copied.
func Original(r *pluginapi.Record, f Form) *kgo.Record {
	m := &kgo.Record{Partition: r.Partition}
	if f.Omit != All {
		m.Key = copied(r.Key)
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kgo.RecordHeader{Key: strings.Clone(h.Key), Value: copied(h.Value)})
		}
	}
	if f.Omit == Nothing {
		m.Value = copied(r.Value)
	}
	return m
}

// copied returns a copy of d's bytes, nil only if d is absent: a null.
func copied(d pluginapi.Datum) []byte {
	if d.IsAbsent() {
		return nil
	}
	if b, ok := d.Bytes(); ok {
		return append(make([]byte, 0, len(b)), b...)
	}
	return d.AppendText([]byte{}) // As acquired it is bytes; a converted one still tells more than none.
}
