package fetchconn

import (
	"math/bits"
	"sync"

	"github.com/sluicehq/sluice/internal/poison"
)

const (
	// smallBody is the size up to which a buffer is made anew: that costs less
	// than keeping it.
	smallBody = 32 << 10
	// tries is how many buffers of the pool are looked at for one that is large
	// enough, and not tooLarge times as large: records that are held for long
	// hold all of it.
	tries    = 4
	tooLarge = 4
)

// pool holds buffers that are not in use, of any size, until the garbage
// collector takes them. There are as many as were in use at the same time: a new
// one is made where all that is there is too small, and takes the place of one of
// those. The zero value is empty and ready. It is safe for concurrent use.
type pool struct{ kept sync.Pool } // *[]byte

// bodies are the buffers of all connectors of a worker.
var bodies pool

// get returns a buffer of size bytes, whose content is undefined.
func (p *pool) get(size int) *[]byte {
	if size <= smallBody {
		b := make([]byte, size)
		return &b
	}
	var unfit [tries]*[]byte
	n := 0
	defer func() {
		for _, b := range unfit[:n] {
			p.kept.Put(b)
		}
	}()
	for n < tries {
		b, ok := p.kept.Get().(*[]byte)
		if !ok {
			break
		}
		if cap(*b) >= size && cap(*b) < tooLarge*size {
			*b = (*b)[:size]
			return b
		}
		unfit[n] = b
		n++
	}
	if n > 0 {
		n--
	}
	b := make([]byte, size, roomFor(size))
	return &b
}

// put takes b back. Nothing may use its bytes any more.
func (p *pool) put(b *[]byte) {
	poison.Bytes((*b)[:cap(*b)])
	if cap(*b) > smallBody {
		p.kept.Put(b)
	}
}

// roomFor is how large a new buffer for size bytes is: up to an eighth more, so
// that the next response, which may be larger by little, fits as well. What is
// allocated is cleared, and so takes real memory.
func roomFor(size int) int {
	step := 1 << max(bits.Len(uint(size))-4, 0) //nolint:gosec // Not negative.
	return (size + step - 1) / step * step
}
