// Package fetchconn reads the answers to share fetches into pooled buffers.
//
// franz-go reads each response into a new buffer. A busy share session gets
// some hundred a second, of megabytes each, and more than a quarter of a
// worker's CPU went into clearing that memory, mapping it and collecting it.
// The client offers no pool, but it has a dialer and calls what parses a
// response. So a connection of an [Exchange] knows share fetches by the key and
// the correlation id that the client writes, keeps the body of the answer in a
// buffer of its own, and lets the client read a response of a few bytes that
// says where it is. [Response] looks there. Everything else passes through
// untouched, and an answer that came by another connection is parsed like any
// other.
package fetchconn
