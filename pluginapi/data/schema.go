package data

// Schema describes values of one kind. A nil *Schema means schemaless. Schemas
// are shared and immutable; compare them by pointer first.
type Schema struct {
	Kind     Kind
	Name     string // Full name, e.g. "shop.Order"; empty means none.
	Version  int    // 0 means none.
	Doc      string
	Optional bool
	Default  Value // Missing means no default.
	Params   map[string]string
	Fields   []Field // Of a struct.
	Elem     *Schema // Of an array's elements or a map's values.
	Key      *Schema // Of a map's keys.

	index map[string]int // Fields by name, made by NewStruct.
}

// Field is one field of a struct schema.
type Field struct {
	Name   string
	Schema *Schema
}

// NewStruct returns a struct schema with its fields indexed by name. Of two
// fields with one name the first wins.
func NewStruct(name string, fields ...Field) *Schema {
	s := &Schema{Kind: KindStruct, Name: name, Fields: fields}
	s.Index()
	return s
}

// Index prepares FieldIndex. It is to be called once, before the schema is
// shared, by code that built a struct schema without NewStruct.
func (s *Schema) Index() {
	s.index = make(map[string]int, len(s.Fields))
	for i, f := range s.Fields {
		if _, ok := s.index[f.Name]; !ok {
			s.index[f.Name] = i
		}
	}
}

// FieldIndex returns the place of the field called name, or -1.
func (s *Schema) FieldIndex(name string) int {
	if s.index != nil {
		if i, ok := s.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Typed is a value with its schema, nil for a schemaless one.
type Typed struct {
	Schema *Schema
	Value  Value
}
