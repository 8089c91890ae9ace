package jdbc

import (
	"context"
	"strings"
)

// maxPostgresName is the longest name in bytes; PostgreSQL cuts longer ones, so that two could meet in one table.
const maxPostgresName = 63

// The table is looked for as a statement would, along the search path. Domains are seen through, one level.
const postgresColumns = `
SELECT a.attname, b.typname, b.typcategory::text, coalesce(e.typname::text, ''), format_type(a.atttypid, a.atttypmod),
       a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
JOIN pg_catalog.pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_catalog.pg_type e ON e.oid = b.typelem AND b.typcategory = 'A'
WHERE a.attrelid = pg_catalog.to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`

func (p *postgres) read(ctx context.Context, name tableName) (*table, *fault) {
	if len(name.name) > maxPostgresName || len(name.schema) > maxPostgresName {
		return nil, nil
	}
	if p.conn == nil {
		return nil, newFault(faultLost, "connection", "there is no connection")
	}
	quoted := quoteTable(p, name)
	result := p.conn.ExecParams(ctx, postgresColumns, [][]byte{[]byte(quoted)}, nil, nil, nil).Read()
	if result.Err != nil {
		return nil, p.fault(ctx, result.Err)
	}
	if len(result.Rows) == 0 {
		return nil, nil
	}
	columns := make([]column, len(result.Rows))
	for i, row := range result.Rows {
		c := &columns[i]
		c.name, c.declared, c.generated = string(row[0]), string(row[4]), string(row[5]) == "t"
		c.kind = postgresColumnKind(string(row[1]), string(row[2]))
		if element := string(row[3]); c.kind == kindArray {
			c.elem = postgresColumnKind(element, "")
		}
	}
	return newTable(name, quoted, columns), nil
}

// postgresColumnKind returns the kind of a type by its name and category.
func postgresColumnKind(name, category string) columnKind {
	switch name {
	case "text", "varchar", "bpchar", "char", "name", "citext":
		return kindText
	case "int2", "int4", "int8", "oid":
		return kindInteger
	case "numeric":
		return kindNumeric
	case "float4", "float8":
		return kindFloat
	case "bool":
		return kindBool
	case "bytea":
		return kindBinary
	case "json", "jsonb":
		return kindJSON
	case "date":
		return kindDate
	case "time", "timetz":
		return kindTime
	case "timestamp":
		return kindTimestamp
	case "timestamptz":
		return kindTimestampZone
	case "uuid":
		return kindUUID
	}
	if category == "A" && strings.HasPrefix(name, "_") {
		return kindArray
	}
	return kindOther
}
