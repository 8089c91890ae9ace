package abi

import (
	"maps"
	"math"
	"slices"

	"github.com/sluicehq/sluice/pluginapi"
	"github.com/sluicehq/sluice/pluginapi/data"
)

// schemaTable numbers the schemas of a frame, each with those it refers to. It
// works by pointer, so schemas that refer to themselves are fine. The zero
// table is empty and allocates nothing.
type schemaTable struct {
	list  []*data.Schema
	index map[*data.Schema]int
}

func (t *schemaTable) addDatum(d pluginapi.Datum) {
	if typed, ok := d.Data(); ok {
		t.add(schemaOf(typed))
	}
}

func (t *schemaTable) add(s *data.Schema) {
	if s == nil {
		return
	}
	if _, ok := t.index[s]; ok {
		return
	}
	if t.index == nil {
		t.index = make(map[*data.Schema]int)
	}
	t.index[s] = len(t.list)
	t.list = append(t.list, s)
	for i := range s.Fields {
		t.add(s.Fields[i].Schema)
	}
	t.add(s.Key)
	t.add(s.Elem)
}

// appendIndex appends the number of s, null for nil.
func (t *schemaTable) appendIndex(dst []byte, s *data.Schema) []byte {
	if s == nil {
		return append(dst, itemNull)
	}
	return appendUint(dst, uint64(t.index[s]))
}

func (t *schemaTable) append(dst []byte) []byte {
	dst = appendArray(dst, len(t.list))
	for _, s := range t.list {
		dst = t.appendSchema(dst, s)
	}
	return dst
}

func (t *schemaTable) appendSchema(dst []byte, s *data.Schema) []byte {
	n := 6
	switch {
	case s.Doc != "":
		n = 8
	case s.Version > 0:
		n = 7
	}
	dst = appendArray(dst, n)
	dst = appendUint(dst, uint64(s.Kind))
	if s.Name == "" {
		dst = append(dst, itemNull)
	} else {
		dst = appendText(dst, s.Name)
	}
	dst = appendBool(dst, s.Optional)
	dst = appendValue(dst, s.Default, s)
	dst = appendTextMap(dst, s.Params)
	dst = t.appendOf(dst, s)
	if n > 6 {
		dst = appendUint(dst, uint64(max(s.Version, 0)))
	}
	if n > 7 {
		dst = appendText(dst, s.Doc)
	}
	return dst
}

func (t *schemaTable) appendOf(dst []byte, s *data.Schema) []byte {
	switch s.Kind {
	case data.KindStruct:
		dst = appendArray(dst, len(s.Fields))
		for i := range s.Fields {
			dst = appendText(appendArray(dst, 2), s.Fields[i].Name)
			dst = t.appendIndex(dst, s.Fields[i].Schema)
		}
		return dst
	case data.KindArray:
		return t.appendIndex(dst, s.Elem)
	case data.KindMap:
		dst = t.appendIndex(appendArray(dst, 2), s.Key)
		return t.appendIndex(dst, s.Elem)
	default:
		return append(dst, itemNull)
	}
}

func appendTextMap(dst []byte, m map[string]string) []byte {
	dst = appendMap(dst, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		dst = appendText(appendText(dst, k), m[k])
	}
	return dst
}

// schemas reads the table of schemas. Names and defaults alias r's buffer.
func (r *reader) schemas() []*data.Schema {
	n := r.count(r.want(majorArray, "an array"), minSchema)
	list := make([]*data.Schema, n)
	for i := range list {
		list[i] = new(data.Schema)
	}
	start := r.pos
	for _, s := range list {
		r.schema(s, list)
	}
	// Defaults come last: they may be values of a schema further down.
	if end := r.pos; r.err == nil {
		r.pos = start
		for _, s := range list {
			r.schemaDefault(s)
		}
		r.pos = end
	}
	return list
}

// minSchema is the least a schema takes: an array of its type.
const minSchema = 2

// schema reads all of a schema but its default.
func (r *reader) schema(s *data.Schema, list []*data.Schema) {
	n := r.array()
	if r.err == nil && n == 0 {
		r.fail("schema without a type")
	}
	s.Kind = data.Kind(r.uintMax(math.MaxUint8, "schema type"))
	if n > 1 && !r.null() {
		s.Name = r.text()
	}
	if n > 2 {
		s.Optional = r.bool()
	}
	if n > 3 {
		r.skip()
	}
	if n > 4 {
		s.Params = r.textMap()
	}
	if n > 5 {
		r.schemaOf(s, list)
	}
	if n > 6 {
		s.Version = int(r.uintMax(math.MaxInt32, "schema version"))
	}
	if n > 7 {
		s.Doc = r.text()
	}
	r.skipFrom(8, n)
	if s.Kind == data.KindStruct {
		s.Index()
	}
}

// schemaDefault reads the schema again for its default.
func (r *reader) schemaDefault(s *data.Schema) {
	n := r.array()
	r.skipFrom(0, min(n, 3))
	if n > 3 {
		s.Default = r.value(s, 0)
	}
	r.skipFrom(4, n)
}

func (r *reader) schemaOf(s *data.Schema, list []*data.Schema) {
	switch s.Kind {
	case data.KindStruct:
		r.schemaFields(s, list)
	case data.KindArray:
		s.Elem = r.schemaAt(list)
	case data.KindMap:
		n := r.array()
		if r.err == nil && n < 2 {
			r.fail("map schema of %d parts", n)
		}
		s.Key = r.schemaAt(list)
		s.Elem = r.schemaAt(list)
		r.skipFrom(2, n)
	default:
		r.skip()
	}
}

func (r *reader) schemaFields(s *data.Schema, list []*data.Schema) {
	n := r.array()
	s.Fields = make([]data.Field, 0, min(n, firstRoom))
	for i := 0; i < n && r.err == nil; i++ {
		parts := r.array()
		if r.err == nil && parts < 2 {
			r.fail("field of %d parts", parts)
		}
		name := r.text()
		s.Fields = append(s.Fields, data.Field{Name: name, Schema: r.schemaAt(list)})
		r.skipFrom(2, parts)
	}
}

// schemaAt reads the number of a schema of list, or null for none.
func (r *reader) schemaAt(list []*data.Schema) *data.Schema {
	if r.null() {
		return nil
	}
	i := r.uint()
	if r.err == nil && i >= uint64(len(list)) {
		r.fail("schema number %d of %d", i, len(list))
	}
	if r.err != nil {
		return nil
	}
	return list[i]
}

func (r *reader) textMap() map[string]string {
	n := r.mapLen()
	if n == 0 {
		return nil
	}
	m := make(map[string]string, min(n, firstRoom))
	for ; n > 0 && r.err == nil; n-- {
		k := r.text()
		m[k] = r.text()
	}
	return m
}
