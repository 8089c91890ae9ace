// Package emit produces the records that sinks emit ([pluginapi.Emitter]): its
// [Sink] is such a sink as a task uses it, which accepts a record when all that
// it became is confirmed.
//
// How that is done is a [Committer]'s. [Producer] does it at least once: an
// idempotent producer, and each record answered when every in-sync replica has
// what it became. Package exactlyonce has the other one.
package emit
