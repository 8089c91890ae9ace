package config

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFileBytes bounds a configuration file and what file(…) reads.
const maxFileBytes = 1 << 20

// Env is the world a configuration is read in. Its zero value is the real one;
// tests set the functions they need.
type Env struct {
	// Lookup returns an environment variable and whether it is set.
	Lookup func(name string) (string, bool)
	// ReadFile returns a file's content. It is asked for configuration files
	// and by file(…).
	ReadFile func(path string) ([]byte, error)
	// Stat tells files from directories.
	Stat func(path string) (fs.FileInfo, error)
	// ReadDir lists a directory.
	ReadDir func(path string) ([]fs.DirEntry, error)
	// Hostname returns the machine's name, the worker's default id.
	Hostname func() (string, error)

	// Dev says that an embedded broker stands in for every kafka block. The
	// blocks are checked but no connector uses one, and they may be missing.
	Dev bool
}

func (e Env) withDefaults() Env {
	if e.Lookup == nil {
		e.Lookup = os.LookupEnv
	}
	if e.ReadFile == nil {
		e.ReadFile = readFile
	}
	if e.Stat == nil {
		e.Stat = os.Stat
	}
	if e.ReadDir == nil {
		e.ReadDir = os.ReadDir
	}
	if e.Hostname == nil {
		e.Hostname = os.Hostname
	}
	return e
}

// readFile reads a regular file of at most maxFileBytes. It looks before it
// opens, because opening a pipe waits for its other end.
func readFile(path string) (_ []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // Only read from.
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than %s", path, sizeText(maxFileBytes))
	}
	return text, nil
}

// resolve makes a path written in a file of directory dir usable from the
// working directory.
func resolve(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
