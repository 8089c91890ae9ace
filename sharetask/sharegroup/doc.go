// Package sharegroup is the source of a task that reads as a member of a share
// group (KIP-932).
//
// [Source] wraps franz-go's share consumer, one client per member. That client
// accepts by itself, at its next poll, whatever the poll before returned and
// nobody decided. The source never lets it: a fetched record is taken over
// while it is still in the client's buffer, and the client is only asked for it
// when each record of the fetch has its final verdict. While a fetch is held,
// nothing else is fetched, so no record waits unseen with its lock running. So
// one member holds the records of one fetch, from one broker, at a time.
//
// # Delivery
//
// Decisions go out in rounds, each with all that was decided since the round
// before, renewals apart from final verdicts, for a renewal that is refused
// fails everything else of its partition. A round ends when the broker answered
// for every record of it. An error means that the decision's fate is unknown
// and is reported as lost. An error of the session (the connection broke, the
// leader moved, the member was fenced) loses all that is held.
//
// # Concurrency
//
// Each source has one goroutine that acquires, sends and reports; the client
// adds its own. Nothing is done per record but marking it.
package sharegroup
