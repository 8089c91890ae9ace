//go:build unix && !linux

package kafkatest

import "syscall"

// dieWithParent has no counterpart here: a broker outlives a test process that is killed. It puts the child into a process group
// of its own, so that Ctrl-C on the terminal reaches the tests first.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
