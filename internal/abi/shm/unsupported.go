//go:build !linux

package shm

import "os"

// File is the host's end of the memory it shares with one process.
type File struct{}

// Create returns [ErrUnsupported].
func Create() (f *File, reader *os.File, err error) { return nil, nil, ErrUnsupported }

// Slot returns [ErrUnsupported].
func (*File) Slot() (*Slot, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*File) Close() {}

// Slot is one instance's part of a [File].
type Slot struct{}

// Room returns nil.
func (*Slot) Room() []byte { return nil }

// Holds returns false.
func (*Slot) Holds([]byte) bool { return false }

// Offset returns 0.
func (*Slot) Offset() int64 { return 0 }

// Free does nothing.
func (*Slot) Free() {}

// Source is a process's end of the memory its host shares with it.
type Source struct{}

// Open returns [ErrUnsupported].
func Open(string) (*Source, error) { return nil, ErrUnsupported }

// Reader reads one instance's frames.
type Reader struct{ Source *Source }

// Frame returns [ErrUnsupported].
func (*Reader) Frame(int64, int64) ([]byte, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Reader) Close() {}
