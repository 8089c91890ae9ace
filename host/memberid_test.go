//go:build linux

package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func hold(t *testing.T, path, cluster, group string) *heldMember {
	t.Helper()
	m, err := holdMember(path, cluster, group)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.release)
	return m
}

// TestAMemberKeepsItsID as long as it is the same member on the same machine,
// and shares it with nobody.
func TestAMemberKeepsItsID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	path := memberPath(dir, "w1", "orders", 0)
	for _, other := range []string{memberPath(dir, "w2", "orders", 0), memberPath(dir, "w1", "orders", 1), memberPath(dir, "w1", "Orders", 0)} {
		if other == path {
			t.Errorf("two members have the file %s", path)
		}
	}
	first := hold(t, path, "c", "g")
	id := first.id
	if second, err := holdMember(path, "c", "g"); !errors.Is(err, errMemberInUse) || second.id == id || second.id == "" {
		t.Errorf("while it is in use: got %+v, %v; want a new id and %v", second, err, errMemberInUse)
	}
	first.release()
	again := hold(t, path, "c", "g")
	if again.id != id {
		t.Errorf("got id %s, want %s again", again.id, id)
	}
	again.release()

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := memberPath(filepath.Join(t.TempDir(), "copy"), "w1", "orders", 0)
	if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if m := hold(t, copied, "c", "g"); m.id == id {
		t.Error("a copied state directory brings the same id")
	}
	for name, text := range map[string]string{
		"another machine": strings.Replace(string(text), `"boot_id":"`, `"boot_id":"x`, 1),
		"cut off":         string(text[:len(text)/2]),
		"empty":           "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil { // In place: the inode stays.
			t.Fatal(err)
		}
		m := hold(t, path, "c", "g")
		if m.id == id {
			t.Errorf("%s: the id is used", name)
		}
		m.release()
		if m = hold(t, path, "c", "g"); m.id == id || m.id == "" {
			t.Errorf("%s: got id %q, want one that is kept", name, m.id)
		}
		m.release()
	}
	last := hold(t, path, "c", "g")
	last.release()
	if m := hold(t, path, "c", "other"); m.id == last.id {
		t.Error("another group has the id")
	}
}

// TestAMemberWithoutAStateDirectory joins with a new id all the same.
func TestAMemberWithoutAStateDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := holdMember(memberPath(file, "w1", "orders", 0), "c", "g"); err == nil || m.id == "" {
		t.Errorf("got %+v, %v; want an id and why it is not kept", m, err)
	}
}
