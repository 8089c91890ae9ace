// Package sharegroup is the source of a task that reads as a member of a share
// group (KIP-932).
//
// The protocol is our own; franz-go dials, authenticates, negotiates versions
// and finds the coordinator. A [Source] has
//
//	membership   heartbeats with the coordinator, which assigns partitions
//	topics       names, ids and leaders of topics
//	leader       a goroutine per broker that sends, and one that decodes
//	session      the share session with that broker, a state machine
//	partition    what is held of one share-partition, a state machine
//	wire         the session's requests as Kafka's
//
// # Requests
//
// A session has one request under way, always on the same connection: a broker
// serves one request of a connection at a time, and gives back what a session
// holds when the connection that opened it closes. Verdicts ride on the next
// fetch, in offset order and merged. Renewals have requests of their own, since
// one that is refused fails every verdict on its partition. Where the room or
// the record-lock window leaves nothing to fetch, verdicts wait three
// milliseconds for those that make room, and then go in a request of their own.
//
// The broker may hold a fetch for 50 ms while records are held here, half a
// second when none are, and longer the longer nothing came, up to five seconds
// after a minute. Records that another member gave back are not seen before a
// fetch that waits ends.
//
// # Delivery
//
// The broker answers for each partition of each request. What the share
// coordinator could not write for now is sent again. Any other error means that
// a verdict's fate is unknown, and it is reported as lost. An error of the
// session, or a connection that broke, loses all that is held at that broker; a
// leader that moved, what is held of the partition. A fenced member joins again
// and keeps its sessions. A partition that is taken away is not fetched from any
// more, and what is held of it is decided in peace.
//
// Offsets that have no record (transaction markers, what compaction removed)
// are acknowledged as gaps. Records that cannot be decoded are given back once,
// and are the task's to decide when that does not help.
//
// # Concurrency and bounds
//
// All state is behind one mutex that is never held over a request or a channel.
// Nothing is done per record but decoding it in place and a byte of state. What
// is acquired and undecided is bounded by [Source.Request], overshot by one
// producer batch per fetch, and by what records of a partition are larger than
// those that came before. How large they are is not known at first: the first
// fetch from a broker asks for 500.
package sharegroup
