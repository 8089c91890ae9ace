package chaos

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// shown bounds each list of findings.
const shown = 5

// Title names the run in a report of several.
func (o *Outcome) Title() string {
	semantics := "no answer: the sink says retry"
	all, _ := kinds()
	switch {
	case o.Plan.exactlyOnce():
		semantics = "exactly-once"
		if o.Plan.Unvalidated {
			semantics = "exactly-once without its rule"
		}
		all = slices.DeleteFunc(all, Kind.ofTarget)
	case o.Plan.Unknown:
		semantics = "no answer: the put ends unknown"
	}
	faults := ""
	if n := len(slices.Compact(slices.Sorted(slices.Values(o.Plan.Kinds)))); len(o.Plan.Faults) > 0 {
		faults = ", chosen faults"
	} else if n == 0 {
		faults = ", no faults"
	} else if n < len(all) {
		faults = fmt.Sprintf(", %d kinds of faults", n)
	}
	if o.Plan.Pace != usualPace {
		faults += fmt.Sprintf(", one each %v", o.Plan.Pace)
	}
	return fmt.Sprintf("Seed %d, %v, %s, %s%s", o.Plan.Seed, o.Plan.Length, o.Plan.Sink, semantics, faults)
}

// done returns how many faults of a kind there were.
func (o *Outcome) done(kind Kind) int {
	n := 0
	for i := range o.Faults {
		if o.Faults[i].Kind == kind && o.Faults[i].Skipped == "" {
			n++
		}
	}
	return n
}

// semantics is what the connector promises, as its setting says.
func (p *Plan) semantics() string {
	if p.exactlyOnce() {
		return "exactly-once"
	}
	return "at-least-once"
}

// Report is the run in Markdown, with a title.
func (o *Outcome) Report(command, version string) string {
	var b strings.Builder
	a := o.Account
	verdict := "**passed**"
	if o.Failed() {
		verdict = "**FAILED**"
	}
	drained := fmt.Sprintf("%.1f s", o.Drained.Seconds())
	if o.Drained == 0 {
		drained = fmt.Sprintf("not within %v: %d records missing, lag %d", settleLimit, o.Missing, o.Backlog.Lag)
	}
	copies := map[string]int{}
	for _, d := range a.Doubles {
		copies[d.kind()]++
	}
	fmt.Fprintf(&b, "## %s\n\n%s: %s. %s\n\n| what | records |\n| --- | --- |\n", o.Title(), verdict, command, version)
	for _, row := range []struct {
		what  string
		value any
	}{
		{"delivery semantics", o.Plan.semantics()},
		{"kills of workers, of brokers", fmt.Sprintf("%d, %d", o.done(WorkerKill), o.done(BrokerKill))},
		{"confirmed by the brokers", a.Confirmed},
		{"not confirmed (of these, seen all the same)", fmt.Sprintf("%d (%d)", o.Refused, a.Unconfirmed)},
		{"written", a.Written},
		{"dead-lettered", a.DeadLettered},
		{"lost (of these, the group still has)", fmt.Sprintf("%d (%d)", len(a.Lost), o.Held)},
		{"good, and dead-lettered", len(a.GoodDead)},
		{"bad, and written", a.BadWritten},
		{"copies: written more than once", copies["written more than once"]},
		{"copies: dead-lettered more than once", copies["dead-lettered more than once"]},
		{"copies: in two places", copies["in two places"]},
		{"copies that no fault explains", len(a.Unexplained())},
		{"in the topic twice (by the producer)", a.OtherPlace},
		{"highest delivery count of a dead letter", a.Deliveries},
		{"deliveries seen, for each record confirmed", fmt.Sprintf("%.3f", o.Counters["sluice_records_acquired_total"]/float64(max(a.Confirmed, 1)))},
		{"time to drain", drained},
		{"ordered stops", fmt.Sprint(rounded(o.Stops))},
	} {
		fmt.Fprintf(&b, "| %s | %v |\n", row.what, row.value)
	}
	o.reportFaults(&b)
	o.reportCounters(&b)
	o.reportFindings(&b)
	return b.String()
}

func rounded(all []time.Duration) []time.Duration {
	out := make([]time.Duration, 0, len(all))
	for _, d := range all {
		out = append(out, d.Round(100*time.Millisecond))
	}
	return out
}

// reportFaults lists the faults with the doubles they explain.
func (o *Outcome) reportFaults(b *strings.Builder) {
	if len(o.Faults) == 0 {
		return
	}
	b.WriteString("\n| fault | from s | to s | written more than once | dead-lettered more than once | in two places |\n| --- | --- | --- | --- | --- | --- |\n")
	for i, f := range o.Faults {
		of := map[string]int{}
		for _, d := range o.Account.Doubles {
			if d.Fault == i {
				of[d.kind()]++
			}
		}
		if f.Skipped != "" {
			fmt.Fprintf(b, "| %s | %.1f | skipped: %s | - | - | - |\n", &f, f.Start.Seconds(), f.Skipped)
			continue
		}
		fmt.Fprintf(b, "| %s | %.1f | %.1f | %d | %d | %d |\n", &f, f.Start.Seconds(), f.End.Seconds(),
			of["written more than once"], of["dead-lettered more than once"], of["in two places"])
	}
}

