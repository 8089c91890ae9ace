package jdbc

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// row is what one record writes.
type row struct {
	index   int // Of the record in its batch.
	shape   *shape
	params  []any // In the shape's order.
	bytes   int   // About the size of the parameters.
	key     string
	exact   bool // Keys that differ in text are different keys to the database too.
	version data.Value
	folded  []*row // Rows of the same key that this one makes needless. They are written if it is rejected.
}

// Codes of records that are rejected before a database sees them.
const (
	codeValue   = "value"         // There is no object.
	codeTable   = "table"         // No table's name can be made.
	codeField   = "unknown_field" // A field has no column.
	codeColumn  = "column"        // A column does not take the value.
	codeKey     = "key"           // A field of the key is missing.
	codeVersion = "version"       // The version is missing.
)

// unknownFieldError says that a record has a field that the table, as far as we know it, has no column for.
type unknownFieldError struct{ field, problem string }

func (e *unknownFieldError) Error() string {
	return fmt.Sprintf(`field %q: %s; add the column, drop the field by a transform, or set unknown_fields = "ignore"`, e.field, e.problem)
}

// rowBuilder makes rows of one table.
type rowBuilder struct {
	dialect  dialect
	settings *settings
	table    *table
	present  []bool
	values   []data.Value
}

func newRowBuilder(d dialect, s *settings, t *table) *rowBuilder {
	return &rowBuilder{dialect: d, settings: s, table: t, present: make([]bool, len(t.columns)), values: make([]data.Value, len(t.columns))}
}

func reject(code, format string, args ...any) *pluginapi.Error {
	return newFault(faultData, code, fmt.Sprintf(format, args...)).err
}

// build returns the row of r. unknown is set where the table has to be read again.
func (b *rowBuilder) build(index int, r *pluginapi.Record) (out *row, unknown bool, _ *pluginapi.Error) {
	clear(b.present)
	if err := b.fields(r); err != nil {
		return nil, true, reject(codeField, "%s: %v", b.table.name, err)
	}
	if err := b.keys(r); err != nil {
		return nil, false, err
	}
	out = &row{index: index}
	if v := b.table.version; v >= 0 {
		if !b.present[v] || b.values[v].IsNull() {
			return nil, false, reject(codeVersion, "%s: the version %q is missing or null", b.table.name, b.table.columns[v].name)
		}
		out.version = b.values[v]
	}
	n := 0
	for _, p := range b.present {
		if p {
			n++
		}
	}
	if n == 0 {
		return nil, false, reject(codeValue, "%s: the record has no field for any column", b.table.name)
	}
	out.shape = b.table.shapeOf(b.dialect, b.settings, b.present)
	out.params = make([]any, n)
	for i, c := range out.shape.columns {
		p, err := b.param(&b.table.columns[c], b.values[c])
		if err != nil {
			return nil, false, reject(codeColumn, "%s: %v", b.table.name, err)
		}
		out.params[i] = p
		out.bytes += paramBytes(p)
	}
	if b.settings.upsert {
		b.encodeKey(out)
	}
	return out, false, nil
}

// param returns v for column c.
func (b *rowBuilder) param(c *column, v data.Value) (any, error) {
	if v.IsNull() {
		if c.automatic {
			return nil, fmt.Errorf("column %q is null; the database would store a value of its own", c.name)
		}
		return nil, nil
	}
	return b.dialect.value(c, v)
}

// fields takes the fields of the record's value.
func (b *rowBuilder) fields(r *pluginapi.Record) *unknownFieldError {
	typed, ok := r.Value.Data()
	if !ok {
		return nil
	}
	if s := typed.Value.Struct(); s != nil {
		for i, v := range s.Fields {
			if v.Kind() == data.KindMissing || i >= len(s.Schema.Fields) {
				continue
			}
			if err := b.field(s.Schema.Fields[i].Name, v); err != nil {
				return err
			}
		}
		return nil
	}
	for _, e := range typed.Value.Entries() {
		if e.Value.Kind() == data.KindMissing {
			continue
		}
		name := e.Key.Str()
		if e.Key.Kind() != data.KindString {
			name = string(e.Key.AppendText(nil))
		}
		if err := b.field(name, e.Value); err != nil {
			return err
		}
	}
	return nil
}

