package guest

import (
	"runtime"
	"unsafe"

	"github.com/sluicehq/sluice/pluginapi"
)

// Serve makes p the plugin of this module. It is to be called once, from an
// init function of package main.
func Serve(p pluginapi.Plugin) { instance.plugin = p }

// instance is the module. A WASM instance is single and single-threaded, and
// exports have no receiver: this is the one place for its state.
var instance = module{host: host{log: logLine, results: sendResults, http: callHTTP}}

func currentHost() host { return instance.host }

// buffers holds the memory the host asked for and has not handed over yet, by
// address, so that the collector leaves it alone.
var buffers = map[uint32][]byte{}

// spare is the last put's memory, for the next one.
var spare []byte

// maxSpare bounds what is kept between puts, in bytes.
const maxSpare = 8 << 20

//go:wasmimport sluice log
func hostLog(level int32, ptr unsafe.Pointer, n uint32)

//go:wasmimport sluice results
func hostResults(ptr unsafe.Pointer, n uint32)

//go:wasmimport sluice http
func hostHTTP(ptr unsafe.Pointer, n uint32) uint64

func logLine(level int32, line string) {
	hostLog(level, unsafe.Pointer(unsafe.StringData(line)), uint32(len(line)))
}

func sendResults(frame []byte) {
	hostResults(unsafe.Pointer(unsafe.SliceData(frame)), uint32(len(frame)))
}

func callHTTP(request []byte) []byte {
	answer := hostHTTP(unsafe.Pointer(unsafe.SliceData(request)), uint32(len(request)))
	return take(uint32(answer>>32), uint32(answer))
}

// take hands over memory the host filled.
func take(ptr, n uint32) []byte {
	b := buffers[ptr]
	delete(buffers, ptr)
	if int(n) > len(b) {
		panic("guest: the host handed over memory it did not ask for")
	}
	return b[:n]
}

// pack returns where an answer lies: address << 32 | length.
func pack(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))<<32 | uint64(len(b))
}

//go:wasmexport sluice_abi_version
func exportVersion() int32 { return pluginapi.ABIVersion }

//go:wasmexport sluice_alloc
func exportAlloc(n uint32) uint32 {
	b := spare
	spare = nil
	if cap(b) < int(n) || n == 0 {
		b = make([]byte, max(n, 1))
	}
	b = b[:cap(b)]
	ptr := uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	buffers[ptr] = b
	return ptr
}

//go:wasmexport sluice_describe
func exportDescribe() uint64 { return pack(instance.describe()) }

//go:wasmexport sluice_start
func exportStart(ptr, n uint32) uint64 { return pack(instance.start(take(ptr, n))) }

//go:wasmexport sluice_put
func exportPut(ptr, n uint32) uint64 {
	frame := take(ptr, n)
	answer := instance.put(frame)
	// The collector has no thread of its own: without a turn here it marks for
	// hundreds of puts, which are slower for it.
	runtime.Gosched()
	if cap(frame) <= maxSpare {
		spare = frame
	}
	return pack(answer)
}

//go:wasmexport sluice_check
func exportCheck() uint64 { return pack(instance.check()) }

//go:wasmexport sluice_stop
func exportStop() uint64 { return pack(instance.stop()) }
