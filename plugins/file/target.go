package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

var errNotRegular = errors.New("it is not a regular file")

// target is one file that is appended to.
type target struct {
	path string
	file *os.File // Nil while it is not open.
	used int64    // When it was put to last, in puts.

	writeAt func(f *os.File, b []byte, at int64) (int, error) // See sink.writeAt.
}

// append adds lines, whole or not at all, and returns when they are on the
// disk. It waits for the file's lock until ctx ends.
func (t *target) append(ctx context.Context, lines []byte) error {
	if err := t.acquire(ctx); err != nil {
		t.close()
		return err
	}
	end, err := t.cut()
	if err == nil {
		err = t.write(lines, end)
	}
	if err == nil {
		err = t.file.Sync()
	}
	if err != nil {
		// Nothing of it may stay: the records will be put again. If it cannot
		// be taken back, no line of it was accepted, and a part of a line is
		// cut by the next write.
		if terr := t.file.Truncate(end); terr != nil {
			err = errors.Join(err, terr)
		}
		t.close()
		return err
	}
	return unlock(t.file)
}

func (t *target) write(lines []byte, at int64) error {
	if t.writeAt != nil {
		_, err := t.writeAt(t.file, lines, at)
		return err
	}
	_, err := t.file.WriteAt(lines, at)
	return err
}

// acquire opens the file and locks it. A file that was moved away or removed
// while it was open, as log rotation does, is opened anew.
func (t *target) acquire(ctx context.Context) error {
	for {
		if t.file == nil {
			if err := t.open(); err != nil {
				return err
			}
		}
		if err := lock(ctx, t.file); err != nil {
			return fmt.Errorf("lock %s: %w", t.path, err)
		}
		have, err := t.file.Stat()
		if err != nil {
			return err
		}
		if !have.Mode().IsRegular() {
			return fmt.Errorf("open %s: %w", t.path, errNotRegular)
		}
		if there, err := os.Stat(t.path); err == nil && os.SameFile(have, there) {
			return nil
		}
		t.close()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// open opens the file, making it and its folders where they are missing.
func (t *target) open() error {
	f, err := openFile(t.path, os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) {
		dir := filepath.Dir(t.path)
		there := existing(dir)
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // As other programs' files: the umask decides.
			return err
		}
		if f, err = openFile(t.path, os.O_RDWR|os.O_CREATE); err == nil {
			err = syncDirectories(there, dir)
		}
	}
	if err != nil {
		if f != nil {
			_ = f.Close()
		}
		return err
	}
	t.file = f
	return nil
}

// cut removes a line that a crash left without its end, and returns where the
// next one begins.
func (t *target) cut() (int64, error) {
	info, err := t.file.Stat()
	if err != nil {
		return 0, err
	}
	end, size := info.Size(), info.Size()
	buf := make([]byte, 1)
	for at := size; at > 0; {
		n := min(at, int64(len(buf)))
		if _, err := t.file.ReadAt(buf[:n], at-n); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			end = at - n + int64(i) + 1
			break
		}
		at -= n
		end = at
		buf = make([]byte, 64<<10) // The last byte is no newline: look for one.
	}
	if end == size {
		return end, nil
	}
	return end, t.file.Truncate(end)
}

func (t *target) close() {
	if t.file != nil {
		_ = t.file.Close() // What was accepted is synced; closing drops the lock.
		t.file = nil
	}
}

// existing returns dir, or the nearest directory above it that is there.
func existing(dir string) string {
	for {
		up := filepath.Dir(dir)
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) || up == dir {
			return dir
		}
		dir = up
	}
}

// syncDirectories makes the names of a new file and of the new directories it
// stands in durable: those from dir up to there, which was there before.
func syncDirectories(there, dir string) error {
	for {
		if err := syncDirectory(dir); err != nil {
			return err
		}
		up := filepath.Dir(dir)
		if dir == there || up == dir {
			return nil
		}
		dir = up
	}
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(ignoreUnsupported(err), d.Close())
}

// checkWritable asks whether the file at path can be written, or made.
func checkWritable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("open %s: %w", path, errNotRegular)
	case err == nil:
		return writable(path)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	dir := existing(filepath.Dir(path))
	if info, err = os.Stat(dir); err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory: %w", dir, errNotRegular)
	}
	return writableDirectory(dir)
}

// lockPoll is how often a lock held by another is asked for again.
const lockPoll = 2 * time.Millisecond

// lock takes the advisory lock on f, waiting until ctx ends.
func lock(ctx context.Context, f *os.File) error {
	if ok, err := tryLock(f); ok || err != nil {
		return err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if ok, err := tryLock(f); ok || err != nil {
			return err
		}
	}
}
