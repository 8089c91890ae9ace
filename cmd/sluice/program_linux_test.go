package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestForgetProgram: less of the program's file is resident afterwards, and the
// program goes on.
func TestForgetProgram(t *testing.T) {
	resident := func() (kb int) {
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), "RssFile:")
		if _, err := fmt.Sscan(rest, &kb); err != nil {
			t.Fatal(err)
		}
		return kb
	}
	before := resident()
	forgetProgram()
	if after := resident(); after > before/10*9 {
		t.Errorf("%d kB of files are resident, %d before", after, before)
	}
}
