package service

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// User is the account a server runs under: database servers refuse to run as root.
type User struct {
	uid, gid uint32
	own      bool // The account of this process.
}

// Unprivileged returns the account of this process or, for root, the first of names that exists.
func Unprivileged(names ...string) (User, error) {
	if os.Geteuid() != 0 {
		return User{own: true}, nil
	}
	for _, name := range append(names, "nobody") {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(account.Uid, 10, 32)
		if err != nil {
			return User{}, fmt.Errorf("account %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(account.Gid, 10, 32)
		if err != nil {
			return User{}, fmt.Errorf("account %s: %w", name, err)
		}
		return User{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return User{}, fmt.Errorf("no account to run a server under: %q", names)
}

// Run makes cmd run under the account.
func (u User) Run(cmd *exec.Cmd) {
	if !u.own {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.uid, Gid: u.gid}}
	}
}

// Own gives the account the file or folder at path.
func (u User) Own(path string) error {
	if u.own {
		return nil
	}
	return os.Chown(path, int(u.uid), int(u.gid))
}
