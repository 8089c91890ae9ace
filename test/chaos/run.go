package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/kafkatest"
)

const (
	partitions = 6
	connector  = "chaos"

	// settleLimit bounds each wait at the end: for the brokers, and for the group to drain.
	settleLimit = 3 * time.Minute

	// graceAfter is what a fault may take to show beyond the lock it left behind: the brokers' and workers' own waits.
	graceAfter = Lock + 5*time.Second
)

// Plan says what a run does.
type Plan struct {
	Seed        uint64
	Length      time.Duration // Of the producing and of the faults.
	Rate        int           // Records a second.
	Kinds       []Kind        // Which faults, as Schedule takes them; none: no faults.
	Faults      []Fault       // Which faults, instead of a schedule of Kinds; times, Length too, begin when records arrive.
	Pace        time.Duration // Mean time between the starts of two faults; 0: 5 s.
	Sink        string        // "http" or, exactly once, "kafka", behind "builtin:" or "process:".
	Unknown     bool          // A request that gets no answer outlasts the put, so nothing is known; else the sink says "retry".
	Unvalidated bool          // The workers are built to leave out what makes it exactly once: copies must be found.
	KeepLogs    bool          // Of runs that pass, too.
}

// exactlyOnce reports whether the sink is the one that writes to a topic.
func (p *Plan) exactlyOnce() bool { return strings.HasSuffix(p.Sink, ":kafka") }

// Outcome is what a run found.
type Outcome struct {
	Plan       Plan
	Faults     []Fault
	Account    *Account
	Places     []Place
	Drained    time.Duration // From the end of the faults; 0 if it did not within the limit.
	Missing    int           // Confirmed records that had not arrived when the wait ended.
	Backlog    Backlog       // Of the group, then.
	Held       int           // Of the lost records: those the group has not finished.
	Lost       []string      // About each lost record, the first of them.
	Claims     []string      // About each of the first records that are lost or in two places, where it is to be written once.
	Refused    int           // Records the brokers did not confirm.
	Stops      []time.Duration
	Counters   map[string]float64
	LogErrors  map[string]int // Error lines of the workers' logs, by message.
	Complaints []string       // What else must not happen.
	Logs       string         // Folder of the workers' logs.
}

// Failed reports whether the run found something that must not be.
func (o *Outcome) Failed() bool { return o.Account.Failed() || len(o.Complaints) > 0 }

// run is one run's parts.
type run struct {
	tb       testing.TB
	log      *slog.Logger
	plan     Plan
	dir      string
	begin    time.Time
	cluster  *kafkatest.Cluster
	admin    *kadm.Client
	seen     *marks     // What has arrived, as far as the wait for the end knows.
	target   *Target    // Nil where the sink writes to a topic.
	toTarget []*Proxy   // By worker.
	toBroker [][]*Proxy // By worker, by broker.
	workers  []*worker
	topic    string
	letters  string
	copies   string // The topic that the kafka sink writes to, else empty.
	group    string
	out      *Outcome

	cuts sync.WaitGroup // The goroutines of faults that repeat.
	stop map[int]func() // By index of the fault: ends its goroutine.
}

// Run does what the plan says and accounts for every record. It must be called from the test's own goroutine, and takes the plan's
// length and up to some minutes more. A machine without Kafka skips the test. Findings are in the outcome; only what keeps the run
// from going on fails the test.
func Run(tb testing.TB, log *slog.Logger, plan Plan) *Outcome {
	tb.Helper()
	if plan.Pace == 0 {
		plan.Pace = usualPace
	}
	if plan.exactlyOnce() {
		plan.Kinds = slices.DeleteFunc(slices.Clone(plan.Kinds), Kind.ofTarget)
	}
	r := &run{tb: tb, log: log, plan: plan, out: &Outcome{Plan: plan, Counters: map[string]float64{}}, stop: map[int]func(){}}
	r.prepare()
	r.out.Faults = Schedule(plan.Seed, plan.Length, plan.Pace, plan.Kinds)
	ctx, cancel := context.WithCancel(tb.Context())
	var side sync.WaitGroup
	defer side.Wait()
	defer cancel()

	p, err := newProducer(r.cluster.Bootstrap(), r.topic, r.copies)
	r.must(err)
	defer p.client.Close()
	for _, w := range r.workers {
		r.must(w.start())
	}
	side.Go(func() { r.watchCounters(ctx) })
	side.Go(func() { r.watchTopics(ctx) })
	producing, endProducing := context.WithCancel(ctx)
	defer endProducing()
	side.Go(func() { p.run(producing, plan.Rate) })
	length := plan.Length
	if plan.Faults != nil {
		length += r.chosenFaults()
	}
	limit := time.AfterFunc(time.Until(r.begin.Add(length)), endProducing)
	defer limit.Stop()
	r.breakThings()
	<-producing.Done()
	r.heal()
	healed := time.Now()
	r.log.Info("healed", "at", time.Since(r.begin).Round(time.Millisecond))
	if err := p.finish(ctx, settleLimit); err != nil {
		r.complain("producer: %v", err)
	}
	r.out.Places = p.confirmed()
	var first error
	if r.out.Refused, first = p.failures(); first != nil {
		r.log.Info("records not confirmed", "records", r.out.Refused, "err", first)
	}
	r.drain(healed)
	r.stopWorkers()
	cancel()
	side.Wait()
	r.account()
	return r.out
}

