package convert

import (
	"errors"
	"fmt"
	"unicode/utf8"
	"unsafe"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// ErrUTF8 is in the chain of the error for text that is not UTF-8.
var ErrUTF8 = errors.New("invalid UTF-8")

// bytesConverter keeps the bytes as they are.
type bytesConverter struct{}

var _ Converter = bytesConverter{}

func (bytesConverter) Convert(raw []byte) (pluginapi.Datum, error) {
	return pluginapi.BytesDatum(raw), nil
}

// stringConverter makes a string of the bytes. Bytes that are not UTF-8 are an
// error: replacing them would change the record in silence. Empty bytes are an
// empty string.
type stringConverter struct {
	schema *data.Schema
}

var _ Converter = (*stringConverter)(nil)

func newString() *stringConverter {
	return &stringConverter{schema: &data.Schema{Kind: data.KindString, Optional: true}}
}

func (c *stringConverter) Convert(raw []byte) (pluginapi.Datum, error) {
	if !utf8.Valid(raw) {
		return pluginapi.Datum{}, fmt.Errorf("read a string: position %d: %w", invalidUTF8(raw)+1, ErrUTF8)
	}
	return pluginapi.DataDatum(&data.Typed{Schema: c.schema, Value: data.String(text(raw))}), nil
}

// invalidUTF8 returns where the first byte stands that is not UTF-8.
func invalidUTF8(b []byte) int {
	i := 0
	for i < len(b) {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	return i
}

// text returns b as a string without a copy; see [Converter.Convert] on whose
// memory it is.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
