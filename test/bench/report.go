package bench

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// column is one figure of a table.
type column struct {
	title, verb string
	value       func(s *sample) float64
}

var (
	rateColumn = column{"krecords/s", "%.0f", func(s *sample) float64 { return s.rate() / 1e3 }}
	p99Column  = column{"p99 ms", "%.1f", func(s *sample) float64 { return s.p99 * 1e3 }}

	costColumns = []column{
		{"CPU s/M records", "%.2f", (*sample).perMillion},
		{"same, second half", "%.2f", func(s *sample) float64 { return s.warm }},
		{"broker CPU s/M", "%.2f", func(s *sample) float64 { return s.broker / s.records * 1e6 }},
		{"peak memory MB", "%.0f", func(s *sample) float64 { return s.peak / 1e6 }},
		{"start to first s", "%.2f", func(s *sample) float64 { return s.start }},
	}
	idleColumns = []column{
		{"CPU, % of a core", "%.1f", func(s *sample) float64 { return s.cpu1 * 100 }},
		{"heap KiB each", "%.0f", func(s *sample) float64 { return s.heap / 1024 }},
		{"peak memory MB", "%.0f", func(s *sample) float64 { return s.peak / 1e6 }},
		{"broker CPU, % of a core", "%.1f", func(s *sample) float64 { return s.broker / idleTime.Seconds() * 100 }},
		{"start to all running s", "%.1f", func(s *sample) float64 { return s.start }},
	}
)

// columns are the figures of the series' table. The second one is the ratio to the base, where there is one.
func (s *series) columns() (main column, ratio string, more []column) {
	switch {
	case s.idle > 0:
		return idleColumns[0], "", idleColumns[1:]
	case s.latency:
		return p99Column, "ratio of p99", append([]column{{"p50 ms", "%.1f", func(s *sample) float64 { return s.p50 * 1e3 }}, rateColumn}, costColumns...)
	default:
		return rateColumn, "ratio", costColumns
	}
}

// of are the values of one figure in all runs; a run that failed has none.
func (c column) of(samples []sample) values {
	var v values
	for i := range samples {
		if samples[i].err != nil {
			v = append(v, math.NaN())
		} else {
			v = append(v, c.value(&samples[i]))
		}
	}
	return v
}

// table is the series in Markdown. samples are by variant, then by round.
func (s *series) table(samples map[string][]sample) string {
	first, ratio, more := s.columns()
	var b strings.Builder
	head := []string{"variant", first.title}
	if ratio != "" {
		head = append(head, ratio)
	}
	for _, c := range more {
		head = append(head, c.title)
	}
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat(" --- |", len(head)))
	var notes []string
	for _, v := range s.variants {
		runs := samples[v.name]
		row := []string{v.name, first.of(runs).format(first.verb)}
		if ratio != "" {
			row = append(row, first.of(runs).ratios(first.of(samples[s.base])).format("%.2f"))
		}
		for _, c := range more {
			row = append(row, c.of(runs).format(c.verb))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		failed := 0
		for _, r := range runs {
			if r.err != nil {
				failed++
			}
		}
		if failed > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %d runs failed.", v.name, failed, len(runs)))
		}
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "\n%s\n", n)
	}
	return b.String()
}

// section is the part of the report on one series.
func (s *series) section(samples map[string][]sample, conditions string) string {
	var loads values
	for _, v := range s.variants {
		for _, r := range samples[v.name] {
			loads = append(loads, r.load)
		}
	}
	return fmt.Sprintf("## %s\n\n%s\n\n%s\n%s Load average before a run: %s.\n", s.title, s.note, s.table(samples), conditions, loads.format("%.1f"))
}

// conditions says where, when and how it was measured.
func conditions(root, kafka, command string, rounds int) string {
	version := "unknown"
	if out, err := exec.Command("git", "-C", root, "describe", "--tags", "--always", "--dirty").Output(); err == nil {
		version = strings.TrimSpace(string(out))
	}
	java := "no java"
	if out, err := exec.Command("java", "-version").CombinedOutput(); err == nil {
		java, _, _ = strings.Cut(string(out), "\n")
	}
	return fmt.Sprintf("%s: `%s`, %d rounds. Sluice %s, %s, Kafka %s, %s; %s.", time.Now().UTC().Format(time.DateOnly), command, rounds,
		version, runtime.Version(), kafka, strings.ReplaceAll(java, `"`, ""), machine())
}

// machine describes the hardware in a few words.
func machine() string {
	read := func(file, pattern string) string {
		b, _ := os.ReadFile(file)
		if m := regexp.MustCompile(pattern).FindSubmatch(b); m != nil {
			return strings.TrimSpace(string(m[1]))
		}
		return "unknown"
	}
	var memory float64
	_, _ = fmt.Sscan(read("/proc/meminfo", `MemTotal:\s*(\d+)`), &memory)
	return fmt.Sprintf("%d cores (%s), %.0f GiB, Linux %s", runtime.NumCPU(), read("/proc/cpuinfo", `model name\s*:\s*(.*)`), memory/(1<<20),
		read("/proc/sys/kernel/osrelease", `(\S+)`))
}

const preface = `# Benchmarks

<!-- Written by "make bench". -->

Measured by ` + "`make bench`" + ` (test/bench) on one Kafka broker **on the same machine**, with records of 1 KB of random bytes. Each
variant is a process of its own with a new group; variants run in turns, round by round. Cells are "median [least-greatest]" of
the rounds. A ratio is to the variant that has 1.00, in the same round: it holds where the figures themselves depend on the hour.
Speed is from the first record to the last; CPU is that of the variant's whole process, plugins included, from its start to its end;
memory is the sum of its processes' peaks.
`

// update puts a section into the report, in the place of an older one of the same title or at the end.
func update(report, section string) string {
	if !strings.HasPrefix(report, "# ") {
		report = preface
	}
	title, _, _ := strings.Cut(section, "\n")
	parts := strings.SplitAfter(report, "\n## ")
	for i := 1; i < len(parts); i++ {
		if heading, _, _ := strings.Cut(parts[i], "\n"); "## "+heading == title {
			tail := ""
			if i < len(parts)-1 {
				tail = "\n## "
			}
			parts[i] = strings.TrimPrefix(section, "## ") + tail
			return strings.Join(parts, "")
		}
	}
	return strings.TrimRight(report, "\n") + "\n\n" + section
}
