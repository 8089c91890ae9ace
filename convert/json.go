package convert

import (
	"bytes"
	"sync"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// envelopeMode says whether a text is an object with "schema" and "payload".
type envelopeMode uint8

const (
	envelopeAuto   envelopeMode = iota // If it has the form, see jsonConverter.
	envelopeAlways                     // It must have the form.
	envelopeNever
)

// jsonConverter reads JSON: schemaless, or with the schema in front of the
// payload as Kafka Connect's JsonConverter writes it.
//
// Unless told, it takes a text for the second form if it is an object with
// exactly the fields "schema" and "payload" of which the first is null or an
// object whose "type" is one of Connect's. Anything else is schemaless.
type jsonConverter struct {
	mode        envelopeMode
	nullDefault bool
	schemas     schemaCache
	parsers     sync.Pool // Of *parser.
}

var _ Converter = (*jsonConverter)(nil)

func newJSON(options pluginapi.Config) *jsonConverter {
	c := &jsonConverter{nullDefault: options.Bool("replace_null_with_default")}
	c.schemas.most = int(options.Int("schemas_cache_size"))
	c.parsers.New = func() any { return new(parser) }
	if options.Has("schemas_enable") {
		c.mode = envelopeNever
		if options.Bool("schemas_enable") {
			c.mode = envelopeAlways
		}
	}
	return c
}

func (c *jsonConverter) Convert(raw []byte) (pluginapi.Datum, error) {
	p := c.parsers.Get().(*parser)
	defer c.parsers.Put(p)
	typed, err := c.read(p, raw)
	if err != nil {
		return pluginapi.Datum{}, err
	}
	return pluginapi.DataDatum(typed), nil
}

func (c *jsonConverter) read(p *parser, raw []byte) (*data.Typed, error) {
	if c.mode != envelopeNever {
		p.reset(raw)
		if schema, payload, ok := p.split(); ok {
			s, is, err := c.schema(p, raw, schema)
			if err != nil {
				return nil, err
			}
			if is {
				return c.payload(p, raw[:payload.to], payload.from, s)
			}
		}
	}
	p.reset(raw)
	v, err := p.document(nil)
	if err != nil {
		return nil, err
	}
	if c.mode == envelopeAlways {
		return nil, &SyntaxError{Reason: `want an object with exactly the fields "schema" and "payload"; for records without a schema set schemas_enable = false`}
	}
	return &data.Typed{Value: v}, nil
}

// schema returns the schema that stands at at, nil for null. is reports
// whether it is one, so whether the text has the form with a schema.
func (c *jsonConverter) schema(p *parser, raw []byte, at span) (s *data.Schema, is bool, err error) {
	piece := raw[at.from:at.to]
	if s := c.schemas.get(piece); s != nil {
		return s, true, nil
	}
	// The schema outlives the record, so it is read from a copy.
	piece = bytes.Clone(piece)
	p.reset(piece)
	v, err := p.document(nil)
	if err != nil {
		return nil, false, p.shift(at.from)
	}
	if v.Kind() == data.KindNull {
		return nil, true, nil
	}
	if _, known := kindOf(v.Get("type").Str()); !known && c.mode == envelopeAuto {
		return nil, false, nil
	}
	if s, err = buildSchema(v); err != nil {
		return nil, false, &SyntaxError{Offset: at.from, Reason: "the schema: " + err.Error()}
	}
	c.schemas.put(piece, s)
	return s, true, nil
}

// payload reads the end of raw from from on.
func (c *jsonConverter) payload(p *parser, raw []byte, from int, s *data.Schema) (*data.Typed, error) {
	p.reset(raw)
	p.i = from
	p.nullDefault = c.nullDefault
	v, err := p.document(s)
	if err != nil {
		return nil, err
	}
	return &data.Typed{Schema: s, Value: v}, nil
}

// shift moves the place of the parser's fault, which lies in a piece of a text
// that begins at by.
func (p *parser) shift(by int) error {
	p.fault.Offset += by
	return p.fault
}

// span is a piece of a text: from is its first byte, to the one behind it.
type span struct{ from, to int }

// split finds the two fields of an object that has exactly "schema" and
// "payload". Their values are passed over, not checked: whoever reads them
// does that. ok is false for every other text.
func (p *parser) split() (schema, payload span, ok bool) {
	if c, ok := p.next("an object"); !ok || c != '{' {
		return schema, payload, false
	}
	if !p.enter() {
		return schema, payload, false
	}
	for first := true; ; first = false {
		name, _, more, ok := p.member(first)
		if !ok {
			return schema, payload, false
		}
		if !more {
			break
		}
		at := &schema
		switch name {
		case "schema":
		case "payload":
			at = &payload
		default:
			return schema, payload, false
		}
		p.space()
		from := p.i
		if !p.skip() {
			return schema, payload, false
		}
		*at = span{from, p.i}
	}
	p.space()
	return schema, payload, p.i == len(p.b) && schema.to > 0 && payload.to > 0
}

// skip passes over a value: to the bracket that closes it, or to what ends a
// scalar. What lies between is not checked.
func (p *parser) skip() bool {
	for depth := 0; p.i < len(p.b); {
		switch p.b[p.i] {
		case '"':
			if _, ok := p.str(); !ok {
				return false
			}
			if depth == 0 {
				return true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return true
			}
			if depth--; depth == 0 {
				p.i++
				return true
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return true
			}
		}
		p.i++
	}
	return false
}

// schemaCache keeps schemas by their text, so that records with the same text
// share one schema. It is safe for concurrent use.
type schemaCache struct {
	most int // Schemas kept; more than that empties it.

	mu      sync.RWMutex
	schemas map[string]*data.Schema // Guarded by mu.
}

// maxCachedSchema bounds the text of a schema that is kept, and so with most
// the memory of all.
const maxCachedSchema = 64 << 10

func (c *schemaCache) get(piece []byte) *data.Schema {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.schemas[string(piece)]
}

// put keeps s under piece, which it takes over.
func (c *schemaCache) put(piece []byte, s *data.Schema) {
	if len(piece) > maxCachedSchema || c.most == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schemas == nil || len(c.schemas) >= c.most {
		c.schemas = make(map[string]*data.Schema)
	}
	c.schemas[text(piece)] = s
}
