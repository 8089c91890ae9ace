package jdbc

import (
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

const (
	modeInsert = "insert"
	modeUpsert = "upsert"

	fromKey   = "key"
	fromValue = "value"
	fromKafka = "kafka"

	unknownReject = "reject"
	unknownIgnore = "ignore"
)

const documentation = `Writes each record as a row of an existing SQL table. The value is an object; each of its fields goes to the
column of exactly that name. A field that is not there keeps the column's default (or, in an update, what the row holds); a field
that is null becomes NULL.

**dsn**: ` + "`postgres://user:password@host:5432/database?sslmode=verify-full`" + `, ` + "`mysql://user:password@host:3306/database?tls=true`" + `
(MySQL and MariaDB; also tls=skip-verify, tls=preferred, tls_ca=FILE, collation), ` + "`sqlite:/path/to/file.db`" + `.

**table**: a dot written in the template separates schema and table; a dot in what a placeholder fills in does not: with
"audit.{topic}" the topic "a.b" goes to the table "a.b" of the schema "audit". Names are quoted, so case matters.

**pk**: where the columns of the key come from: the record's key (an object with these fields, or one plain value for one
field), its value, or its place in Kafka (three columns, for topic, partition and offset). In mode upsert the table needs a
unique index over exactly these columns. A field of the value with the name of a key column is overridden by the key.

**version**: in mode upsert a row is replaced only by one whose version is the same or later. A group that does not keep order
needs it.

Records of one batch with one key become one row, the last one of them. A table whose every column is part of the key gets
"insert if absent". Objects and lists become JSON in JSON and text columns, lists become arrays in PostgreSQL's array columns;
elsewhere they are refused. Timestamps are written in UTC whatever the zones of server and worker; a text in RFC 3339 is taken as
the moment it names. Text for a binary column is its bytes in UTF-8. Fractions of a second that a column cannot hold are cut.
In MySQL a MyISAM table is refused in mode insert, since it has no transactions.`

// Plugin describes the sink. Each of its instances has one connection of its own.
func Plugin() pluginapi.Plugin {
	return pluginapi.Plugin{
		Name:          "jdbc",
		Version:       "0.1.0",
		Summary:       "Writes records into PostgreSQL, MySQL, MariaDB and SQLite tables.",
		Documentation: documentation,
		Form:          pluginapi.FormData,
		New:           func() pluginapi.Sink { return new(sink) },
		Settings: []pluginapi.Setting{
			{
				Name: "dsn", Type: pluginapi.String, Required: true, Secret: true, Group: "Database",
				Help: "Address of the database: postgres://…, mysql://… or sqlite:FILE.",
			},
			{
				Name: "table", Type: pluginapi.String, Required: true, Template: true, Group: "Table",
				Help: "Table, or schema.table, to write to; a dot filled in by a placeholder is part of the name.",
			},
			{
				Name: "mode", Type: pluginapi.String, Default: modeInsert, Allowed: []string{modeInsert, modeUpsert}, Group: "Table",
				Help: "Insert rows, or insert and update them by their key.",
			},
			{
				Name: "pk", Type: pluginapi.Object, Group: "Table", Help: "Columns of the key; needed in mode upsert.",
				Fields: []pluginapi.Setting{
					{
						Name: "source", Type: pluginapi.String, Default: fromValue, Allowed: []string{fromKey, fromValue, fromKafka},
						Help: "What fills the columns: the record's key, its value, or its topic, partition and offset.",
					},
					{Name: "fields", Type: pluginapi.List, Required: true, Help: "Names of the key's columns."},
				},
			},
			{
				Name: "version", Type: pluginapi.String, Group: "Table",
				Help: "Column that tells which of two rows is newer; an older one never replaces a newer one. Mode upsert only.",
			},
			{
				Name: "unknown_fields", Type: pluginapi.String, Default: unknownReject, Allowed: []string{unknownReject, unknownIgnore}, Group: "Table",
				Help: "What to do with a record that has a field without a column: reject it, or leave the field out.",
			},
			{
				Name: "max_rows", Type: pluginapi.Int, Default: int64(500), Min: pluginapi.Limit(1), Max: pluginapi.Limit(10000), Group: "Limits",
				Help: "Most rows in one statement.",
			},
			{
				Name: "connect_timeout", Type: pluginapi.Duration, Default: 10 * time.Second,
				Min: pluginapi.LimitDuration(100 * time.Millisecond), Max: pluginapi.LimitDuration(10 * time.Minute), Group: "Limits",
				Help: "How long a connection attempt may take.",
			},
			{
				Name: "statement_timeout", Type: pluginapi.Duration, Default: 30 * time.Second,
				Min: pluginapi.LimitDuration(100 * time.Millisecond), Max: pluginapi.LimitDuration(time.Hour), Group: "Limits",
				Help: "How long one statement may take, and in SQLite how long it waits for another writer.",
			},
		},
	}
}
