//go:build unix && !linux

package loader

import (
	"errors"
	"os/exec"
	"syscall"
)

// ownGroup puts cmd into a process group of its own.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// endWithWorker does what it can: the guard kills the group.
func endWithWorker(cmd *exec.Cmd) { ownGroup(cmd) }

// awaitExit waits for the process.
func awaitExit(cmd *exec.Cmd) error { return cmd.Wait() }

// killGroup kills a process group; one that has ended is no error.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func limitMemory(int, int64) error {
	return errors.New("the memory of a process can only be limited on Linux")
}