// reportCounters lists the workers' counters and the error lines of their logs.
func (o *Outcome) reportCounters(b *strings.Builder) {
	b.WriteString("\nThe workers' counters, as last seen of each process:")
	for _, name := range slices.Sorted(maps.Keys(o.Counters)) {
		short := strings.TrimSuffix(strings.TrimPrefix(name, "sluice_"), "_total")
		fmt.Fprintf(b, " %s %.0f,", short, o.Counters[name])
	}
	errorLines := "none"
	if len(o.LogErrors) > 0 {
		var parts []string
		for _, msg := range slices.Sorted(maps.Keys(o.LogErrors)) {
			parts = append(parts, fmt.Sprintf("%q %d times", msg, o.LogErrors[msg]))
		}
		errorLines = strings.Join(parts, ", ")
	}
	fmt.Fprintf(b, " and error lines of their logs: %s.\n", errorLines)
}

// reportFindings lists what must not be, at most some of each sort.
func (o *Outcome) reportFindings(b *strings.Builder) {
	if !o.Failed() {
		return
	}
	b.WriteString("\nFindings:\n\n")
	for _, text := range o.Complaints {
		fmt.Fprintf(b, "- %s\n", text)
	}
	for _, text := range o.Lost {
		fmt.Fprintf(b, "- lost: %s\n", text)
	}
	for _, e := range o.Account.GoodDead[:min(len(o.Account.GoodDead), shown)] {
		fmt.Fprintf(b, "- good, and dead-lettered at %.3f s: %s; %s\n", e.At.Seconds(), e.where(), e.Letter)
	}
	excess := o.Account.Excess()
	for _, d := range excess[:min(len(excess), shown)] {
		why := "UNEXPLAINED"
		if d.Fault >= 0 {
			why = "in " + o.Faults[d.Fault].String()
		}
		fmt.Fprintf(b, "- %s, %s: %s, at %.3f s (%s) and %.3f s (%s)\n", d.kind(), why, d.Second.where(),
			d.First.At.Seconds(), d.First.by(), d.Second.At.Seconds(), d.Second.by())
	}
	for _, text := range o.Claims {
		fmt.Fprintf(b, "- %s\n", text)
	}
}

func (e *Event) where() string {
	return fmt.Sprintf("record %d, partition %d, offset %d", e.ID, e.Place.Partition, e.Place.Offset)
}

func (e *Event) by() string {
	switch {
	case e.Letter == nil:
		return e.Worker
	case e.Worker != "":
		return "dead letter by " + e.Worker
	default:
		return "dead letter"
	}
}

// String gives the headers that say why.
func (l *Letter) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		if strings.HasPrefix(name, "__") {
			parts = append(parts, fmt.Sprintf("%s=%q", name, l.Headers[name]))
		}
	}
	return strings.Join(parts, " ")
}

const preamble = `# Chaos

<!-- Written by "make chaos CHAOS_FLAGS=-write". -->

What became of every record while things broke: three Kafka brokers, three workers with one share-group connector (http sink, record
lock 15 s, dead letter queue), and proxies in between. A schedule made from the seed kills and stops workers and brokers, moves
leaders, and makes the target and all connections misbehave; then all is healed, the group drains, and each record the brokers had
confirmed is looked for at the target and in the dead letter topic. One record in 1,501 is bad on purpose.

A record may be written more than once by a fault (docs/delivery.md). Each such copy is assigned to the fault within whose time, and
20 s after it (the lock and 5 s), it came; a fault of a kind that stores nothing, such as an answer of 503, explains none. What a
killed worker wrote last may come again 45 s later, when its session has ended and others get its partitions. A run fails if a record
is lost, a good one is dead-lettered, or a copy has no fault to explain it.
`

const oncePreamble = `# Chaos, exactly once

<!-- Written by "make chaos" with the flags -sink builtin:kafka -write. -->

What became of every record while things broke: three Kafka brokers, three workers with one share-group connector whose kafka sink
copies records to another topic with delivery_semantics = "exactly-once" (record lock and transactions 15 s, dead letter queue), and
proxies between workers and brokers. A schedule made from the seed kills and stops workers and brokers, moves leaders, and makes
connections misbehave; then all is healed, the group drains, and each record the brokers had confirmed is looked for among what is
committed in the output and in the dead letter topic. One record in 1,501 is bad on purpose: it does not say where to.

No fault excuses a copy. A run fails if a record is lost, is in the output twice, in the dead letter topic twice, or in both, or if a
good one is dead-lettered. Tables name the fault within whose time a copy came, if there is one.
`

// write puts the section into the file, in the place of one with the same title. A new file begins with head.
func write(file, head, title, section string) error {
	old, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		old, err = []byte(head), nil
	}
	if err != nil {
		return fmt.Errorf("read report: %w", err)
	}
	if err := os.WriteFile(file, []byte(merge(string(old), title, section)), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// merge returns the report with the section in place of the one with that title, or at the end.
func merge(report, title, section string) string {
	head := "## " + title + "\n"
	begin := strings.Index(report, head)
	if begin < 0 {
		return strings.TrimRight(report, "\n") + "\n\n" + section
	}
	rest := ""
	if next := strings.Index(report[begin+len(head):], "\n## "); next >= 0 {
		rest = report[begin+len(head)+next:]
	}
	return report[:begin] + section + rest
}
