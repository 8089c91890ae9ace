// Package loader finds sink plugins, verifies them and runs their sinks, in
// whatever form they come: compiled in, as a process, or as a WASM module.
//
// A [Catalog] knows the builtins and the drop-in directories and turns a name
// into a [Plugin]. Opened for a connector, a plugin is a [Runner], which owns
// the processes or the module, and makes the [Instance] of each writer. The
// three forms behave the same behind an Instance.
//
// A plugin that crashes, hangs, floods its output, answers the wrong number of
// results or garbage makes an error for its caller, never more.
//
// The package does not know connectors, Kafka or configuration files; values of
// settings are checked by loader/settings.
//
// # Errors
//
// Errors of a sink keep their class and code as [pluginapi.Error]. A process
// that ended, and a sink that panicked, hung or answered wrongly, are errors of
// class Unknown with the code "crash", "panic", "put_timeout" or "bad_answer"; a
// [CrashError] says more. A plugin that cannot be started is a plain error.
//
// # Processes
//
// On Linux a plugin process is killed when the worker ends, however it ends.
// The children it started are killed too, by a shell (/bin/sh) that waits for
// the worker's end; without a shell they are only killed when the worker ends
// in order or the plugin uses the SDK.
package loader
