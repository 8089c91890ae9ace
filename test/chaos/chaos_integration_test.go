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
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

var (
	durationFlag = flag.Duration("duration", 50*time.Second, "how long things break")
	seedFlag     = flag.Uint64("seed", 12, "of the schedule; odd ones take the builtin sink, even ones a plugin process; multiples of three let puts end unknown")
	rateFlag     = flag.Int("rate", 2000, "records a second")
	faultsFlag   = flag.String("faults", "all", "all, none, or kinds by commas, such as \"worker killed,broker killed\"; all but some: \"all,-leaders moved\"")
	writeFlag    = flag.Bool("write", false, "put the report into docs/chaos.md")
	keepFlag     = flag.Bool("keep", false, "keep the workers' logs of a run that passes")
)

// planned reads the flags.
func planned(t *testing.T) Plan {
	t.Helper()
	p := Plan{Seed: *seedFlag, Length: *durationFlag, Rate: *rateFlag, Sink: "builtin:http", Unknown: *seedFlag%3 == 0, KeepLogs: *keepFlag}
	if *seedFlag%2 == 0 {
		p.Sink = "process:http"
	}
	var err error
	if p.Kinds, err = choose(*faultsFlag); err != nil {
		t.Fatal(err)
	}
	return p
}

// choose reads -faults.
func choose(text string) ([]Kind, error) {
	all, traits := kinds()
	var chosen []Kind
	for name := range strings.SplitSeq(text, ",") {
		name, without := strings.CutPrefix(strings.TrimSpace(name), "-")
		kind := Kind(name)
		_, known := traits[kind]
		switch {
		case name == "none":
			return nil, nil
		case name == "all":
			chosen = all
		case !known:
			return nil, fmt.Errorf("there is no fault %q, only %q", name, all)
		case without:
			chosen = slices.DeleteFunc(chosen, func(k Kind) bool { return k == kind })
		default:
			chosen = append(chosen, kind)
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
		if err := write(filepath.Join("..", "..", "docs", "chaos.md"), o.Title(), section); err != nil {
			t.Error(err)
		}
	}
	if o.Failed() {
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

// TestChaos is "make chaos"; without flags it is a short run with one seed.
func TestChaos(t *testing.T) {
	plan := planned(t)
	command := fmt.Sprintf("make chaos DURATION=%v SEED=%d", plan.Length, plan.Seed)
	if *faultsFlag != "all" {
		command += fmt.Sprintf(" CHAOS_FLAGS='-faults %q'", *faultsFlag)
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
