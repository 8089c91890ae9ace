package chaos

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/test/kafkatest"
)

var (
	durationFlag = flag.Duration("duration", 50*time.Second, "how long things break")
	seedFlag     = flag.Uint64("seed", 12, "of the schedule; odd ones take the builtin sink, even ones a plugin process; multiples of three let puts end unknown")
	rateFlag     = flag.Int("rate", 2000, "records a second")
	faultsFlag   = flag.String("faults", "all", "all, none, or kinds by commas, such as \"worker killed,broker killed\"")
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
	all, traits := kinds()
	switch *faultsFlag {
	case "all":
		p.Kinds = all
	case "none":
	default:
		for name := range strings.SplitSeq(*faultsFlag, ",") {
			kind := Kind(strings.TrimSpace(name))
			if _, ok := traits[kind]; !ok {
				t.Fatalf("there is no fault %q, only %q", kind, all)
			}
			p.Kinds = append(p.Kinds, kind)
		}
	}
	return p
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
