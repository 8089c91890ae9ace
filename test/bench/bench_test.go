package bench

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

var (
	scenariosFlag = flag.String("scenarios", "", "what to measure, by commas: "+strings.Join(scenarioNames, ", "))
	recordsFlag   = flag.Int64("records", 1_300_000, "records in each topic")
	roundsFlag    = flag.Int("rounds", 5, "runs of each variant")
	writersFlag   = flag.Int("writers", 4, "writers, where the scenario does not say")
	variantsFlag  = flag.String("variants", "", "regular expression: only variants whose names match, and what they are compared with")
	gogcFlag      = flag.Int("gogc", 200, "GOGC of the raw clients in Go; a worker of Sluice sets its own")
	writeFlag     = flag.String("write", "", "file to write the report to")
)

// TestBench measures what -scenarios names; see "make bench".
func TestBench(t *testing.T) {
	if *scenariosFlag == "" {
		t.Skip(`"make bench" runs the benchmarks`)
	}
	if runtime.GOOS != "linux" {
		t.Skip("the benchmarks read /proc")
	}
	if *roundsFlag < 1 || *recordsFlag < 1000 || *writersFlag < 1 {
		t.Fatal("too few rounds, records or writers")
	}
	names, err := regexp.Compile(*variantsFlag)
	if err != nil {
		t.Fatal(err)
	}
	var all []series
	for name := range strings.SplitSeq(*scenariosFlag, ",") {
		s := scenario(name, size{*recordsFlag, *writersFlag})
		if s == nil {
			t.Fatalf("scenario %q: want one of %s", name, strings.Join(scenarioNames, ", "))
		}
		all = append(all, s...)
	}
	brokers := 1
	for name := range strings.SplitSeq(*scenariosFlag, ",") {
		brokers = max(brokers, brokersOf(name))
	}
	l := newLab(t, brokers)
	filled := map[string]bool{}
	where := conditions(l.root, kafkatest.Version, command(), *roundsFlag)
	for i := range all {
		s := &all[i]
		s.choose(names)
		for _, v := range s.variants {
			if name := v.job.topic; name != "" && !filled[name] {
				t.Logf("writing %d records to %s", *recordsFlag, name)
				if err := l.fill(t.Context(), name, v.job.partitions, *recordsFlag); err != nil {
					t.Fatal(err)
				}
				filled[name] = true
			}
		}
		section := s.section(measureSeries(t, l, s, i), where)
		fmt.Println("\n" + section)
		if *writeFlag != "" {
			writeReport(t, section)
		}
	}
}

// measureSeries runs the variants in turns.
func measureSeries(t *testing.T, l *lab, s *series, number int) map[string][]sample {
	samples := map[string][]sample{}
	if s.idle > 0 {
		s.variants = []variant{{name: "Sluice share, builtin"}}
	}
	if s.idle == 0 {
		warmUp(t, l, s.variants[min(s.warm, len(s.variants)-1)], number)
	}
	for round := range *roundsFlag {
		for i, v := range s.variants {
			var m sample
			group := fmt.Sprintf("g%d-%d-%d", number, round, i)
			if s.idle > 0 {
				before := load()
				m, m.err = l.idle(t.Context(), s.idle, group)
				m.load = before
			} else {
				m = l.measure(t.Context(), v.run, v.job, group)
			}
			samples[v.name] = append(samples[v.name], m)
			switch {
			case m.err != nil:
				t.Errorf("%s, round %d: %v", v.name, round+1, m.err)
			case s.idle > 0:
				t.Logf("round %d: %.1f%% of a core, %.0f KiB heap each", round+1, m.cpu1*100, m.heap/1024)
			default:
				t.Logf("round %d: %-28s %6.1f krecords/s, %.2f CPU s/M (warm %.2f), broker %.2f, %3.0f MB, first after %.2f s, p99 %.1f ms, load %.1f %s",
					round+1, v.name, m.rate()/1e3, m.perMillion(), m.warm, m.broker/m.records*1e6, m.peak/1e6, m.start, m.p99*1e3, m.load, m.remark)
			}
			if t.Context().Err() != nil {
				t.FailNow()
			}
		}
	}
	return samples
}

// warmRuns bounds the runs that do not count.
const warmRuns = 20

// warmUp makes runs that do not count: the broker's code is compiled as it runs, which takes more of its time than the records do, until
// little is left to compile.
func warmUp(t *testing.T, l *lab, v variant, number int) {
	t.Helper()
	for i := range warmRuns {
		run, busy, began := v.run, l.compiling(), time.Now()
		if i == 1 {
			run = rawConsumer
		}
		if m := l.measure(t.Context(), run, v.job, fmt.Sprintf("w%d-%d", number, i)); m.err != nil {
			t.Logf("warming up: %v", m.err)
			return // So will the runs that count.
		}
		if v.job.rate > 0 || v.job.slowEvery > 0 {
			return // These run for a time, not to the end of a topic.
		}
		if compiling := (l.compiling() - busy) / time.Since(began).Seconds(); i > 2 && compiling < 0.1 {
			t.Logf("warm after %d runs: compiling takes %.2f of a core", i+1, compiling)
			return
		}
	}
	t.Logf("not warm after %d runs: the broker still compiles", warmRuns)
}

// choose leaves only the variants whose names match, and the base.
func (s *series) choose(names *regexp.Regexp) {
	s.variants = slices.DeleteFunc(s.variants, func(v variant) bool { return v.name != s.base && !names.MatchString(v.name) })
}

// newLab starts a broker with the JVM flags of Kafka's scripts, which those of the tests do not favour, and builds the programs.
func newLab(t *testing.T, brokers int) *lab {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	c := kafkatest.New(t, kafkatest.Options{
		Brokers: brokers,
		HeapMB:  2048, JVMFlags: append([]string{"-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC"}, serverFlags...),
		Properties: map[string]string{"group.share.max.groups": "2000", "group.share.max.share.sessions": "4000", "log.retention.ms": "-1"},
	})
	l := &lab{root: root, dir: t.TempDir(), bootstrap: c.Bootstrap()[0], gogc: *gogcFlag, replicas: int16(brokers), libs: os.Getenv("SLUICE_KAFKA_LIBS")}
	l.sink = sync.OnceValue(l.compileSink)
	if l.libs == "" {
		l.libs = filepath.Join(root, ".cache", "kafka", kafkatest.Version, "libs")
	}
	for i := range brokers {
		if err := l.findBroker(c.PropertiesFile(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.build(); err != nil {
		t.Fatal(err)
	}
	return l
}

// command is how to measure the same again.
func command() string {
	s := fmt.Sprintf("make bench SCENARIOS=%s RECORDS=%d ROUNDS=%d", *scenariosFlag, *recordsFlag, *roundsFlag)
	more := ""
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "writers", "variants", "gogc":
			more += fmt.Sprintf(" -%s=%s", f.Name, f.Value)
		}
	})
	if more != "" {
		s += fmt.Sprintf(" BENCH_FLAGS=%q", strings.TrimSpace(more))
	}
	return s
}

func writeReport(t *testing.T, section string) {
	t.Helper()
	old, err := os.ReadFile(*writeFlag)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(*writeFlag, []byte(update(string(old), section)), 0o644); err != nil {
		t.Fatal(err)
	}
}
