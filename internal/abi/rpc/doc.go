// Package rpc is the process form's transport: the gRPC service
// sluice.plugin.v1.Sink as both sides use it, and the constants of the
// handshake that comes before.
//
// The service is written down in docs/abi/sluice/plugin/v1/sink.proto. Its
// messages have one shape in Go, [Message], with a codec of its own that does
// not copy what it sends and copies once what it receives; generated code would
// copy each frame twice more on either side.
//
// A put stream goes over a call of Put, or over a socket of its own: the same
// messages with their lengths, see [OverSocket].
//
// The package knows nothing of CBOR: a frame is bytes to it. It starts no
// process and no goroutine.
package rpc
