// Package pluginapi is the contract between Sluice and a sink plugin.
//
// A plugin author implements [Sink], describes it with a [Plugin] value, and
// hands that value to pluginapi/serve (a process plugin) or pluginapi/guest (a
// WASM module). The host compiles its own sinks in through the same value.
//
// A sink knows nothing of queues. It gets records and answers one [Result] per
// record; locks, retries, delivery counts, offsets and dead letters are the
// host's. The same sink behaves the same in every form.
//
// The package and everything it imports is the standard library, so that a
// WASM guest links nothing else. Numbers that cross the boundary ([Outcome],
// [Class], [TimestampType], data.Kind) are appended, never renumbered.
package pluginapi
