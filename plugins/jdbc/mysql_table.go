package jdbc

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

func (m *mysqlDB) read(ctx context.Context, name tableName) (*table, *fault) {
	quoted := quoteTable(m, name)
	found, err := m.rows(ctx, "SHOW COLUMNS FROM "+quoted)
	if err != nil {
		var server *mysql.MySQLError
		if errors.As(err, &server) && (server.Number == 1146 || server.Number == 1103) {
			return nil, nil
		}
		return nil, m.fault(ctx, err)
	}
	columns := make([]column, len(found))
	for i, row := range found {
		columns[i] = mysqlColumn(row)
	}
	t := newTable(name, quoted, columns)
	if m.upsert {
		return t, m.readIndexes(ctx, t)
	}
	return t, m.readEngine(ctx, t)
}

func mysqlColumn(row map[string]string) column {
	declared, extra := row["Type"], strings.ToUpper(row["Extra"])
	c := column{name: row["Field"], declared: declared, kind: mysqlColumnKind(declared)}
	c.generated = strings.Contains(extra, "VIRTUAL") || strings.Contains(extra, "STORED") || strings.Contains(extra, "PERSISTENT")
	c.automatic = strings.Contains(extra, "AUTO_INCREMENT") || (row["Null"] == "NO" && strings.HasPrefix(declared, "timestamp"))
	return c
}

// mysqlColumnKind returns the kind of a type such as "bigint(20) unsigned".
func mysqlColumnKind(declared string) columnKind {
	base := declared
	if i := strings.IndexAny(base, "( "); i >= 0 {
		base = base[:i]
	}
	switch base {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		return kindText
	case "tinyint", "smallint", "mediumint", "int", "bigint", "year":
		return kindInteger
	case "bit":
		return kindBool
	case "decimal":
		return kindNumeric
	case "float", "double":
		return kindFloat
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return kindBinary
	case "json":
		return kindJSON
	case "date":
		return kindDate
	case "time":
		return kindTime
	case "datetime":
		return kindTimestamp
	case "timestamp":
		return kindTimestampZone
	case "uuid":
		return kindUUID
	default:
		return kindOther
	}
}

// readIndexes checks that there is a unique index over the key, without which every upsert would add a row, and looks for
// others: an upsert in MySQL updates whatever row any of them meets.
func (m *mysqlDB) readIndexes(ctx context.Context, t *table) *fault {
	found, err := m.rows(ctx, "SHOW INDEX FROM "+t.quoted)
	if err != nil {
		return m.fault(ctx, err)
	}
	unique := make(map[string][]string)
	for _, row := range found {
		if row["Non_unique"] == "0" {
			unique[row["Key_name"]] = append(unique[row["Key_name"]], row["Column_name"])
		}
	}
	key := slices.Sorted(slices.Values(m.pkFields))
	matched := false
	for _, columns := range unique {
		slices.Sort(columns)
		if slices.Equal(columns, key) {
			matched = true
		} else {
			t.guarded = true
		}
	}
	if !matched {
		return newFault(faultFatal, "no_unique_index", "table \""+t.name.String()+"\" has no unique index over exactly the columns of pk ("+
			strings.Join(m.pkFields, ", ")+"); make one, or name other fields")
	}
	return nil
}

// readEngine refuses tables without transactions: a statement that fails in the middle leaves rows behind there, which would
// be inserted again.
func (m *mysqlDB) readEngine(ctx context.Context, t *table) *fault {
	schema := t.name.schema
	if schema == "" {
		schema = m.config.DBName
	}
	found, err := m.rows(ctx, "SELECT t.ENGINE AS engine, e.TRANSACTIONS AS transactions FROM information_schema.TABLES t "+
		"JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE WHERE t.TABLE_SCHEMA = ? AND t.TABLE_NAME = ?", schema, t.name.name)
	if err != nil {
		return m.fault(ctx, err)
	}
	if len(found) == 1 && found[0]["transactions"] != "YES" {
		return newFault(faultFatal, "no_transactions", "table \""+t.name.String()+"\" is kept by the engine "+found[0]["engine"]+
			", which has no transactions; convert it to InnoDB, or use mode upsert")
	}
	return nil
}
