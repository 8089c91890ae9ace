package fetchconn

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPoolGivesWhatFits(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // It empties the pool.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var p pool
	for _, size := range []int{1, smallBody, smallBody + 1, 1 << 20, 3 << 20} {
		b := p.get(size)
		if len(*b) != size || cap(*b) > size+size/8+1 {
			t.Errorf("get(%d) has %d bytes and room for %d", size, len(*b), cap(*b))
		}
		p.put(b)
	}
	for range 100 { // All fit into the largest; those that do not may not be lost.
		b := p.get(2 << 20)
		if len(*b) != 2<<20 {
			t.Fatalf("get has %d bytes", len(*b))
		}
		p.put(b)
	}
}

// A record that is held for long holds all of its response's buffer.
func TestASmallResponseGetsNoHugeBuffer(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var p pool
	p.put(p.get(16 << 20))
	if b := p.get(2 * smallBody); cap(*b) > 4*2*smallBody {
		t.Errorf("a response of %d bytes is in a buffer of %d", len(*b), cap(*b))
	}
}

func TestSmallBuffersAreNotKept(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var p pool
	for range 100 {
		p.put(p.get(smallBody))
	}
	if b := p.kept.Get(); b != nil {
		t.Error("a small buffer was kept")
	}
}

// What grows does so in steps, so that buffers of responses that are much alike
// are of use to each other.
func TestRoomIsAnEighthMoreAtMost(t *testing.T) {
	for size := smallBody; size < maxBody; size += size/3 + 1 {
		if room := roomFor(size); room < size || room > size+size/8 {
			t.Errorf("roomFor(%d) = %d", size, room)
		}
		if roomFor(roomFor(size)) != roomFor(size) {
			t.Errorf("roomFor(%d) is not a step", size)
		}
	}
}

func TestNilBodyHasNothingToGiveBack(*testing.T) {
	var b *Body
	b.Retain()
	b.Release()
	b.Release()
}
