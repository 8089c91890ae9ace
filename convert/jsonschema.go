package convert

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/sluicehq/sluice/pluginapi/data"
)

// kindOf returns the kind of Kafka Connect's type name in a JSON schema.
func kindOf(name string) (data.Kind, bool) {
	switch name {
	case "boolean":
		return data.KindBool, true
	case "int8":
		return data.KindInt8, true
	case "int16":
		return data.KindInt16, true
	case "int32":
		return data.KindInt32, true
	case "int64":
		return data.KindInt64, true
	case "float":
		return data.KindFloat32, true
	case "double":
		return data.KindFloat64, true
	case "string":
		return data.KindString, true
	case "bytes":
		return data.KindBytes, true
	case "array":
		return data.KindArray, true
	case "map":
		return data.KindMap, true
	case "struct":
		return data.KindStruct, true
	default:
		return data.KindMissing, false
	}
}

// The names of Connect's logical types.
const (
	logicalDecimal   = "org.apache.kafka.connect.data.Decimal"
	logicalDate      = "org.apache.kafka.connect.data.Date"
	logicalTime      = "org.apache.kafka.connect.data.Time"
	logicalTimestamp = "org.apache.kafka.connect.data.Timestamp"
)

// buildSchema makes a schema of its JSON form. What Connect leaves open is
// optional = false. The schema keeps v's memory.
func buildSchema(v data.Value) (*data.Schema, error) {
	if v.Kind() != data.KindMap {
		return nil, fmt.Errorf("want an object, got %s", v.Kind())
	}
	name := v.Get("type")
	kind, ok := kindOf(name.Str())
	if !ok {
		return nil, fmt.Errorf("type %s is not known", clip(string(name.AppendText(nil))))
	}
	s := &data.Schema{Kind: kind}
	if err := readAttributes(s, v); err != nil {
		return nil, err
	}
	if err := readParts(s, v); err != nil {
		return nil, err
	}
	if err := applyLogical(s); err != nil {
		return nil, err
	}
	return s, readDefault(s, v.Get("default"))
}

// readAttributes reads what any schema may have.
func readAttributes(s *data.Schema, v data.Value) error {
	for _, text := range []struct {
		key string
		to  *string
	}{{"name", &s.Name}, {"doc", &s.Doc}} {
		switch f := v.Get(text.key); f.Kind() {
		case data.KindString:
			*text.to = f.Str()
		case data.KindMissing, data.KindNull:
		default:
			return fmt.Errorf("%s is a %s, want string", text.key, f.Kind())
		}
	}
	switch f := v.Get("optional"); f.Kind() {
	case data.KindBool:
		s.Optional = f.Bool()
	case data.KindMissing, data.KindNull:
	default:
		return fmt.Errorf("optional is a %s, want boolean", f.Kind())
	}
	if f := v.Get("version"); !f.IsNull() {
		n, ok := f.Int()
		if !ok || n < math.MinInt32 || n > math.MaxInt32 {
			return errors.New("version is not an int32")
		}
		s.Version = int(n)
	}
	params := v.Get("parameters")
	if params.IsNull() {
		return nil
	}
	if params.Kind() != data.KindMap {
		return fmt.Errorf("parameters is a %s, want an object", params.Kind())
	}
	s.Params = make(map[string]string, len(params.Entries()))
	for _, e := range params.Entries() {
		if e.Value.Kind() != data.KindString {
			return fmt.Errorf("parameter %s is a %s, want string", clip(e.Key.Str()), e.Value.Kind())
		}
		s.Params[e.Key.Str()] = e.Value.Str()
	}
	return nil
}

// readParts reads the schemas within a schema.
func readParts(s *data.Schema, v data.Value) (err error) {
	part := func(key string) *data.Schema {
		if err != nil {
			return nil
		}
		var of *data.Schema
		if of, err = buildSchema(v.Get(key)); err != nil {
			err = fmt.Errorf("%s: %w", key, err)
		}
		return of
	}
	switch s.Kind {
	case data.KindArray:
		s.Elem = part("items")
	case data.KindMap:
		s.Key = part("keys")
		s.Elem = part("values")
	case data.KindStruct:
		fields := v.Get("fields")
		if fields.Kind() != data.KindArray {
			return fmt.Errorf("fields is %s, want an array", fields.Kind())
		}
		seen := make(map[string]bool, len(fields.Elems()))
		for _, f := range fields.Elems() {
			name := f.Get("field")
			if name.Kind() != data.KindString {
				return errors.New(`a field has no name in "field"`)
			}
			if seen[name.Str()] {
				return fmt.Errorf("field %s is there twice", clip(name.Str()))
			}
			seen[name.Str()] = true
			of, err := buildSchema(f)
			if err != nil {
				return fmt.Errorf("field %s: %w", clip(name.Str()), err)
			}
			s.Fields = append(s.Fields, data.Field{Name: name.Str(), Schema: of})
		}
		s.Index()
	default:
	}
	return err
}

// applyLogical gives s the kind its name stands for. A name that is not one of
// Connect's changes nothing.
func applyLogical(s *data.Schema) error {
	var base, kind data.Kind
	switch s.Name {
	case logicalDecimal:
		base, kind = data.KindBytes, data.KindDecimal
		if n, err := strconv.Atoi(s.Params["scale"]); err != nil || n > data.MaxScale || n < -data.MaxScale {
			return fmt.Errorf("parameter scale of a Decimal is %s, want a number from %d to %d", clip(s.Params["scale"]), -data.MaxScale, data.MaxScale)
		}
	case logicalDate:
		base, kind = data.KindInt32, data.KindDate
	case logicalTime:
		base, kind = data.KindInt32, data.KindTime
	case logicalTimestamp:
		base, kind = data.KindInt64, data.KindTimestamp
	default:
		return nil
	}
	if s.Kind != base {
		return fmt.Errorf("%s is written as %s, want %s", s.Name, s.Kind, base)
	}
	s.Kind = kind
	return nil
}

// readDefault reads a default the way a payload is read.
func readDefault(s *data.Schema, v data.Value) error {
	if v.IsNull() {
		return nil
	}
	p := parser{b: v.AppendJSON(nil)}
	d, err := p.document(s)
	if err != nil {
		return fmt.Errorf("default: %s", p.fault.Reason)
	}
	s.Default = d
	return nil
}