func (b *rowBuilder) field(name string, v data.Value) *unknownFieldError {
	i, ok := b.table.index[name]
	switch {
	case ok && !b.table.columns[i].generated:
		b.present[i], b.values[i] = true, v
		return nil
	case b.settings.ignoreUnknown:
		return nil
	case ok:
		return &unknownFieldError{name, "the database makes the column's value itself"}
	default:
		return &unknownFieldError{name, "the table has no column of that name"}
	}
}

// keys takes the columns of the key and checks that they are there.
func (b *rowBuilder) keys(r *pluginapi.Record) *pluginapi.Error {
	switch b.settings.pkSource {
	case fromKafka:
		for n, v := range [...]data.Value{data.String(r.Topic), data.Int32(r.Partition), data.Int64(r.Offset)} {
			b.set(n, v)
		}
	case fromKey:
		if err := b.recordKey(r.Key); err != nil {
			return err
		}
	}
	for n, i := range b.table.key {
		if !b.present[i] || b.values[i].IsNull() {
			return reject(codeKey, "%s: the key's field %q is missing or null", b.table.name, b.settings.pkFields[n])
		}
	}
	return nil
}

func (b *rowBuilder) set(n int, v data.Value) {
	b.present[b.table.key[n]], b.values[b.table.key[n]] = true, v
}

func (b *rowBuilder) recordKey(d pluginapi.Datum) *pluginapi.Error {
	if d.IsAbsent() {
		return reject(codeKey, "%s: the record has no key", b.table.name)
	}
	var v data.Value
	if raw, ok := d.Bytes(); ok {
		v = data.Bytes(raw)
	} else {
		typed, _ := d.Data()
		v = typed.Value
	}
	if k := v.Kind(); k == data.KindStruct || k == data.KindMap {
		for n, name := range b.settings.pkFields {
			b.set(n, v.Get(name))
		}
		return nil
	}
	if len(b.table.key) != 1 {
		return reject(codeKey, "%s: the key is one value, pk.fields names %d fields", b.table.name, len(b.table.key))
	}
	b.set(0, v)
	return nil
}

// encodeKey makes the text of r's key, which is equal only for equal keys. The reverse does not hold: the database may take
// "A" and "a" or two spellings of one number for one key.
func (b *rowBuilder) encodeKey(r *row) {
	var buf []byte
	r.exact = true
	for _, k := range b.table.key {
		kind := b.values[k].Kind()
		switch b.table.columns[k].kind {
		case kindInteger:
			r.exact = r.exact && kind.IsInteger()
		case kindUUID:
			r.exact = r.exact && kind == data.KindUUID
		default:
			r.exact = false
		}
		for i, c := range r.shape.columns {
			if c == k {
				text := appendParam(nil, r.params[i])
				buf = binary.BigEndian.AppendUint32(buf, uint32(len(text)))
				buf = append(buf, text...)
			}
		}
	}
	r.key = string(buf)
}

func appendParam(dst []byte, p any) []byte {
	switch p := p.(type) {
	case string:
		return append(dst, p...)
	case []byte:
		return append(dst, p...)
	case int64:
		return strconv.AppendInt(dst, p, 10)
	case uint64:
		return strconv.AppendUint(dst, p, 10)
	case float64:
		return strconv.AppendFloat(dst, p, 'g', -1, 64)
	default:
		return dst
	}
}

func paramBytes(p any) int {
	switch p := p.(type) {
	case string:
		return len(p) + 4
	case []byte:
		return len(p) + 12
	default:
		return 12
	}
}
