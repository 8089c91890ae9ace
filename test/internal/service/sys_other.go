//go:build !linux

package service

import "os/exec"

// dieWithParent does nothing: only Linux has the parent-death signal. There a server outlives a test process that is
// killed, not one that ends.
func dieWithParent(*exec.Cmd) {}
