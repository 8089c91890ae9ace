//go:build !linux

package host

import (
	"errors"
	"os"
)

// Elsewhere a copy of a file cannot be told from it, so no id is kept.

func bootID() (string, error) { return "", errors.ErrUnsupported }

func inodeOf(*os.File) (uint64, error) { return 0, errors.ErrUnsupported }

func lockFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
