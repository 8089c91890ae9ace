// Package confirm writes messages to a topic and says of each when the brokers
// have confirmed it: a record of another topic may be acknowledged then. Its
// main type is [Writer].
//
// Writes are idempotent and confirmed by every in-sync replica. A message is in
// the topic twice only if the writer was closed, or the process died, while it
// was on its way.
package confirm
