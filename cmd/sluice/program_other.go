//go:build !linux

package main

// forgetProgram does nothing: there is no way to ask for it here.
func forgetProgram() {}
