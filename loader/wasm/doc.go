// Package wasm runs sinks that are WASM modules (docs/abi), on wazero.
//
// A [Module] is a file, compiled once. Each [Instance] is one sink with memory
// of its own. An instance that traps, exits, passes its deadline, runs out of
// memory or answers what cannot be is gone: it is never called again, and costs
// its caller one error.
//
// # What a module can do
//
// It can read the clocks, draw random numbers, sleep, write lines into the log
// and make HTTP requests to the hosts the sandbox allows. WASI's other functions
// are there for the sake of toolchains and reach nothing.
//
// # Deadlines
//
// The engine looks for a context's end at each turn of a loop. That is what
// stops a module that never returns. It is always on, as a sink waits for its
// target most of the time: a put of 500 records of 1 KB to a Go guest that looks
// at each takes 2 to 5 times as long with it (BenchmarkPut), a tight loop
// over their bytes 8 to 33 times. Calls that recurse without a loop are not seen
// by it: such a call is left behind on its goroutine, the instance is gone for
// its caller, and the module's code stays in memory until it ends.
package wasm
