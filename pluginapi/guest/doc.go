// Package guest turns a sink into a WASM module that Sluice loads (docs/abi).
//
// A plugin is a main package that names its [pluginapi.Plugin] in an init
// function. A module of this kind has no main loop: the host calls into it, so
// main is empty and never run.
//
//	package main
//
//	import (
//		"github.com/sluicehq/sluice/pluginapi"
//		"github.com/sluicehq/sluice/pluginapi/guest"
//	)
//
//	func init() {
//		guest.Serve(pluginapi.Plugin{Name: "mine", Version: "1.0.0", New: newSink})
//	}
//
//	func main() {}
//
// It is built with Go's own tool and put into a plugin directory:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags='-s -w' -o mine.wasm .
//
// # The sandbox
//
// A module has clocks, random numbers, a log and, through [Do], HTTP to the
// hosts the plugin's sandbox allows. It has no files, sockets, arguments or
// environment; package net/http compiles but reaches nothing. Standard output
// and standard error become log lines of the host.
//
// The host makes one module instance for each sink, so a package variable is
// not shared between sinks. An instance that panics, exits, runs past its
// deadline or out of its memory is dropped and never called again, not even
// Stop.
//
// # Blocking and goroutines
//
// A module has one thread, which stands still while the host works for it: in
// [Do] nothing else of the module runs. Goroutines work, but only while the
// host is in a call; what Start began in the background goes on during Put.
//
// # Memory
//
// The batch of a Put, its strings and its byte slices lie in memory the next
// Put uses again. As the contract says: keep none of it.
package guest
