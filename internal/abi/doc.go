// Package abi is the wire between host and plugin: CBOR frames (RFC 8949), the
// same in the process and the WASM form. docs/abi describes them for authors of
// plugins in other languages.
//
// Writers append to a slice the caller owns and never fail. Frames are written
// with definite lengths, shortest integers and valid UTF-8; text that is not
// UTF-8 gets U+FFFD in its place.
//
// Readers take any well-formed frame of definite lengths: integers of any
// width, map keys in any order, unknown map keys and unknown trailing array
// elements skipped, trailing defaults left out. They never panic, whatever they
// are given, and take memory in proportion to the frame's length only, at most
// some 250 bytes for each of its bytes. An error they return wraps
// [ErrMalformed] and names the byte.
package abi
