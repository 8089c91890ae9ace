package pluginapi

import "time"

// Emitted is a record for the host to produce: see [Emitter].
type Emitted struct {
	Topic string // It must exist.
	// Partition is where it goes if Placed. Else the key's hash chooses, as with
	// Kafka's own clients, or, without a key, the host.
	Partition int32
	Placed    bool
	Timestamp time.Time // Millisecond precision; the zero time is now.
	Key       Datum
	Value     Datum // Absent is a tombstone.
	Headers   []Header
}
