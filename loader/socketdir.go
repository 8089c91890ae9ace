package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// maxSocketDir is the longest directory, in bytes, a plugin's socket directory
// is made in: a Unix socket's path ends at 103 bytes on some systems, and
// go-plugin adds a directory and a file name of up to 20 bytes each.
const maxSocketDir = 60

// socketParent returns a short directory to make sockets' directories in: the
// user's run directory, the temporary one, or /tmp, whichever can be used.
func socketParent() (string, error) {
	return socketIn(os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp", "/var/tmp")
}

// socketIn returns the first of the directories that can be used.
func socketIn(dirs ...string) (string, error) {
	var problems []error
	for _, dir := range dirs {
		if dir == "" || !filepath.IsAbs(dir) {
			continue
		}
		if len(dir) > maxSocketDir {
			problems = append(problems, fmt.Errorf("%s is longer than %d bytes", dir, maxSocketDir))
			continue
		}
		probe, err := os.MkdirTemp(dir, "sluice-")
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if err := os.Remove(probe); err != nil {
			problems = append(problems, err)
			continue
		}
		return dir, nil
	}
	return "", fmt.Errorf("find a directory for the plugin's socket: %w", errors.Join(problems...))
}
