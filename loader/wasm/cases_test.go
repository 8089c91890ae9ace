package wasm

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/pluginapi"
)

// The tests of this file are faults that other hosts of WASM modules had.

// forEver is the code of a loop around body that never ends.
func forEver(body ...byte) []byte {
	return append(append(append([]byte{0x03, 0x40}, body...), 0x0c, 0, 0x0b), i64Const(0)...)
}

// Loops of one bulk operation, or of a call of the host, and a recursion without
// end: each is stopped in time or traps, and costs its instance alone (PLUG-16,
// PLUG-17).
func TestPlug16CodeThatNeverEndsIsStopped(t *testing.T) {
	fill := append(append(append(i32Const(0), i32Const(7)...), i32Const(64<<20)...), 0xfc, 0x0b, 0)
	call := append(append(append(i32Const(4), i32Const(16)...), i32Const(1)...), 0x10, 0)
	for name, tc := range map[string]struct {
		a          assembly
		code, text string
	}{
		"bulk memory":    {assembly{memory: append([]byte{0}, leb(1024)...), funcs: map[string][]byte{exportPut: forEver(fill...)}}, "put_timeout", "stopped after its time"},
		"calls the host": {assembly{imports: map[string]signature{"log": imports["log"]}, funcs: map[string][]byte{exportPut: forEver(call...)}}, "put_timeout", "stopped after its time"},
		"empty":          {assembly{funcs: map[string][]byte{exportPut: forEver()}}, "put_timeout", "stopped after its time"},
		"recursion":      {assembly{extra: map[string][]byte{"again": {0x10, 0}}, funcs: map[string][]byte{exportPut: append([]byte{0x10, 0}, i64Const(0)...)}}, "crash", "stack overflow"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.a.data = []byte{0xf6}
			m := load(t, tc.a, Options{Grace: 50 * time.Millisecond})
			inst, err := m.Instance(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			timeout := 300 * time.Millisecond
			if tc.code == "crash" { // By itself.
				timeout = time.Minute
			}
			began := time.Now()
			_, err = put(t, inst, timeout, "a")
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			wantGone(t, inst, err, tc.code, tc.text)
			// On a busy machine it may notice its end only after the grace.
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			running := func() int {
				m.mu.Lock()
				defer m.mu.Unlock()
				return m.running
			}
			for running() != 0 {
				if time.Since(began) > 20*time.Second {
					t.Fatal("it still runs")
				}
				<-tick.C
			}
			next, err := m.Instance(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := next.Check(t.Context()); err != nil {
				t.Errorf("the next instance: %v", err)
			}
		})
	}
}

// Many instances of a module that could have much memory take what they use, not
// what they may have (PLUG-19).
func TestPlug19InstancesTakeTheMemoryTheyUse(t *testing.T) {
	m := load(t, assembly{data: []byte{0xf6}}, Options{MemoryBytes: 1 << 30})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	instances := make([]*Instance, 50)
	for i := range instances {
		var err error
		if instances[i], err = m.Instance(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("50 instances of a page each take %d MiB", grown>>20)
	}
	for _, inst := range instances {
		if err := inst.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Memory grows while the host writes a request, hears a log line and reads the
// answer: each is whole, and what was read stays as it was (PLUG-23).
func TestPlug23MemoryThatGrowsInACall(t *testing.T) {
	var log logged
	inst := start(t, open(t, "guest", Options{MemoryBytes: 1 << 30}), nil, log.logger())
	source := rand.NewChaCha8([32]byte{})
	var got, want []string
	for _, size := range []int{1, 64 << 10, 5 << 20, 60 << 20, 1} {
		body := make([]byte, size)
		_, _ = source.Read(body)
		results := make([]pluginapi.Result, 1)
		batch := records("")
		batch[0].Value = pluginapi.BytesDatum(append([]byte("sum "), body...))
		if err := inst.Put(t.Context(), batch, results); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if !bytes.HasSuffix(mustBytes(t, batch[0].Value), body) {
			t.Errorf("%d bytes: the record was changed", size)
		}
		got, want = append(got, results[0].Err.Message), append(want, fmt.Sprint(crc32.ChecksumIEEE(body)))
		if line := fmt.Sprintf("bytes=%d", size); !strings.Contains(log.String(), line) {
			t.Errorf("no %s in the log", line)
		}
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("sum %d: got %q, want %s", i, got[i], want[i])
		}
	}
}

func mustBytes(t *testing.T, d pluginapi.Datum) []byte {
	t.Helper()
	b, ok := d.Bytes()
	if !ok {
		t.Fatal("no bytes")
	}
	return b
}
