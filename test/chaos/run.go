package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
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
	Seed     uint64
	Length   time.Duration // Of the producing and of the faults.
	Rate     int           // Records a second.
	Kinds    []Kind        // Which faults; none: no faults.
	Sink     string        // "builtin:http" or "process:http".
	Unknown  bool          // A request that gets no answer outlasts the put, so nothing is known; else the sink says "retry".
	KeepLogs bool          // Of runs that pass, too.
}

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
	target   *Target
	toTarget []*Proxy   // By worker.
	toBroker [][]*Proxy // By worker, by broker.
	workers  []*worker
	topic    string
	letters  string
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
	r := &run{tb: tb, log: log, plan: plan, out: &Outcome{Plan: plan, Counters: map[string]float64{}}, stop: map[int]func(){}}
	r.prepare()
	r.out.Faults = Schedule(plan.Seed, plan.Length, plan.Kinds)
	ctx, cancel := context.WithCancel(tb.Context())
	var side sync.WaitGroup
	defer side.Wait()
	defer cancel()

	p, err := newProducer(r.cluster.Bootstrap(), r.topic)
	r.must(err)
	defer p.client.Close()
	for _, w := range r.workers {
		r.must(w.start())
	}
	side.Go(func() { r.watchCounters(ctx) })
	side.Go(func() { r.watchLetters(ctx) })
	producing, endProducing := context.WithTimeout(ctx, time.Until(r.begin.Add(plan.Length)))
	defer endProducing()
	side.Go(func() { p.run(producing, plan.Rate) })
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

// prepare starts all but the workers.
func (r *run) prepare() {
	var err error
	listeners := make([]kafkatest.Listener, workers)
	for i := range workers {
		r.toTarget = append(r.toTarget, r.newProxy())
		var links []*Proxy
		for range brokers {
			links = append(links, r.newProxy())
		}
		r.toBroker = append(r.toBroker, links)
		listeners[i] = kafkatest.Listener{Name: fmt.Sprintf("WORKER%d", i+1), Advertised: addresses(links)}
	}
	r.cluster = kafkatest.New(r.tb, kafkatest.Options{Brokers: brokers, Listeners: listeners})
	r.admin = r.cluster.Admin(r.tb)
	for i, l := range listeners {
		for b, address := range r.cluster.BootstrapOf(l.Name) {
			r.toBroker[i][b].SetTarget(address)
		}
	}
	r.group = kafkatest.Name(r.tb)
	r.topic, r.letters = "in."+r.group, "dlq."+r.group
	r.cluster.CreateTopic(r.tb, r.topic, partitions, brokers, map[string]string{"min.insync.replicas": "2"})
	// The time a dead letter was written is the broker's.
	r.cluster.CreateTopic(r.tb, r.letters, partitions, brokers, map[string]string{
		"min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime", "errors.deadletterqueue.group.enable": "true",
	})

	if r.dir, err = os.MkdirTemp("", "sluice-chaos-"); err != nil {
		r.tb.Fatal(err)
	}
	r.out.Logs = r.dir
	r.tb.Cleanup(func() {
		if r.tb.Failed() || r.plan.KeepLogs {
			r.log.Info("the workers' logs are kept", "folder", r.dir)
			_ = os.RemoveAll(filepath.Join(r.dir, "bin"))
			return
		}
		_ = os.RemoveAll(r.dir)
	})
	bin := filepath.Join(r.dir, "bin")
	r.must(build(r.tb.Context(), bin))

	r.begin = time.Now()
	r.target, err = NewTarget(r.plan.Seed, r.begin, 2*r.requestTimeout())
	r.must(err)
	r.tb.Cleanup(r.target.Close)
	for i := range workers {
		r.toTarget[i].SetTarget(r.target.Address())
		w, err := newWorker(bin, r.dir, fmt.Sprintf("w%d", i+1), r.definitions(i))
		r.must(err)
		r.workers = append(r.workers, w)
		r.tb.Cleanup(func() { _ = w.kill() })
	}
	r.begin = r.target.begin
}

func (r *run) newProxy() *Proxy {
	p, err := NewProxy()
	r.must(err)
	r.tb.Cleanup(p.Close)
	return p
}

func addresses(proxies []*Proxy) []string {
	var out []string
	for _, p := range proxies {
		out = append(out, p.Address())
	}
	return out
}

// build compiles the program and the plugin.
func build(ctx context.Context, bin string) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	for out, pkg := range map[string]string{"sluice": "./cmd/sluice", "plugins/sluice-sink-http": "./plugins/http/sluice-sink-http"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(bin, out), pkg)
		cmd.Dir = root
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
		}
	}
	return nil
}

// requestTimeout is the sink's bound on one request.
func (r *run) requestTimeout() time.Duration {
	if r.plan.Unknown {
		return 30 * time.Second
	}
	return 4 * time.Second
}

// definitions are those of worker i. All have the same connector, but for the addresses of the proxies.
func (r *run) definitions(i int) string {
	put := 20 * time.Second
	if r.plan.Unknown {
		put = 5 * time.Second
	}
	return fmt.Sprintf(`
kafka "main" {
  bootstrap = ["%s"]
}
connector %q {
  sink           = %q
  topics         = [%q]
  group_id       = %q
  group_protocol = "share"
  parallelism    = 3
  put_timeout    = "%v"
  share {
    acquisition_lock_timeout = "%v"
  }
  batch {
    max_records = 200
  }
  retry {
    max = "5s"
  }
  breaker {
    max = "5s"
  }
  dead_letter_queue {
    topic = %q
  }
  config {
    url     = "http://%s/w%d"
    body    = "ndjson"
    include = ["topic", "partition", "offset"]
    timeout = "%v"
  }
}
`, strings.Join(addresses(r.toBroker[i]), `", "`), connector, r.plan.Sink, r.topic, r.group, put, Lock, r.letters,
		r.toTarget[i].Address(), i+1, r.requestTimeout())
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

// watchLetters marks dead letters as they come, so that the wait for the group knows of them.
func (r *run) watchLetters(ctx context.Context) {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Bootstrap()...), kgo.ConsumeTopics(r.letters),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.log.Error("dead letters are not watched", "err", err)
		return
	}
	defer client.Close()
	for ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			if id, err := kafkatest.ID(rec.Value); err == nil {
				r.target.Mark(id)
			}
		})
	}
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
		r.out.Missing = r.target.Missing(r.out.Places)
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

// account reads what arrived where, and the logs.
func (r *run) account() {
	events, odd := r.target.Events()
	for _, text := range odd {
		r.complain("the target got something else: %s", text)
	}
	for _, rec := range r.cluster.ReadAll(r.tb, r.letters) {
		e, err := readLetter(rec, r.begin)
		if err != nil {
			r.complain("dead letter at %d/%d: %v", rec.Partition, rec.Offset, err)
			continue
		}
		events = append(events, e)
	}
	r.out.Account = Tally(r.out.Places, events, Bad, r.out.Faults, graceAfter)
	r.must(writeEvents(filepath.Join(r.dir, "events.csv"), events))
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
