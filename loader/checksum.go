package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// checksum returns the SHA-256 of a file in lower-case hexadecimal.
func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read plugin file: %w", err)
	}
	defer f.Close()
	return sum(f)
}

func sum(f *os.File) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read plugin file: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// openVerified opens a file whose checksum is want.
func openVerified(path, want string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read plugin file: %w", err)
	}
	got, err := sum(f)
	if err == nil && !strings.EqualFold(got, want) {
		err = fmt.Errorf("%s: %w: it is %s, pinned is %s", path, ErrChecksum, got, want)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// canExecDescriptor reports whether an open file can be started by its
// descriptor's name.
func canExecDescriptor() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	_, err := os.Stat("/proc/self/fd")
	return err == nil
}
