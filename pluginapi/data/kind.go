// Package data holds typed values and schemas: what converters make of a
// record's bytes and sinks write to their targets.
//
// A [Value] is one value of one [Kind]; null, a missing struct field and an
// empty string are three different things, and no number passes through a
// float on its way. A [Schema] adds what Kafka's schemas know beside the type:
// a name, whether it is optional, a default, parameters. Both are immutable
// once built and safe for concurrent use.
//
// The package imports only the standard library; it is linked into WASM guests.
package data

import "fmt"

// Kind is the type of a value. It is part of the ABI: append, never renumber.
type Kind uint8

// The kinds. Missing, the zero Kind, is a struct field that was not there.
const (
	KindMissing   Kind = 0
	KindNull      Kind = 1
	KindBool      Kind = 2
	KindInt8      Kind = 3
	KindInt16     Kind = 4
	KindInt32     Kind = 5
	KindInt64     Kind = 6
	KindUint64    Kind = 7
	KindFloat32   Kind = 8
	KindFloat64   Kind = 9
	KindString    Kind = 10
	KindBytes     Kind = 11
	KindDecimal   Kind = 12 // Exact: unscaled x 10^-scale.
	KindDate      Kind = 13 // Days since 1970-01-01, no zone.
	KindTime      Kind = 14 // Nanoseconds since midnight, no zone.
	KindTimestamp Kind = 15 // An instant, nanosecond precision.
	KindUUID      Kind = 16
	KindArray     Kind = 17
	KindMap       Kind = 18 // Ordered entries; keys of any kind.
	KindStruct    Kind = 19 // Fields by schema; always has one.
)

var kindNames = [...]string{
	"missing", "null", "boolean", "int8", "int16", "int32", "int64", "uint64", "float32", "float64",
	"string", "bytes", "decimal", "date", "time", "timestamp", "uuid", "array", "map", "struct",
}

// String returns the kind's name, e.g. "int64".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// IsInteger reports whether k is one of the integer kinds.
func (k Kind) IsInteger() bool { return k >= KindInt8 && k <= KindUint64 }
