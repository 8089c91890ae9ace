// Package serve turns a [pluginapi.Plugin] into a plugin process:
//
//	func main() { serve.Serve(acme.Plugin()) }
//
// The program is built, called sluice-sink-NAME and put into a plugin
// directory; the host starts it, asks for its description, and runs one or more
// sinks in it.
//
// # Panics
//
// A panic in a method of a sink ends that sink instance, not the process: the
// call fails, its records without a result are unknown, the text goes to
// standard error, and the host makes a new instance. A panic in a goroutine the
// sink started ends the process, as in any Go program, and so every instance in
// it.
//
// # Output
//
// [pluginapi.Config.Logger] writes one JSON object a line to standard error,
// which the host logs at its own level. Anything else written to standard
// output or standard error becomes a log line too. Long lines are cut, a flood
// of them is thinned out.
//
// # End
//
// The process ends when the host says so, and at once, with the children it
// started, when the host is gone, however it ended.
package serve
