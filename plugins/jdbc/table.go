package jdbc

import "strings"

// columnKind is what a column holds, as far as it decides how a value is written.
type columnKind uint8

const (
	kindOther columnKind = iota // Takes its own text form: enum, inet, interval and the like.
	kindText
	kindInteger
	kindNumeric
	kindFloat
	kindBool
	kindBinary
	kindJSON
	kindDate
	kindTime
	kindTimestamp     // Without a zone.
	kindTimestampZone // A moment.
	kindUUID
	kindArray
	kindAny // SQLite without a declared type.
)

// column is one column of a table.
type column struct {
	name      string
	kind      columnKind
	elem      columnKind // Of an array.
	declared  string     // The type as the database shows it.
	generated bool       // Cannot be written.
	automatic bool       // The database would replace NULL by a value of its own.
}

// table is what is known of a table. It is read from the database and replaced, never changed, when that proves stale.
type table struct {
	name    tableName
	quoted  string
	columns []column
	index   map[string]int // Columns by name.
	key     []int          // Columns of the key, in the order of pk.fields.
	version int            // Column of the version, -1 without one.
	// guarded says that a unique index beside the key's exists, and the database does not tell which one a row met.
	guarded bool
	shapes  map[string]*shape
}

// shape is a set of columns that rows give. Rows of one shape share statements.
type shape struct {
	columns []int // In the table's order, never empty.
	head    string
	tail    string
}

// maxShapes bounds the remembered shapes of a table; records decide how many there are.
const maxShapes = 256

func newTable(name tableName, quoted string, columns []column) *table {
	t := &table{
		name: name, quoted: quoted, columns: columns, version: -1,
		index: make(map[string]int, len(columns)), shapes: make(map[string]*shape),
	}
	for i := range columns {
		t.index[columns[i].name] = i
	}
	return t
}

// bind finds the key's and the version's columns. It returns the name of one that is not there, or "".
func (t *table) bind(s *settings) (missing string) {
	for _, f := range s.pkFields {
		i, ok := t.index[f]
		if !ok {
			return f
		}
		t.key = append(t.key, i)
	}
	if s.version != "" {
		i, ok := t.index[s.version]
		if !ok {
			return s.version
		}
		t.version = i
	}
	return ""
}

// isKey reports whether column i is part of the key.
func (t *table) isKey(i int) bool {
	for _, k := range t.key {
		if k == i {
			return true
		}
	}
	return false
}

// shapeOf returns the shape of rows that give the columns marked in present.
func (t *table) shapeOf(d dialect, s *settings, present []bool) *shape {
	buf := make([]byte, len(present))
	for i, p := range present {
		if p {
			buf[i] = 1
		}
	}
	if sh, ok := t.shapes[string(buf)]; ok {
		return sh
	}
	if len(t.shapes) >= maxShapes {
		clear(t.shapes)
	}
	sh := new(shape)
	for i, p := range present {
		if p {
			sh.columns = append(sh.columns, i)
		}
	}
	sh.head, sh.tail = d.insert(t, s, sh)
	t.shapes[string(buf)] = sh
	return sh
}

// covers reports whether sh gives every column that other gives.
func (sh *shape) covers(other *shape) bool {
	if sh == other {
		return true
	}
	i := 0
	for _, c := range other.columns {
		for i < len(sh.columns) && sh.columns[i] < c {
			i++
		}
		if i == len(sh.columns) || sh.columns[i] != c {
			return false
		}
	}
	return true
}

// names returns the quoted names of columns, separated by commas.
func (t *table) names(quote func(string) string, columns []int) string {
	var b strings.Builder
	for n, i := range columns {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(t.columns[i].name))
	}
	return b.String()
}