func (r *run) must(err error) {
	r.tb.Helper()
	if err != nil {
		r.tb.Fatal(err)
	}
}

func (r *run) complain(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.log.Error("complaint", "text", text)
	r.out.Complaints = append(r.out.Complaints, text)
}

// watchCounters asks the workers for their counters every second, and writes them to a file beside their logs.
func (r *run) watchCounters(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	file, err := os.Create(filepath.Join(r.dir, "counters.csv"))
	if err != nil {
		r.log.Error("counters are not written down", "err", err)
		return
	}
	defer file.Close()
	fmt.Fprintf(file, "seconds,worker,%s,%s\n", strings.Join(counters(), ","), openRecords)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, w := range r.workers {
			if w.read(ctx) == nil { // One that is down or stopped has none to give.
				fmt.Fprintf(file, "%.1f,%s\n", time.Since(r.begin).Seconds(), w.line())
			}
		}
	}
}

// watchTopics marks dead letters, and the kafka sink's records, as they come, so that the wait for the group knows of them.
func (r *run) watchTopics(ctx context.Context) {
	topics := []string{r.letters}
	if r.copies != "" {
		topics = append(topics, r.copies)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Bootstrap()...), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		r.log.Error("what is written is not watched", "err", err)
		return
	}
	defer client.Close()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			if id, err := kafkatest.ID(rec.Value); err == nil {
				r.seen.Mark(id)
			}
		})
	}
}

// chosenFaults waits until many records have arrived, takes the plan's faults from then on, and returns when that was.
func (r *run) chosenFaults() time.Duration {
	r.must(r.await(settleLimit, func() error {
		if n := r.seen.Count(); n < 1000 {
			return fmt.Errorf("only %d records arrive", n)
		}
		return nil
	}))
	now := time.Since(r.begin)
	r.out.Faults = slices.Clone(r.plan.Faults)
	for i := range r.out.Faults {
		r.out.Faults[i].Start += now
		r.out.Faults[i].End += now
	}
	return now
}

// breakThings does the faults in time.
func (r *run) breakThings() {
	type act struct {
		at    time.Duration
		fault int
		end   bool
	}
	var acts []act
	for i, f := range r.out.Faults {
		acts = append(acts, act{f.Start, i, false}, act{f.End, i, true})
	}
	slices.SortStableFunc(acts, func(a, b act) int { return int(a.at - b.at) })
	for _, a := range acts {
		timer := time.NewTimer(time.Until(r.begin.Add(a.at)))
		select {
		case <-timer.C:
		case <-r.tb.Context().Done():
			timer.Stop()
			return
		}
		f := &r.out.Faults[a.fault]
		if a.end {
			r.endFault(a.fault, f)
			continue
		}
		f.Start = time.Since(r.begin)
		r.startFault(a.fault, f)
		r.log.Info("fault begins", "fault", f.String(), "at", f.Start.Round(time.Millisecond), "skipped", f.Skipped)
	}
}

