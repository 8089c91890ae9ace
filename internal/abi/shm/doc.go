// Package shm is the memory that a host shares with one plugin process, so that
// a put frame is written once and read where it is. gRPC then carries only
// where the frame stands.
//
// The host makes a [File] and hands its reading end to the process, which
// cannot shrink it or write to it through that descriptor. Each sink instance
// has a [Slot] of it; the plugin maps what it is told to read with a [Reader].
//
// Only Linux has it; elsewhere [Create] and [Open] return [ErrUnsupported] and
// frames go through gRPC.
package shm

import "errors"

// SlotBytes is the room of one slot. It takes no memory before it is written
// to. Larger frames go through gRPC.
const SlotBytes = 32 << 20

// ErrUnsupported says that this system has no shared memory of this kind.
var ErrUnsupported = errors.New("shared memory with plugins needs Linux")
