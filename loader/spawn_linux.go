package loader

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup puts cmd into a process group of its own.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// endWithWorker also has cmd killed when the thread that starts it ends.
func endWithWorker(cmd *exec.Cmd) {
	ownGroup(cmd)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// awaitExit returns when the process has ended, before its number is free for
// another, so that its group can still be killed by it. Cmd is still to be
// waited for.
func awaitExit(cmd *exec.Cmd) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return nil
		}
	}
}

// killGroup kills a process group; one that has ended is no error.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// limitMemory limits the data of a process, in bytes.
func limitMemory(pid int, bytes int64) error {
	limit := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil)
}
