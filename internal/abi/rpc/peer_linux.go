package rpc

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// checkPeer refuses a Unix socket whose other end belongs to another user.
func checkPeer(conn net.Conn) error {
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("check peer: %s is not a Unix socket", conn.RemoteAddr().Network())
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return fmt.Errorf("check peer: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return fmt.Errorf("check peer: %w", err)
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("check peer: process %d belongs to user %d, not %d", cred.Pid, cred.Uid, os.Geteuid())
	}
	return nil
}
