package jdbc

import (
	"strconv"
	"strings"
)

// alias names the table inside an upsert, so that its own columns can be told from the new ones.
const alias = "sluice_row"

// onConflict returns an insert in the words that PostgreSQL and SQLite share.
func onConflict(d dialect, t *table, s *settings, sh *shape) (head, tail string) {
	if !s.upsert {
		return "INSERT INTO " + t.quoted + " (" + t.names(d.quote, sh.columns) + ") VALUES ", ""
	}
	head = "INSERT INTO " + t.quoted + " AS " + alias + " (" + t.names(d.quote, sh.columns) + ") VALUES "
	var b strings.Builder
	b.WriteString(" ON CONFLICT (" + t.names(d.quote, t.key) + ") DO ")
	first := true
	for _, i := range sh.columns {
		if t.isKey(i) {
			continue
		}
		if first {
			b.WriteString("UPDATE SET ")
		} else {
			b.WriteByte(',')
		}
		first = false
		name := d.quote(t.columns[i].name)
		b.WriteString(name + "=excluded." + name)
	}
	switch {
	case first:
		b.WriteString("NOTHING")
	case t.version >= 0:
		name := d.quote(t.columns[t.version].name)
		b.WriteString(" WHERE " + alias + "." + name + " IS NULL OR excluded." + name + ">=" + alias + "." + name)
	}
	return head, b.String()
}

// onDuplicate returns an insert in the words of MySQL and MariaDB.
func onDuplicate(d dialect, t *table, s *settings, sh *shape) (head, tail string) {
	head = "INSERT INTO " + t.quoted + " (" + t.names(d.quote, sh.columns) + ") VALUES "
	if !s.upsert {
		return head, ""
	}
	var b strings.Builder
	b.WriteString(" ON DUPLICATE KEY UPDATE ")
	for n, i := range t.key {
		if n > 0 {
			b.WriteByte(',')
		}
		name := d.quote(t.columns[i].name)
		if t.guarded {
			// The duplicate may be one of another unique index, and the row that of another key, which must not be
			// overwritten. A subquery of two rows is an error then, 1242.
			b.WriteString(name + "=IF(" + name + "<=>VALUES(" + name + ")," + name + ",(SELECT 1 UNION SELECT 2))")
		} else {
			b.WriteString(name + "=" + name)
		}
	}
	version := ""
	if t.version >= 0 {
		version = d.quote(t.columns[t.version].name)
	}
	for _, i := range sh.columns {
		if t.isKey(i) || i == t.version {
			continue
		}
		b.WriteString("," + assign(d.quote(t.columns[i].name), version))
	}
	if version != "" {
		// Assignments run from left to right, so the version that the others are compared with is set last.
		b.WriteString("," + assign(version, version))
	}
	return head, b.String()
}

func assign(name, version string) string {
	if version == "" {
		return name + "=VALUES(" + name + ")"
	}
	return name + "=IF(" + version + " IS NULL OR VALUES(" + version + ")>=" + version + ",VALUES(" + name + ")," + name + ")"
}

// statement returns the text for n rows of a shape.
func statement(d dialect, sh *shape, n int) string {
	var b strings.Builder
	b.Grow(len(sh.head) + len(sh.tail) + n*(len(sh.columns)*7+3))
	b.WriteString(sh.head)
	next := 1
	for r := range n {
		if r > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('(')
		for c := range sh.columns {
			if c > 0 {
				b.WriteByte(',')
			}
			if d.numbered() {
				b.WriteByte('$')
				b.WriteString(strconv.Itoa(next))
				next++
			} else {
				b.WriteByte('?')
			}
		}
		b.WriteByte(')')
	}
	b.WriteString(sh.tail)
	return b.String()
}

// quoteWith returns a name between quotes, with those inside doubled.
func quoteWith(q, name string) string { return q + strings.ReplaceAll(name, q, q+q) + q }

// quoteTable returns a table's name as an identifier.
func quoteTable(d dialect, n tableName) string {
	if n.schema == "" {
		return d.quote(n.name)
	}
	return d.quote(n.schema) + "." + d.quote(n.name)
}
