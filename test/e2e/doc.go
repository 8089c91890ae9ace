// Package e2e runs the real sluice program against a real Kafka broker and
// checks what arrives: every record, also when the worker is killed on the way.
//
// It has tests only. They build the program, the process plugins and the WASM
// example themselves, so that what is tested is what the checkout says.
package e2e
