// Package sources makes the programs that a test builds part of what go test remembers its result by.
package sources

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Note opens every folder of the module that the test runs in.
//
// go test answers from its cache where a test was compiled from the same files, and opened the same ones. It knows nothing of a
// program that the test has built by running go build: without this a test of a whole worker is green for changes that break it.
// A folder that was opened counts with the names, sizes and times of what is in it.
func Note() error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	for {
		_, err := os.Stat(filepath.Join(root, "go.mod"))
		if err == nil {
			break
		}
		up := filepath.Dir(root)
		if !errors.Is(err, fs.ErrNotExist) || up == root {
			return err
		}
		root = up
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") {
			return fs.SkipDir
		}
		return err
	})
}
