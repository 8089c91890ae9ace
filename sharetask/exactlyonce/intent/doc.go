// Package intent is the rule by which writers that may hold the same records
// agree who wrote them: ordered intents.
//
// All transactions that write the output of a source partition also write, each,
// one [Claim] of the source offsets it covers to one partition of a ledger topic.
// The order of that log is the order of their intents. A writer whose claim is in
// the log commits only when every earlier claim that shares an offset with its own
// is known to be aborted, and gives way when one is committed. The rule looks back
// only, at what never changes any more, so it needs neither clocks nor locks.
//
// Proof: let two committed transactions cover one offset, with claims at a < b.
// Before its commit the second saw the first decided, and not committed. What is
// decided stays so: the first is not committed.
//
// A [Ledger] is what one reader of a ledger partition knows: it is told records
// and transaction markers in log order and answers whether a claim may be
// committed. It does no I/O and knows no time.
package intent
