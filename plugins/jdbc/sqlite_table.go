package jdbc

import (
	"context"
	"strings"
)

func (l *sqliteDB) read(ctx context.Context, name tableName) (*table, *fault) {
	query, params := "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?)", []any{name.name}
	if name.schema != "" {
		query, params = "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?, ?)", []any{name.name, name.schema}
	}
	found, err := l.rows(ctx, query, params...)
	if err != nil {
		if strings.Contains(err.Error(), "unknown database") {
			return nil, nil
		}
		return nil, l.fault(ctx, err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	keys := 0
	for _, row := range found {
		if row["pk"] != "0" {
			keys++
		}
	}
	columns := make([]column, len(found))
	for i, row := range found {
		declared := row["type"]
		columns[i] = column{
			name: row["name"], declared: declared, kind: sqliteColumnKind(declared),
			generated: row["hidden"] == "2" || row["hidden"] == "3",
			// The row's number under another name.
			automatic: keys == 1 && row["pk"] == "1" && strings.EqualFold(declared, "INTEGER"),
		}
		if declared == "" {
			columns[i].declared = "any"
		}
	}
	return newTable(name, quoteTable(l, name), columns), nil
}

// sqliteColumnKind returns the kind of a declared type by SQLite's rules of affinity, after the names of types that it has no
// affinity for but people have uses for.
func sqliteColumnKind(declared string) columnKind {
	upper := strings.ToUpper(declared)
	switch upper {
	case "":
		return kindAny
	case "JSON", "JSONB":
		return kindJSON
	case "UUID":
		return kindUUID
	case "DATE":
		return kindDate
	case "TIME":
		return kindTime
	case "BOOLEAN", "BOOL":
		return kindBool
	}
	switch {
	case strings.HasPrefix(upper, "DATETIME"), strings.HasPrefix(upper, "TIMESTAMP"):
		return kindTimestamp
	case strings.Contains(upper, "INT"):
		return kindInteger
	case strings.Contains(upper, "CHAR"), strings.Contains(upper, "CLOB"), strings.Contains(upper, "TEXT"):
		return kindText
	case strings.Contains(upper, "BLOB"):
		return kindBinary
	case strings.Contains(upper, "REAL"), strings.Contains(upper, "FLOA"), strings.Contains(upper, "DOUB"): //nolint:misspell // SQLite's rule looks for these four letters.
		return kindFloat
	case upper == "ANY":
		return kindAny
	default:
		return kindNumeric
	}
}
