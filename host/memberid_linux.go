package host

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// bootID tells this run of this machine from all others.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// inodeOf returns the number that tells an open file from all others of its
// file system.
func inodeOf(f *os.File) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

// lockFile opens the file, made if missing, for this process alone. The lock
// ends with the returned file, and with the process.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errMemberInUse
		}
		return nil, err
	}
	return f, nil
}
