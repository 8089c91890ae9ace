package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// job is what a subject is to do.
type job struct {
	topic      string
	partitions int
	records    int64         // Ends after so many.
	limit      time.Duration // From the first record on; the job ends then, at the latest.
	writers    int           // Puts at the same time, of each task.
	tasks      int
	workers    int           // Processes, of Sluice; 0 means one.
	delay      time.Duration // Of a put.
	slowEvery  int64         // One record of so many is slow; 0 means none.
	slowFor    time.Duration
	sink       string // The plugin, of Sluice; empty means drop. With another one there is a dead letter queue.

	copies string // The delivery semantics of a connector that copies to another topic; empty means none.
	batch  int    // Records of a put; 0 means 500.

	refuseEvery int64 // One record of so many is refused; 0 means none.

	rate    int    // Records a second that are written to a new topic while it runs; 0 means the topic is full already.
	maxWait string // The batch's wait, of Sluice.
}

const (
	startLimit = 90 * time.Second // From a process' start to its first record.
	endLimit   = 45 * time.Second // For its end.
)

// sample is what one run measured. NaN stands for what could not be.
type sample struct {
	records    float64
	start      float64 // Seconds from the process' start to the first record.
	span       float64 // Seconds from the first record to the last.
	cpu        float64 // Seconds of the process with its children, from start to end.
	warm       float64 // Seconds a million records, in the second half.
	broker     float64 // Seconds of the broker's process.
	peak       float64 // Bytes.
	p50, p99   float64 // Seconds from a record's timestamp to its put.
	load       float64 // Of the machine, before the run.
	err        error
	remark     string  // Something that was not as it should be.
	heap, cpu1 float64 // Of idle connectors: heap bytes of each, and part of a core for all.
}

// rate is records a second.
func (s *sample) rate() float64 { return s.records / s.span }

// perMillion is CPU seconds a million records.
func (s *sample) perMillion() float64 { return s.cpu / s.records * 1e6 }

func newSample() sample {
	nan := math.NaN()
	return sample{
		records: nan, start: nan, span: nan, cpu: nan, warm: nan, broker: nan, peak: nan, p50: nan, p99: nan, heap: nan, cpu1: nan,
		load: load(),
	}
}

// marks are the events of a run, as they become known.
type marks struct {
	mu          sync.Mutex
	started     time.Time
	pids        []int
	first, last time.Time
	done        int64 // Records at last.
	half        int64 // Records at the usage in atHalf.
	atHalf      usage
	atEnd       usage
	p50, p99    time.Duration

	began, ended chan struct{} // Closed at first and last.
}

// attach says which process the marks are of. With several, a run begins with the first one's start.
func (m *marks) attach(pid int, started time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pids = append(m.pids, pid)
	if len(m.pids) == 1 {
		m.started = started
	}
}

// usage is what all processes have taken so far. m.mu must be held, or no process be attached any more.
func (m *marks) usage() (sum usage) {
	for _, pid := range m.pids {
		u := usageOf(pid)
		sum.cpu += u.cpu
		sum.peak += u.peak
	}
	return sum
}

func newMarks() *marks { return &marks{began: make(chan struct{}), ended: make(chan struct{})} }

// line reads one line of the protocol in test/bench/subject; other lines are ignored.
func (m *marks) line(text string) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return
	}
	number := func(i int) int64 {
		if i >= len(fields) {
			return 0
		}
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return n
	}
	switch fields[0] {
	case "first":
		m.begin(time.Unix(0, number(1)))
	case "half":
		m.halved(number(1))
	case "last":
		m.end(time.Unix(0, number(1)), number(2))
	case "ages":
		if len(fields) < 3 {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.p50, _ = time.ParseDuration(fields[1])
		m.p99, _ = time.ParseDuration(fields[2])
	}
}

// hasBegun reports whether the first record was there.
func (m *marks) hasBegun() bool {
	select {
	case <-m.began:
		return true
	default:
		return false
	}
}