func (r *run) startFault(i int, f *Fault) {
	_, traits := kinds()
	if traits[f.Kind].class == "broker" {
		if err := whole(r.tb.Context(), r.admin); err != nil {
			f.Skipped = "not all replicas are in sync: " + err.Error()
			return
		}
	}
	switch f.Kind {
	case WorkerKill:
		if err := r.workers[f.Victim].kill(); err != nil {
			r.complain("%v", err)
		}
	case WorkerStop:
		r.must(r.workers[f.Victim].signal(syscall.SIGSTOP))
	case BrokerKill:
		r.cluster.Kill(r.tb, f.Victim)
	case BrokerStop:
		r.cluster.Pause(r.tb, f.Victim)
	case LeaderMove:
		if err := moveLeaders(r.tb.Context(), r.admin); err != nil {
			f.Skipped = err.Error()
		}
	case Refuse:
		for _, p := range r.toTarget {
			p.Refuse()
		}
	case Hang, Unavailable, Throttle, StoreLate, StoreCut:
		r.target.Break(f.Kind, f.Share)
	case LinkCut, BrokerCut:
		r.cutAgainAndAgain(i, r.links(f))
	case LinkDelay, BrokerDelay:
		for _, p := range r.links(f) {
			p.SetDelay(f.Delay)
		}
	case LinkHalf, BrokerHalf:
		for _, p := range r.links(f) {
			p.SetDead(true)
		}
	}
}

func (r *run) endFault(i int, f *Fault) {
	if f.Skipped != "" {
		return
	}
	switch f.Kind {
	case WorkerKill:
		r.must(r.workers[f.Victim].start())
	case WorkerStop:
		r.must(r.workers[f.Victim].signal(syscall.SIGCONT))
	case BrokerKill:
		r.cluster.StartNoWait(r.tb, f.Victim)
	case BrokerStop:
		r.cluster.Continue(r.tb, f.Victim)
	case LeaderMove:
	case Refuse:
		for _, p := range r.toTarget {
			r.must(p.Accept())
		}
	case Hang, Unavailable, Throttle, StoreLate, StoreCut:
		r.target.Heal()
	case LinkCut, BrokerCut:
		r.stop[i]()
	case LinkDelay, BrokerDelay:
		for _, p := range r.links(f) {
			p.SetDelay(0)
		}
	case LinkHalf, BrokerHalf:
		for _, p := range r.links(f) {
			p.SetDead(false)
		}
	}
	f.End = time.Since(r.begin)
	r.log.Info("fault ends", "fault", f.String(), "at", f.End.Round(time.Millisecond))
}

// links are the proxies a fault of a link is about.
func (r *run) links(f *Fault) []*Proxy {
	switch f.Kind {
	case BrokerCut, BrokerDelay, BrokerHalf:
		return r.toBroker[f.Victim]
	default:
		return r.toTarget[f.Victim : f.Victim+1]
	}
}

