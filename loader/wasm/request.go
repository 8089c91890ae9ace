package wasm

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice/internal/abi"
	"github.com/sluicehq/sluice/pluginapi"
)

// maxKeptFrame bounds the request buffers kept between puts, in bytes.
const maxKeptFrame = 8 << 20

// codeTooLarge is the code of a record that does not fit into the module.
const codeTooLarge = "too_large"

// request is a put request on its way into a module: written there at once if
// the room it takes is known, and else into a buffer that is copied.
type request struct {
	header abi.PutHeader
	batch  []pluginapi.Record
	room   int     // 0 where it is not known.
	frame  *[]byte // Nil where it is.
}

// prepare writes what can be written outside of the module. An error says that
// the batch is too large for it.
func (r *request) prepare(m *Module) error {
	room, known := abi.PutRequestRoom(r.header, r.batch)
	if known {
		r.room = room
	} else {
		r.write(m)
		room = len(*r.frame)
	}
	if int64(room) > m.opts.MemoryBytes/2 {
		r.release(m)
		return fmt.Errorf("%d bytes are too large for a module with %d bytes of memory", room, m.opts.MemoryBytes)
	}
	return nil
}

func (r *request) write(m *Module) {
	frame, ok := m.frames.Get().(*[]byte)
	if !ok {
		frame = new([]byte)
	}
	*frame = abi.AppendPutRequest((*frame)[:0], r.header, r.batch)
	r.frame = frame
}

// give brings the request into the module's memory and returns where it is.
func (r *request) give(ctx context.Context, inst *Instance) (ptr uint32, n int, err error) {
	if r.frame != nil {
		ptr, err = inst.give(ctx, *r.frame)
		return ptr, len(*r.frame), err
	}
	if ptr, err = inst.allocate(ctx, r.room); err != nil {
		return 0, 0, err
	}
	to, ok := inst.mod.Memory().Read(ptr, uint32(r.room)) //nolint:gosec // Less than its memory: see prepare.
	if !ok {
		return 0, 0, badAnswer("memory for %d bytes at %d is outside its memory", r.room, ptr)
	}
	frame, err := r.append(inst, to[:0:r.room])
	if err == nil && len(frame) > r.room { // It went elsewhere.
		ptr, err = inst.give(ctx, frame)
	}
	return ptr, len(frame), err
}

// append writes the request unless its caller has left: then the batch is no
// longer ours to read.
func (r *request) append(inst *Instance, to []byte) ([]byte, error) {
	inst.mu.Lock()
	defer inst.mu.Unlock()
	if inst.left {
		return nil, errLeft
	}
	return abi.AppendPutRequest(to, r.header, r.batch), nil
}

// release gives the buffer back. The request must not be in use any more.
func (r *request) release(m *Module) {
	if r.frame != nil && cap(*r.frame) <= maxKeptFrame {
		m.frames.Put(r.frame)
	}
}
