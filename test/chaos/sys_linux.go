package chaos

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end the worker when the test process ends, also when that is killed or panics.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
