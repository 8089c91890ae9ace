//go:build linux

package shm

import (
	"bytes"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// pair returns both ends of a shared memory.
func pair(t *testing.T) (*File, *Source) {
	t.Helper()
	f, reader, err := Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	fd, err := unix.Dup(int(reader.Fd())) // As a process inherits it.
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	src, err := Open(strconv.Itoa(fd))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.file.Close() })
	return f, src
}

func slot(t *testing.T, f *File) *Slot {
	t.Helper()
	s, err := f.Slot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFramesAreReadWhereTheyWereWritten(t *testing.T) {
	f, src := pair(t)
	slots := []*Slot{slot(t, f), slot(t, f)}
	readers := []*Reader{{Source: src}, {Source: src}}
	for i, n := range []int{1, 100, 1 << 20, 1<<20 + 1, 7, 5 << 20, SlotBytes} {
		for k, s := range slots {
			want := bytes.Repeat([]byte{byte(10*i + k + 1)}, n)
			if b := append(s.Room(), want...); !s.Holds(b) {
				t.Fatalf("%d bytes went elsewhere", n)
			}
			got, err := readers[k].Frame(s.Offset(), int64(n))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("slot %d, %d bytes: others are read", k, n)
			}
		}
	}
	for _, r := range readers {
		r.Close()
	}
	if b := append(slots[0].Room(), make([]byte, SlotBytes+1)...); slots[0].Holds(b) {
		t.Error("more than a slot holds is said to be in it")
	}
	for _, s := range slots {
		s.Free()
	}
}

// TestAFreedSlotGivesItsMemoryBack: what an instance wrote is not kept, nor
// shown to the next one.
func TestAFreedSlotGivesItsMemoryBack(t *testing.T) {
	f, src := pair(t)
	s := slot(t, f)
	_ = append(s.Room(), bytes.Repeat([]byte("secret"), 1<<20)...)
	used := func() int64 {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.file.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	if n := used(); n < 6<<20 {
		t.Fatalf("%d bytes in use after 6 MiB were written", n)
	}
	s.Free()
	if n := used(); n != 0 {
		t.Errorf("%d bytes in use after all was freed", n)
	}
	again := slot(t, f)
	defer again.Free()
	if again.Offset() != 0 {
		t.Errorf("the freed slot was not taken: %d", again.Offset())
	}
	r := &Reader{Source: src}
	defer r.Close()
	b, err := r.Frame(0, 6)
	if err != nil || !bytes.Equal(b, make([]byte, 6)) {
		t.Errorf("a fresh slot reads %q, %v", b, err)
	}
}

func TestAReaderRefusesWhatIsNotThere(t *testing.T) {
	f, src := pair(t)
	defer slot(t, f).Free()
	r := &Reader{Source: src}
	defer r.Close()
	for _, at := range [][2]int64{{0, 0}, {0, -1}, {-SlotBytes, 10}, {0, SlotBytes + 1}, {SlotBytes, 1}, {17, 1}, {1 << 62, 1 << 62}} {
		if b, err := r.Frame(at[0], at[1]); err == nil {
			t.Errorf("%d bytes at %d: %d bytes and no error", at[1], at[0], len(b))
		}
	}
}

// TestAPluginCannotBreakTheHost: a file that shrinks under the host's mapping
// would kill the host.
func TestAPluginCannotBreakTheHost(t *testing.T) {
	f, src := pair(t)
	s := slot(t, f)
	defer s.Free()
	if err := src.file.Truncate(0); err == nil {
		t.Error("its descriptor can shrink the file")
	}
	if w, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(src.file.Fd())), os.O_RDWR, 0); err == nil {
		defer w.Close()
		if err := w.Truncate(0); err == nil {
			t.Error("opened anew, the file can be shrunk")
		}
	}
	if info, err := f.file.Stat(); err != nil || info.Size() < SlotBytes {
		t.Errorf("the file is smaller than its slot: %v", err)
	}
}

func TestOpenRefusesWhatIsNoDescriptor(t *testing.T) {
	for _, fd := range []string{"", "x", "-1", "999999", "99999999999999999999"} {
		if _, err := Open(fd); err == nil {
			t.Errorf("%q is taken", fd)
		}
	}
}
