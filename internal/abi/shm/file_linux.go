package shm

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// File is the host's end of the memory it shares with one process. It is safe
// for concurrent use.
type File struct {
	file *os.File

	mu     sync.Mutex
	used   []bool // Guarded by mu: by slot.
	closed bool   // Guarded by mu.
}

// Create makes shared memory and the descriptor to be inherited by the process,
// which the caller closes once the process is started.
func Create() (f *File, reader *os.File, err error) {
	fd, err := unix.MemfdCreate("sluice-puts", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("make shared memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "sluice-puts")
	// A file that shrinks under a mapping kills whoever touches it.
	if _, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err == nil {
		reader, err = os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("make shared memory: %w", err)
	}
	return &File{file: file}, reader, nil
}

// Slot returns a slot that no other instance has.
func (f *File) Slot() (*Slot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, os.ErrClosed
	}
	at := 0
	for at < len(f.used) && f.used[at] {
		at++
	}
	if at == len(f.used) {
		if err := f.file.Truncate(int64(at+1) * SlotBytes); err != nil {
			return nil, fmt.Errorf("grow shared memory: %w", err)
		}
		f.used = append(f.used, false)
	}
	fd := int(f.file.Fd()) //nolint:gosec // A descriptor.
	b, err := unix.Mmap(fd, int64(at)*SlotBytes, SlotBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map shared memory: %w", err)
	}
	f.used[at] = true
	return &Slot{file: f, at: at, bytes: b}, nil
}

// Close closes the file. Slots stay mapped until they are freed.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	_ = f.file.Close()
}

// Slot is one instance's part of a [File]. Only one goroutine may use it.
type Slot struct {
	file  *File
	at    int
	bytes []byte
}

// Room returns the slot's memory, empty, to append to. What does not fit goes
// elsewhere; [Slot.Holds] tells.
func (s *Slot) Room() []byte { return s.bytes[:0:SlotBytes] }

// Holds reports whether b, which was appended to [Slot.Room], stands in the
// slot.
func (s *Slot) Holds(b []byte) bool { return len(b) > 0 && &b[0] == &s.bytes[0] }

// Offset returns where the slot begins, in bytes.
func (s *Slot) Offset() int64 { return int64(s.at) * SlotBytes }

// Free gives the slot and its memory back. The process may still read it; it
// reads zeros then.
func (s *Slot) Free() {
	_ = unix.Munmap(s.bytes)
	s.bytes = nil
	f := s.file
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used[s.at] = false
	if !f.closed {
		fd := int(f.file.Fd()) //nolint:gosec // A descriptor.
		_ = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, s.Offset(), SlotBytes)
	}
}
