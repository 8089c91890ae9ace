// Package jdbc is the sink that writes records into SQL tables: PostgreSQL, MySQL and MariaDB, and SQLite. It is named after
// Kafka Connect's connector of the same job; no JDBC is involved.
//
// A record's value is an object, each field goes to the column of its name, and a batch becomes a few statements of many rows
// in one transaction per table. A table must exist; its columns are read once and again when a record does not fit them.
// Values are never changed in silence: what a column cannot hold is the record's fault, and the record is rejected with
// the database's own code while its neighbours are stored.
//
// # Delivery
//
// A record is accepted after its transaction was committed. A connection that breaks while the answer to a commit is awaited
// leaves the records unknown; in mode insert they may then be written twice, in mode upsert that changes nothing.
package jdbc
