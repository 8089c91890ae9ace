package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// childrenOf returns the processes whose parent is pid.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("no /proc: the children of a process cannot be found")
	}
	var out []int
	for _, f := range stats {
		if fields := stat(f); len(fields) > 3 && fields[3] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(fields[0]); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	fields := stat("/proc/" + strconv.Itoa(pid) + "/stat")
	return len(fields) > 2 && fields[2] != "Z"
}

// stat returns the fields of a /proc stat file, the name of the program in one
// word.
func stat(file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	head, rest, ok := strings.Cut(string(b), "(")
	if !ok {
		return nil
	}
	i := strings.LastIndexByte(rest, ')')
	return append(append(strings.Fields(head), "name"), strings.Fields(rest[i+1:])...)
}
