// Package exactlyonce writes what sinks emit exactly once, to the cluster the
// records come from, without the brokers' help of KIP-1289.
//
// A [Group] is what one connector has in one worker: it follows the ledger, a
// topic of claims (package intent), from its beginning. Its committers each own a
// transactional id. For the records of one source partition a committer writes,
// in one transaction, their output and a claim of their offsets, waits until the
// claim has come by in the ledger, asks [intent.Ledger.Judge] whether it may, and
// only then commits. What another claim was quicker with is accepted without
// being written. A claim that is in the way and stays undecided is fenced: its
// transaction is ended at the broker, by its transactional id.
//
// Record locks play no part in this: they spread work, and may be lost at any
// time. So it works in a consumer group too.
package exactlyonce
