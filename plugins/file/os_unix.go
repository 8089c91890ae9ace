//go:build unix

package file

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFile opens without waiting: a pipe of that name must not hold a put.
func openFile(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, flags|syscall.O_NONBLOCK, 0o644) //nolint:gosec // The umask decides.
}

// tryLock takes the lock that other processes respect, if it is free.
func tryLock(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return false, err
		}
	}
}

func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// writable asks whether we may write to the file at path.
func writable(path string) error { return access(path, unix.W_OK) }

// writableDirectory asks whether we may make files in dir.
func writableDirectory(dir string) error { return access(dir, unix.W_OK|unix.X_OK) }

func access(path string, mode uint32) error {
	if err := unix.Access(path, mode); err != nil {
		return &os.PathError{Op: "write to", Path: path, Err: err}
	}
	return nil
}

// ignoreUnsupported drops the error of file systems that cannot sync a folder.
func ignoreUnsupported(err error) error {
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
