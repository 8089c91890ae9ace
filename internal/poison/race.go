//go:build race

package poison

// Bytes overwrites b, which is not in use any more: whoever still reads it sees
// nonsense, and is a data race.
func Bytes(b []byte) {
	if len(b) == 0 {
		return
	}
	b[0] = 0xdb
	for n := 1; n < len(b); n *= 2 { // Far faster than byte by byte, which the detector would look at each.
		copy(b[n:], b[:n])
	}
}
