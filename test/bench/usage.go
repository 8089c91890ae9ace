package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticks is the unit of CPU times in /proc: Linux tells programs 100 a second on every machine.
const ticks = 100

// usage is what a process and its children have taken so far.
type usage struct {
	cpu  float64 // Seconds, user and system.
	peak int64   // Bytes: the sum of the peaks of each one's resident memory.
}

// usageOf reads the usage of the process pid and of the children it has now.
func usageOf(pid int) usage {
	u := usage{cpu: cpuOf(pid), peak: peakOf(pid)}
	for _, child := range children(pid) {
		u.cpu += cpuOf(child)
		u.peak += peakOf(child)
	}
	return u
}

// compilersOf is the CPU time in seconds that a JVM's compilers have taken.
func compilersOf(pid int) float64 {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid))
	sum := 0.0
	for _, t := range threads {
		if name, _ := os.ReadFile(t + "/comm"); strings.Contains(string(name), "CompilerThre") {
			sum += cpuAt(t + "/stat")
		}
	}
	return sum
}

// cpuOf is the CPU time of a process in seconds, 0 if it is gone.
func cpuOf(pid int) float64 { return cpuAt(fmt.Sprintf("/proc/%d/stat", pid)) }

// cpuAt is the CPU time in a stat file of /proc.
func cpuAt(file string) float64 {
	fields := statAt(file)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticks
}

// peakOf is the peak of a process' resident memory in bytes, 0 if it is gone.
func peakOf(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kib, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return kib << 10
}

// stat are the fields of /proc/PID/stat that follow the program's name: state, parent and so on.
func stat(pid int) []string { return statAt(fmt.Sprintf("/proc/%d/stat", pid)) }

func statAt(file string) []string {
	b, _ := os.ReadFile(file)
	i := strings.LastIndexByte(string(b), ')')
	return strings.Fields(string(b[i+1:]))
}

// children are the processes whose parent is pid.
func children(pid int) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var out []int
	for _, d := range dirs {
		child, err := strconv.Atoi(filepath.Base(d))
		if fields := stat(child); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			out = append(out, child)
		}
	}
	return out
}

// load is the machine's load average of the last minute.
func load() float64 {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}
