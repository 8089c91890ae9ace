package chaos

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

var (
	durationFlag = flag.Duration("duration", 50*time.Second, "how long things break")
	seedFlag     = flag.Uint64("seed", 12, "of the schedule; odd ones take the builtin sink, even ones a plugin process; multiples of three let puts end unknown")
	rateFlag     = flag.Int("rate", 2000, "records a second")
	faultsFlag   = flag.String("faults", "all", "all, none, kills, or kinds by commas, such as \"worker killed*8,broker killed\", where the first comes eight times as often; all but some: \"all,-leaders moved\"")
	everyFlag    = flag.Duration("every", usualPace, "mean time between two faults")
	sinkFlag     = flag.String("sink", "", "http or kafka, behind builtin: or process:; kafka writes to a topic, exactly once; default: http, as the seed says")
	unvalidated  = flag.Bool("unvalidated", false, "with the kafka sink: build the workers without what makes it exactly once, and see that copies are found")
	writeFlag    = flag.Bool("write", false, "put the report into docs/chaos.md, or docs/exactly-once-chaos.md")
	keepFlag     = flag.Bool("keep", false, "keep the workers' logs of a run that passes")
)

// planned reads the flags.
func planned(t *testing.T) Plan {
	t.Helper()
	p := Plan{
		Seed: *seedFlag, Length: *durationFlag, Rate: *rateFlag, Pace: *everyFlag, Sink: *sinkFlag, Unknown: *seedFlag%3 == 0,
		Unvalidated: *unvalidated, KeepLogs: *keepFlag,
	}
	switch {
	case p.Sink == "" && *seedFlag%2 == 0:
		p.Sink = "process:http"
	case p.Sink == "":
		p.Sink = "builtin:http"
	case !slices.Contains([]string{"builtin:http", "process:http", "builtin:kafka", "process:kafka"}, p.Sink):
		t.Fatalf("there is no sink %q", p.Sink)
	}
	if p.Unvalidated && !p.exactlyOnce() {
		t.Fatal("-unvalidated is for the kafka sink")
	}
	var err error
	if p.Kinds, err = choose(*faultsFlag); err != nil {
		t.Fatal(err)
	}
	return p
}

// kills is the profile for many kills: a killed worker starts again at once, and may be killed while it does.
const kills = "worker killed*10,broker killed,worker stopped,leaders moved,broker link cut,broker link dead"

// choose reads -faults.
func choose(text string) ([]Kind, error) {
	all, traits := kinds()
	var chosen []Kind
	for name := range strings.SplitSeq(text, ",") {
		name, without := strings.CutPrefix(strings.TrimSpace(name), "-")
		name, often, weighed := strings.Cut(name, "*")
		weight := 1
		if weighed {
			var err error
			if weight, err = strconv.Atoi(often); err != nil || weight < 1 || weight > 100 || without {
				return nil, fmt.Errorf("a kind comes 1 to 100 times as often as others, not %q times", often)
			}
		}
		kind := Kind(name)
		_, known := traits[kind]
		switch {
		case name == "kills":
			some, err := choose(kills)
			if err != nil {
				return nil, err
			}
			chosen = append(chosen, some...)
		case name == "none":
			return nil, nil
		case name == "all":
			chosen = all
		case !known:
			return nil, fmt.Errorf("there is no fault %q, only %q", name, all)
		case without:
			chosen = slices.DeleteFunc(chosen, func(k Kind) bool { return k == kind })
		default:
			chosen = append(chosen, slices.Repeat([]Kind{kind}, weight)...)
		}
	}
	return chosen, nil
}

func TestChoose(t *testing.T) {
	all, _ := kinds()
	for _, tc := range []struct {
		text string
		n    int // -1: an error.
	}{
		{"all", len(all)},
		{"none", 0},
		{"worker killed, target stores late", 2},
		{"all,-leaders moved,-worker killed", len(all) - 2},
		{"workers killed", -1},
		{"worker killed*3,broker killed", 4},
		{"worker killed*3,broker killed,-worker killed", 1},
		{"worker killed*0", -1},
		{"worker killed*x", -1},
		{"kills", 15},
	} {
		got, err := choose(tc.text)
		if n := len(got); (err != nil) != (tc.n < 0) || err == nil && n != tc.n {
			t.Errorf("choose(%q) gives %q, %v; want %d", tc.text, got, err, tc.n)
		}
	}
}

