package convert

import (
	"errors"

	"github.com/sluicehq/sluice/pluginapi"
)

// Encoder writes what its converter reads. Those that [New] returns are.
type Encoder interface {
	// Encode returns the bytes of d, nil where it is absent. What is bytes
	// already stays so and may share d's memory.
	Encode(d pluginapi.Datum) ([]byte, error)
}

var (
	_ Encoder = bytesConverter{}
	_ Encoder = (*stringConverter)(nil)
	_ Encoder = (*jsonConverter)(nil)
)

// EncodeKey writes a key with the converter of keys.
func (c *Chain) EncodeKey(d pluginapi.Datum) ([]byte, error) { return c.encode(d, (*Chain).key) }

// EncodeValue writes a value with the converter of values.
func (c *Chain) EncodeValue(d pluginapi.Datum) ([]byte, error) { return c.encode(d, (*Chain).value) }

// EncodeHeader writes a header's value with the converter of header values.
func (c *Chain) EncodeHeader(d pluginapi.Datum) ([]byte, error) { return c.encode(d, (*Chain).header) }

func (c *Chain) key() Converter    { return c.Key }
func (c *Chain) value() Converter  { return c.Value }
func (c *Chain) header() Converter { return c.Header }

// encode writes d with one of c's converters: as text where there is none.
func (c *Chain) encode(d pluginapi.Datum, which func(*Chain) Converter) ([]byte, error) {
	if b, ok := d.Bytes(); ok || d.IsAbsent() {
		return b, nil
	}
	if c != nil {
		if enc, ok := which(c).(Encoder); ok {
			return enc.Encode(d)
		}
	}
	return bytesConverter{}.Encode(d)
}

// Encode writes data as text.
func (bytesConverter) Encode(d pluginapi.Datum) ([]byte, error) {
	if d.IsAbsent() {
		return nil, nil
	}
	return d.AppendText([]byte{}), nil
}

// Encode writes data as text.
func (*stringConverter) Encode(d pluginapi.Datum) ([]byte, error) { return bytesConverter{}.Encode(d) }

var errEnvelope = errors.New("the converter json with schemas_enable = true only reads; " +
	"let the sink emit bytes, or leave schemas_enable out and it writes JSON without a schema")

// Encode writes data as JSON without a schema.
func (c *jsonConverter) Encode(d pluginapi.Datum) ([]byte, error) {
	if b, ok := d.Bytes(); ok || d.IsAbsent() {
		return b, nil
	}
	if c.mode == envelopeAlways {
		return nil, errEnvelope
	}
	typed, _ := d.Data()
	return typed.Value.AppendJSON([]byte{}), nil
}
