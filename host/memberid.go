package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluicehq/sluice/sharetask/sharegroup"
)

// memberFileVersion is raised when what the file says changes its meaning.
const memberFileVersion = 1

// memberFile is what state_dir keeps of a member of a share group, so that a
// worker that was killed takes its dead self's place instead of waiting until
// the group has noticed. A file that was copied is not the one it names by its
// inode, or is on another machine, and is not used.
type memberFile struct {
	Version int    `json:"version"`
	Cluster string `json:"cluster"`
	Group   string `json:"group"`
	Member  string `json:"member_id"`
	Boot    string `json:"boot_id"`
	Inode   uint64 `json:"inode"`
}

// heldMember is a member's id, in use until it is released.
type heldMember struct {
	id   string
	lock *os.File // Nil where the id is not kept.
}

// errMemberInUse is an id that another process or task has.
var errMemberInUse = errors.New("another member uses it")

// memberPath returns the file of a task's member in a state directory.
func memberPath(dir, worker, connector string, task int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", worker, connector))
	return filepath.Join(dir, "members", fmt.Sprintf("%s-%d-%s.json", connector[:min(len(connector), 100)], task, hex.EncodeToString(sum[:6])))
}

// holdMember returns the id that path keeps for a member of group, or a new one,
// which it keeps from then on. With an error the id is new and not kept, since
// another member may use what is there or nothing can be written.
func holdMember(path, cluster, group string) (*heldMember, error) {
	held := &heldMember{id: sharegroup.NewMemberID()}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return held, fmt.Errorf("keep member id: %w", err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return held, fmt.Errorf("lock member id %s: %w", path, err)
	}
	boot, err := bootID()
	if err != nil {
		_ = lock.Close()
		return held, fmt.Errorf("keep member id: %w", err)
	}
	if f := readMember(path); f != nil && f.Version == memberFileVersion && f.Cluster == cluster && f.Group == group && f.Boot == boot && f.Member != "" {
		held.id, held.lock = f.Member, lock
		return held, nil
	}
	f := memberFile{Version: memberFileVersion, Cluster: cluster, Group: group, Member: held.id, Boot: boot}
	if err := f.write(path); err != nil {
		_ = lock.Close()
		return held, fmt.Errorf("keep member id: %w", err)
	}
	held.lock = lock
	return held, nil
}

// memberID returns the id with which the slot's next task joins its share group.
// The task before it has ended.
func (c *connector) memberID(slot *taskSlot) string {
	slot.releaseMember()
	if c.stateDir == "" || c.bound.dev { // An embedded broker ends with the worker.
		return ""
	}
	held, err := holdMember(memberPath(c.stateDir, c.worker, c.def.Name, slot.number), strings.Join(c.bound.kafka.Bootstrap, ","), c.def.GroupID)
	if err != nil {
		slot.log.Info("member id is not kept, a worker that is killed finds its partitions taken until its session ends", "err", err)
	}
	slot.member = held
	return held.id
}

func (slot *taskSlot) releaseMember() {
	slot.member.release()
	slot.member = nil
}

// release lets another member have the id. A nil heldMember has none.
func (m *heldMember) release() {
	if m != nil && m.lock != nil {
		_ = m.lock.Close() // Closing is what unlocks.
		m.lock = nil
	}
}

// readMember returns what path says, or nil where that is of no use: it is not
// there, not to be read, or a copy.
func readMember(path string) *memberFile {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	var f memberFile
	if err := json.NewDecoder(file).Decode(&f); err != nil {
		return nil
	}
	if inode, err := inodeOf(file); err != nil || inode != f.Inode {
		return nil
	}
	return &f
}

// write replaces path at once. The file keeps its inode when it is renamed.
func (f *memberFile) write(path string) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), ".member-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	if f.Inode, err = inodeOf(temp); err == nil {
		err = json.NewEncoder(temp).Encode(f)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
