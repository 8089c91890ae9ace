//go:build !unix

package file

import "os"

func openFile(path string, flags int) (*os.File, error) { return os.OpenFile(path, flags, 0o644) }

// tryLock takes no lock: this system has no advisory ones. Only one sink may
// write to a file.
func tryLock(*os.File) (bool, error) { return true, nil }

func unlock(*os.File) error { return nil }

func writable(string) error { return nil }

func writableDirectory(string) error { return nil }

// ignoreUnsupported drops the error: not every system can sync a folder.
func ignoreUnsupported(error) error { return nil }
