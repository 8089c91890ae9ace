package shm

import (
	"fmt"
	"math/bits"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Source is a process's end of the memory its host shares with it.
type Source struct{ file *os.File }

// Open takes the descriptor that the host says the process has inherited.
func Open(fd string) (*Source, error) {
	n, err := strconv.ParseUint(fd, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("shared memory's descriptor: %w", err)
	}
	unix.CloseOnExec(int(n)) //nolint:gosec // 31 bits.
	file := os.NewFile(uintptr(n), "sluice-puts")
	if _, err := file.Stat(); err != nil {
		return nil, fmt.Errorf("shared memory's descriptor: %w", err)
	}
	return &Source{file}, nil
}

// minMap is the least that is mapped at once.
const minMap = 1 << 20

// Reader reads one instance's frames. Only one goroutine may use it.
type Reader struct {
	Source *Source
	offset int64
	mapped []byte
}

// Frame returns the n bytes at offset. They stay as they are until the put they
// belong to has been answered, and must not be read after the next call.
func (r *Reader) Frame(offset, n int64) ([]byte, error) {
	if r.mapped != nil && offset == r.offset && n <= int64(len(r.mapped)) {
		return r.mapped[:n:n], nil
	}
	info, err := r.Source.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read shared memory: %w", err)
	}
	if size := info.Size(); n <= 0 || offset < 0 || n > size || offset > size-n || offset%int64(os.Getpagesize()) != 0 {
		return nil, fmt.Errorf("read shared memory: %d bytes at %d of %d", n, offset, size)
	}
	r.Close()
	// A power of two, so that growing frames are mapped anew a few times only.
	length := max(minMap, 1<<bits.Len64(uint64(n-1)))
	if n == 1 {
		length = minMap
	}
	b, err := unix.Mmap(int(r.Source.file.Fd()), offset, length, unix.PROT_READ, unix.MAP_SHARED) //nolint:gosec // A descriptor.
	if err != nil {
		return nil, fmt.Errorf("map shared memory: %w", err)
	}
	r.offset, r.mapped = offset, b
	return b[:n:n], nil
}

// Close unmaps what is mapped.
func (r *Reader) Close() {
	if r.mapped != nil {
		_ = unix.Munmap(r.mapped)
		r.mapped = nil
	}
}