// cutAgainAndAgain cuts the links at once and every 700 ms.
func (r *run) cutAgainAndAgain(i int, links []*Proxy) {
	ctx, cancel := context.WithCancel(r.tb.Context())
	r.stop[i] = cancel
	r.cuts.Go(func() {
		tick := time.NewTicker(700 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, p := range links {
				p.Cut()
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// heal waits until the brokers are whole; the schedule has ended its faults.
func (r *run) heal() {
	r.cuts.Wait()
	err := r.await(settleLimit, func() error { return whole(r.tb.Context(), r.admin) })
	if err != nil {
		r.tb.Fatalf("the brokers do not recover: %v", err)
	}
}

// await polls until check returns nil; its last error when limit is over.
func (r *run) await(limit time.Duration, check func() error) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return err
		case <-r.tb.Context().Done():
			return errors.Join(err, r.tb.Context().Err())
		}
	}
}

// drain waits until every confirmed record arrived somewhere and the group has nothing left; a group with nothing left ends the wait
// for records too, since nothing can come any more.
func (r *run) drain(healed time.Time) {
	said := time.Time{}
	err := r.await(settleLimit, func() error {
		r.out.Missing = r.seen.Missing(r.out.Places)
		var err error
		defer func() {
			if time.Since(said) > 5*time.Second {
				said = time.Now()
				r.log.Info("draining", "missing", r.out.Missing, "lag", r.out.Backlog.Lag, "starts", r.out.Backlog.Starts, "err", err)
			}
		}()
		if r.out.Backlog, err = backlog(r.tb.Context(), r.admin, r.group); err != nil {
			return err
		}
		if b := r.out.Backlog; b.Lag > 0 {
			return fmt.Errorf("%d records have not arrived, the group's lag is %d, by partition %v", r.out.Missing, b.Lag, b.Parts)
		}
		return nil
	})
	if err != nil {
		r.complain("not drained within %v: %v", settleLimit, err)
		r.complain("the group then: %s", members(r.tb.Context(), r.admin, r.group))
		return
	}
	r.out.Drained = time.Since(healed)
}

// stopWorkers stops them in order, one after the other.
func (r *run) stopWorkers() {
	for _, w := range r.workers {
		_ = w.read(r.tb.Context()) // The last counters; what the stop adds is not seen.
		took, err := w.stop()
		if err != nil {
			r.complain("%v", err)
			continue
		}
		r.out.Stops = append(r.out.Stops, took)
	}
}

// stored returns what the target and the dead letter topic have.
func (r *run) stored() []Event {
	events, odd := r.target.Events()
	for _, text := range odd {
		r.complain("the target got something else: %s", text)
	}
	for _, rec := range r.cluster.ReadAll(r.tb, r.letters) {
		if e, err := readLetter(rec, r.begin); err != nil {
			r.complain("dead letter at %d/%d: %v", rec.Partition, rec.Offset, err)
		} else {
			events = append(events, e)
		}
	}
	return events
}

// account reads what arrived where, and the logs.
func (r *run) account() {
	var events []Event
	if r.plan.exactlyOnce() {
		events = r.committed()
	} else {
		events = r.stored()
	}
	r.out.Account = Tally(r.out.Places, events, Bad, r.out.Faults, graceAfter)
	r.out.Account.Once = r.plan.exactlyOnce()
	r.must(writeEvents(filepath.Join(r.dir, "events.csv"), events))
	if r.plan.exactlyOnce() && (r.plan.KeepLogs || r.out.Failed()) {
		var about []Place
		for _, d := range r.out.Account.Doubles[:min(len(r.out.Account.Doubles), shown)] {
			about = append(about, d.Second.Place)
		}
		for _, id := range r.out.Account.Lost[:min(len(r.out.Account.Lost), shown)] {
			about = append(about, r.out.Places[id])
		}
		var err error
		r.out.Claims, err = r.writeLedger(filepath.Join(r.dir, "ledger.jsonl"), about)
		r.must(err)
	}
	for _, id := range r.out.Account.Lost {
		if r.out.held(r.out.Places[id]) {
			r.out.Held++
		}
	}
	for _, id := range r.out.Account.Lost[:min(len(r.out.Account.Lost), 5)] {
		r.out.Lost = append(r.out.Lost, r.aboutLost(id))
	}
	r.out.LogErrors = map[string]int{}
	for _, w := range r.workers {
		for name, v := range w.total {
			r.out.Counters[name] += v
		}
		text, err := os.ReadFile(w.logFile())
		r.must(err)
		for line := range bytes.Lines(text) {
			switch {
			case bytes.Contains(line, []byte(`"level":"ERROR"`)):
				r.out.LogErrors[field(line, "msg")]++
			case bytes.HasPrefix(line, []byte("panic:")), bytes.HasPrefix(line, []byte("fatal error:")):
				r.complain("%s: %s", w.name, bytes.TrimSpace(line))
			}
		}
	}
}

// field reads a text field of a line of the log without decoding it.
func field(line []byte, name string) string {
	_, rest, _ := bytes.Cut(line, []byte(`"`+name+`":"`))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}

// held reports whether the group has not finished the record, as far as its start offset tells.
func (o *Outcome) held(p Place) bool {
	return o.Backlog.Parts[p.Partition] > 0 && p.Offset >= o.Backlog.Starts[p.Partition]
}

// aboutLost says whether the brokers and the group still have a lost record.
func (r *run) aboutLost(id int) string {
	p := r.out.Places[id]
	where := fmt.Sprintf("record %d, partition %d, offset %d", id, p.Partition, p.Offset)
	group := fmt.Sprintf("it begins at %d, lag %d", r.out.Backlog.Starts[p.Partition], r.out.Backlog.Parts[p.Partition])
	switch {
	case !r.inLog(id):
		return where + ": the brokers do not have it either"
	case r.out.held(p):
		return where + ": the group still has it (" + group + ")"
	default:
		return where + ": the group has finished it (" + group + ")"
	}
}

// inLog reports whether the record is in the topic.
func (r *run) inLog(id int) bool {
	p := r.out.Places[id]
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Bootstrap()...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		r.topic: {p.Partition: kgo.NewOffset().At(p.Offset)},
	}))
	r.must(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(r.tb.Context(), adminLimit)
	defer cancel()
	for _, rec := range client.PollRecords(ctx, 1).Records() {
		got, err := kafkatest.ID(rec.Value)
		return err == nil && got == id && rec.Offset == p.Offset
	}
	return false
}
