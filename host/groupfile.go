package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The stages of a conversion, in order. Each is written before what it names
// begins, so that a run that finds it knows what may have happened.
const (
	stageDeleting = "deleting" // The group of the old kind may be there or not.
	stageSetting  = "setting"  // It is gone; the new one may have its positions or not.
	stageDone     = "done"     // The new group's positions were read back. The file is a record of them.
)

// groupFileVersion is raised when what the file says changes its meaning.
const groupFileVersion = 1

// groupFile is what a conversion keeps in the state directory: from when the
// old group may be gone until the new one has been read back, it is the only
// place where the positions are.
type groupFile struct {
	Version   int             `json:"version"`
	Cluster   string          `json:"cluster"`
	Group     string          `json:"group"`
	Connector string          `json:"connector"`
	From      string          `json:"from"`
	To        string          `json:"to"`
	Stage     string          `json:"stage"`
	SavedAt   time.Time       `json:"saved_at"`
	Positions []GroupPosition `json:"positions"`
}

// open reports that the file may be the only place where the positions are.
func (f *groupFile) open() bool { return f != nil && f.Stage != stageDone }

// groupFilePath returns the file of a group in a state directory. There is one
// for both directions, so that a run which goes back finds what the run it
// undoes has left. The sum tells groups apart whose names differ only in what
// cannot be in a file's name, and clusters.
func groupFilePath(dir, cluster, group string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, group)
	const most = 100 // Of a name that may have 255 bytes.
	sum := sha256.Sum256([]byte(cluster + "\x00" + group))
	return filepath.Join(dir, fmt.Sprintf("group-%s-%s.json", plain[:min(len(plain), most)], hex.EncodeToString(sum[:6])))
}

// readGroupFile returns nil where there is no file. One that cannot be
// understood is an error: it may be all that is left of a group.
func readGroupFile(path, cluster, group string) (*groupFile, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read saved positions: %w", err)
	}
	var f groupFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("read saved positions %s: %w", path, err)
	}
	switch {
	case f.Version != groupFileVersion:
		return nil, fmt.Errorf("read saved positions %s: it is of version %d, want %d", path, f.Version, groupFileVersion)
	case f.Cluster != cluster || f.Group != group:
		return nil, fmt.Errorf("read saved positions %s: it is of group %q in cluster %q, want %q in %q", path, f.Group, f.Cluster, group, cluster)
	case f.Stage != stageDeleting && f.Stage != stageSetting && f.Stage != stageDone:
		return nil, fmt.Errorf("read saved positions %s: unknown stage %q", path, f.Stage)
	}
	return &f, nil
}

// checkGroupFile returns an error where a conversion of the group did not come to
// its end: what is begun now would begin elsewhere.
func checkGroupFile(dir, cluster, group string) error {
	path := groupFilePath(dir, cluster, group)
	f, err := readGroupFile(path, cluster, group)
	if err != nil || !f.open() {
		return err
	}
	return fmt.Errorf("a conversion of group %q to %q did not come to its end, and its positions are in %s: run \"sluice group convert %s --to %s\" "+
		"with this state_dir first, or remove the file if they are not wanted", group, f.To, path, f.Connector, f.To)
}

// write replaces the file. When it returns, what it says outlives a crash of
// the machine; if it fails, the file that was there is as it was.
func (f *groupFile) write(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("save positions: %w", err)
		}
	}()
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".group-*") // Mode 0600.
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(text, '\n'))
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return syncDir(dir)
}

// syncDir makes a rename in dir durable, where the system can.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrInvalid) || errors.Is(err, fs.ErrPermission) {
		err = nil // A system whose directories cannot be synced.
	}
	return errors.Join(err, d.Close())
}