func (m *marks) begin(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first.IsZero() {
		m.first = at
		close(m.began)
	}
}

func (m *marks) halved(done int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.half == 0 {
		m.half, m.atHalf = done, m.usage()
	}
}

func (m *marks) end(at time.Time, done int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last.IsZero() {
		m.last, m.done, m.atEnd = at, done, m.usage()
		close(m.ended)
	}
}

// fill writes into s what the marks say, when the run is over.
func (m *marks) fill(s *sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.records = float64(m.done)
	s.start = m.first.Sub(m.started).Seconds()
	s.span = m.last.Sub(m.first).Seconds()
	if m.half > 0 && m.done > m.half && m.atEnd.cpu > m.atHalf.cpu {
		s.warm = (m.atEnd.cpu - m.atHalf.cpu) / float64(m.done-m.half) * 1e6
	}
	s.peak = float64(m.atEnd.peak)
	if m.p99 > 0 {
		s.p50, s.p99 = m.p50.Seconds(), m.p99.Seconds()
	}
}

// subject runs one process to the end of its job. The marks are its own.
type subject func(ctx context.Context, l *lab, j job, group string, m *marks) (sample, error)

// measure runs a subject once. An error is in the sample: the other runs go on.
func (l *lab) measure(ctx context.Context, run subject, j job, group string) sample {
	l.settle(ctx)
	before, busy := load(), l.busy()
	s, err := l.attempt(ctx, run, j, group)
	if err == nil && j.rate == 0 && j.slowEvery == 0 && s.records < 0.9*float64(j.records) {
		err = fmt.Errorf("it had %.0f records of %d", s.records, j.records)
	}
	s.load, s.err = before, err
	s.broker = l.busy() - busy
	return s
}

// attempt writes the records meanwhile, for a job that has a rate.
func (l *lab) attempt(ctx context.Context, run subject, j job, group string) (sample, error) {
	m := newMarks()
	if j.rate == 0 {
		return run(ctx, l, j, group, m)
	}
	j.topic = group
	client, err := l.newTopic(ctx, j.topic, j.partitions, kgo.ProducerLinger(0))
	if err != nil {
		return newSample(), err
	}
	defer client.Close()
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	streamed := make(chan error, 1)
	go func() { streamed <- stream(streaming, client, j.rate, m.began) }()
	s, err := run(ctx, l, j, group, m)
	cancel()
	return s, errors.Join(err, <-streamed)
}

// settle waits until the broker has little left to do, five seconds at most.
func (l *lab) settle(ctx context.Context) {
	const step = 250 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	last := l.busy()
	for range 20 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := l.busy()
		if now-last < 0.1*step.Seconds() {
			return
		}
		last = now
	}
}

// await waits for the end of a job that reports to m: its last record, or its limit.
func await(ctx context.Context, c *child, m *marks, j job) error {
	timer := time.NewTimer(startLimit)
	defer timer.Stop()
	select {
	case <-m.began:
	case <-c.done:
		return fmt.Errorf("it ended before the first record: %w\n%s", c.err, c.stderr.tail(20))
	case <-timer.C:
		return fmt.Errorf("no record within %s\n%s", startLimit, c.stderr.tail(20))
	case <-ctx.Done():
		return ctx.Err()
	}
	timer.Reset(j.limit)
	select {
	case <-m.ended:
	case <-timer.C:
	case <-c.done:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// conclude ends a program that reports to m and returns its sample.
func conclude(c *child, m *marks, signal syscall.Signal) (sample, error) {
	s := newSample()
	s.cpu = c.end(signal, endLimit)
	select {
	case <-m.ended:
	default:
		return s, fmt.Errorf("it did not say how many records it had: %w\n%s", c.err, c.stderr.tail(20))
	}
	m.fill(&s)
	s.peak = max(s.peak, float64(c.peak.Load()))
	return s, nil
}
