//go:build !linux

package bench

import "syscall"

// dieWithParent has no effect here: the benchmarks read /proc and are skipped without it.
func dieWithParent() *syscall.SysProcAttr { return nil }
