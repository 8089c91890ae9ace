// Package sharetask runs one task of a connector: it acquires records from a
// [Source], converts them, hands them to sinks in batches, and acknowledges
// each record by what became of it.
//
// [Task] is one member of a Kafka group, usually a share group (KIP-932); with
// a consumer group's source the same rules hold, in partition order. The
// package holds the rules and states the small interfaces it needs: a [Source],
// a [Sink], a [Converter], a [DeadLetterQueue]. It knows no Kafka client, no
// plugin form and no configuration file.
//
// # Delivery
//
// A record is accepted only after its sink answered Accept, or after its dead
// letter is confirmed. Until one of the two it is held: its lock is renewed and
// it is put again, as long as it takes. What is undecided at the end goes back
// to the group.
//
// # Concurrency
//
// One goroutine, [Task.Run]'s, owns the ledger, the queue and every decision.
// Each writer is a goroutine with a sink of its own and gets one batch at a
// time. No goroutine or channel operation is spent per record.
package sharetask
