package pluginapi

import "github.com/sluicehq/sluice/pluginapi/data"

// Datum is a key, a value or a header's value: absent, raw bytes, or data with
// an optional schema, as the connector's converter made it. The zero Datum is
// absent: a null key, or a tombstone's value. Absent, empty bytes and data null
// are three different things.
type Datum struct {
	bytes []byte
	typed *data.Typed
}

// BytesDatum returns b as a datum; nil is absent, empty bytes are not.
func BytesDatum(b []byte) Datum { return Datum{bytes: b} }

// DataDatum returns t as a datum; nil is absent.
func DataDatum(t *data.Typed) Datum { return Datum{typed: t} }

// IsAbsent reports whether there is neither bytes nor data.
func (d Datum) IsAbsent() bool { return d.bytes == nil && d.typed == nil }

// Bytes returns the raw bytes, and whether d is bytes.
func (d Datum) Bytes() ([]byte, bool) { return d.bytes, d.bytes != nil }

// Data returns the value and its schema, and whether d is data. The schema
// inside may be nil.
func (d Datum) Data() (*data.Typed, bool) { return d.typed, d.typed != nil }

// AppendText appends d as text: bytes as they are, a data string or bytes as
// they are, other data as JSON, nothing for absent.
func (d Datum) AppendText(dst []byte) []byte {
	switch {
	case d.typed != nil:
		return d.typed.Value.AppendText(dst)
	default:
		return append(dst, d.bytes...)
	}
}