// judge reports the run and fails the test for what it found.
func judge(t *testing.T, o *Outcome, command string) {
	t.Helper()
	section := o.Report("`"+command+"`", about())
	fmt.Println("\n" + section)
	if *writeFlag {
		file, head := "chaos.md", preamble
		if o.Plan.exactlyOnce() {
			file, head = "exactly-once-chaos.md", oncePreamble
		}
		if err := write(filepath.Join("..", "..", "docs", file), head, o.Title(), section); err != nil {
			t.Error(err)
		}
	}
	switch {
	case o.Plan.Unvalidated && len(o.Account.Doubles) == 0:
		t.Errorf("no copy was found, though nothing kept workers from making some")
	case o.Plan.Unvalidated:
	case o.Failed():
		t.Errorf("the accounts do not balance; the workers' logs are in %s", o.Logs)
	}
}

// about says what was tested, and where.
func about() string {
	commit := "unknown"
	if out, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output(); err == nil {
		commit = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("Sluice %s, Kafka %s, %s, %d cores, %s.", commit, kafkatest.Version, runtime.Version(), runtime.NumCPU(),
		time.Now().UTC().Format(time.DateOnly))
}

// written returns the flags that were given and say what a run does, but those that make has variables for.
func written() string {
	var parts []string
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "faults":
			parts = append(parts, fmt.Sprintf("-faults %q", f.Value))
		case "sink", "rate", "every", "unvalidated":
			parts = append(parts, fmt.Sprintf("-%s=%v", f.Name, f.Value))
		}
	})
	return strings.Join(parts, " ")
}

// TestChaos is "make chaos"; without flags it is a short run with one seed.
func TestChaos(t *testing.T) {
	plan := planned(t)
	command := fmt.Sprintf("make chaos DURATION=%v SEED=%d", plan.Length, plan.Seed)
	if flags := written(); flags != "" {
		command += fmt.Sprintf(" CHAOS_FLAGS='%s'", flags)
	}
	judge(t, Run(t, slog.New(slog.NewTextHandler(os.Stdout, nil)), plan), command)
}

// TestWithoutFaultsNothingIsDoubled: the accounts of a quiet run balance exactly.
func TestWithoutFaultsNothingIsDoubled(t *testing.T) {
	o := Run(t, slog.New(slog.NewTextHandler(os.Stdout, nil)), Plan{Seed: 2, Length: 10 * time.Second, Rate: 2000, Sink: "process:http"})
	judge(t, o, "go test ./test/chaos -run Without")
	if n := len(o.Account.Doubles); n != 0 {
		t.Errorf("%d records are in two places", n)
	}
	if o.Account.Confirmed == 0 || o.Account.DeadLettered == 0 {
		t.Errorf("%d records, %d dead-lettered: the run shows nothing", o.Account.Confirmed, o.Account.DeadLettered)
	}
}

// killing is a short plan of kills, which begin when records arrive.
func killing(t *testing.T) Plan {
	t.Helper()
	const seed, length = 6, 30 * time.Second
	return Plan{
		Seed: seed, Length: length, Rate: 500, Sink: "builtin:kafka", KeepLogs: *keepFlag,
		Faults: Schedule(seed, length, 2*time.Second, mustChoose(t, "worker killed*5,broker killed,leaders moved")),
	}
}

// TestExactlyOnce: whatever is killed, every record is once in the output or once in the dead letter topic.
func TestExactlyOnce(t *testing.T) {
	o := Run(t, slog.New(slog.NewTextHandler(os.Stdout, nil)), killing(t))
	judge(t, o, "go test ./test/chaos -run 'ExactlyOnce$'")
	if o.Account.Written == 0 || o.Account.DeadLettered == 0 || o.done(WorkerKill) < 5 {
		t.Errorf("%d records written, %d dead-lettered, %d kills: the run shows nothing", o.Account.Written, o.Account.DeadLettered, o.done(WorkerKill))
	}
}

// TestCopiesAreFound: with the same faults, workers that do not look what the ledger says write records twice, and the accounts show
// it. So they would show it of workers that do look.
func TestCopiesAreFound(t *testing.T) {
	plan := killing(t)
	plan.Unvalidated = true
	judge(t, Run(t, slog.New(slog.NewTextHandler(os.Stdout, nil)), plan), "go test ./test/chaos -run CopiesAreFound")
}

func mustChoose(t *testing.T, text string) []Kind {
	t.Helper()
	chosen, err := choose(text)
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}
