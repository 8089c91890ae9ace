// Package metrics counts what tasks do and serves it to Prometheus.
//
// Names begin with "sluice_"; every metric of a task has the labels connector
// and task, one of a partition connector, topic and partition. Counters end in _total, durations are in seconds, sizes in bytes.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicehq/sluice/sharetask"
)

// Registry holds the worker's metrics. It is safe for concurrent use.
type Registry struct {
	registry *prometheus.Registry

	acquired, accepted, released, rejected, renewed *prometheus.CounterVec
	lost, retried, letterFailures, putErrors        *prometheus.CounterVec
	parked                                          *prometheus.CounterVec
	letters, dropped                                *prometheus.CounterVec
	putSeconds, putRecords                          *prometheus.HistogramVec
	openRecords, openBytes, running, degraded       *prometheus.GaugeVec
	restarts, redelivered, lastChances, unrenewed   *prometheus.CounterVec
	oldest, down, highest, lag                      *prometheus.GaugeVec
	vectors                                         []vector
}

// vector is what all metric vectors have in common.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// New returns a registry that also has Go's and the process's own metrics.
func New(version, commit string) *Registry {
	r := &Registry{registry: prometheus.NewRegistry()}
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sluice_build_info", Help: "Always 1; the labels say which build this is.",
	}, []string{"version", "commit"})
	info.WithLabelValues(version, commit).Set(1)
	r.registry.MustRegister(info)

	r.acquired = r.counter("sluice_records_acquired_total", "Records handed to the task.")
	r.accepted = r.counter("sluice_records_accepted_total", "Records whose accept the broker confirmed; in consumer mode those a commit covered.")
	r.released = r.counter("sluice_records_released_total", "Records whose release the broker confirmed.")
	r.rejected = r.counter("sluice_records_rejected_total", "Records whose reject the broker confirmed.")
	r.renewed = r.counter("sluice_records_renewed_total", "Record locks whose renewal the broker confirmed.")
	r.lost = r.counter("sluice_records_lost_total", "Records whose lock or session was lost; they are delivered again.")
	r.redelivered = r.counter("sluice_records_redelivered_total", "Records handed to the task that were delivered before.")
	r.lastChances = r.counter("sluice_records_last_chance_total", "Records handed to the task that are at most one delivery from max_delivery_count; they are put alone.")
	r.unrenewed = r.counter("sluice_renewals_failed_total", "Record locks the broker refused to renew.")
	r.retried = r.counter("sluice_records_retried_total", "Records held to be put again.")
	r.putErrors = r.counter("sluice_put_errors_total", "Puts that returned an error.")
	r.letterFailures = r.counter("sluice_dead_letter_failures_total", "Dead letters that could not be written and are tried again.")
	r.parked = r.counter("sluice_records_parked_total", "Records the broker confirmed in the retry topic.")
	r.letters = r.counter("sluice_dead_letters_total", "Dead letters the broker confirmed, whatever their acknowledgement; those left to it, where it writes them itself.", "cause")
	r.dropped = r.counter("sluice_records_dropped_total", "Records given up on without a dead letter queue.", "cause")
	r.restarts = r.counter("sluice_task_restarts_total", "Times the task was started again by itself.")
	r.putSeconds = histogram(r, "sluice_put_duration_seconds", "Time a sink took for one put.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60})
	r.putRecords = histogram(r, "sluice_put_batch_records", "Records in one put.",
		[]float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000})
	r.openRecords = r.gauge("sluice_records_open", "Records held and not decided.")
	r.openBytes = r.gauge("sluice_records_open_bytes", "Bytes of keys, values and headers held.")
	r.oldest = r.gauge("sluice_oldest_open_timestamp_seconds", "When the record that is held longest was handed to the task, as Unix time; 0 if none is held.")
	r.highest = r.gauge("sluice_delivery_count_highest", "Highest delivery count of a record handed to the task since it was started; 0 while all came for the first time.")
	r.down = r.gauge("sluice_target_down", "1 while the target is taken to be down: nothing is acquired, and one put or check at a time is tried.")
	r.running = r.gauge("sluice_task_running", "1 while the task runs, 0 while it starts or has failed.")
	r.degraded = r.gauge("sluice_task_degraded", "1 while the task runs but its target does not take records.")
	r.lag = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sluice_partition_lag", Help: "Records of the partition that the group has not decided: in a share group the broker's count for the whole group, asked for every 30s at most; in a consumer group the log's end without the member's position.",
	}, []string{"connector", "topic", "partition"})
	r.add(r.lag)
	return r
}

var taskLabels = []string{"connector", "task"}

func (r *Registry) counter(name, help string, more ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(taskLabels[:2:2], more...))
	r.add(v)
	return v
}

func (r *Registry) gauge(name, help string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, taskLabels)
	r.add(v)
	return v
}

func histogram(r *Registry, name, help string, buckets []float64) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, taskLabels)
	r.add(v)
	return v
}

func (r *Registry) add(v vector) {
	r.registry.MustRegister(v)
	r.vectors = append(r.vectors, v)
}

// Handler serves the metrics in Prometheus' formats.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Forget drops the metrics of a connector that is no more.
func (r *Registry) Forget(connector string) {
	for _, v := range r.vectors {
		v.DeletePartialMatch(prometheus.Labels{"connector": connector})
	}
}

// Task returns the metrics of a connector's tasks from first on that share a
// member of the group: they are counted together, under first, but each has a
// state. All counters exist at once, so that a rate has a zero to start from.
func (r *Registry) Task(connector string, first, tasks int) *Task {
	l := []string{connector, strconv.Itoa(first)}
	t := &Task{
		labels:   l,
		registry: r,
		acquired: r.acquired.WithLabelValues(l...),
		verdicts: map[sharetask.Verdict]prometheus.Counter{
			sharetask.Accept:  r.accepted.WithLabelValues(l...),
			sharetask.Release: r.released.WithLabelValues(l...),
			sharetask.Reject:  r.rejected.WithLabelValues(l...),
			sharetask.Renew:   r.renewed.WithLabelValues(l...),
		},
		lost:           r.lost.WithLabelValues(l...),
		redelivered:    r.redelivered.WithLabelValues(l...),
		lastChances:    r.lastChances.WithLabelValues(l...),
		unrenewed:      r.unrenewed.WithLabelValues(l...),
		oldest:         r.oldest.WithLabelValues(l...),
		down:           r.down.WithLabelValues(l...),
		highest:        r.highest.WithLabelValues(l...),
		retried:        r.retried.WithLabelValues(l...),
		putErrors:      r.putErrors.WithLabelValues(l...),
		letterFailures: r.letterFailures.WithLabelValues(l...),
		parked:         r.parked.WithLabelValues(l...),
		putSeconds:     r.putSeconds.WithLabelValues(l...),
		putRecords:     r.putRecords.WithLabelValues(l...),
		openRecords:    r.openRecords.WithLabelValues(l...),
		openBytes:      r.openBytes.WithLabelValues(l...),
		restarts:       r.restarts.WithLabelValues(l...),
	}
	for i := range tasks {
		n := strconv.Itoa(first + i)
		t.running = append(t.running, r.running.WithLabelValues(connector, n))
		t.degraded = append(t.degraded, r.degraded.WithLabelValues(connector, n))
	}
	return t
}

// Task counts for one task; it is a [sharetask.Metrics].
type Task struct {
	labels                             []string
	registry                           *Registry
	verdicts                           map[sharetask.Verdict]prometheus.Counter
	acquired, lost, retried, putErrors prometheus.Counter
	letterFailures, restarts, parked   prometheus.Counter
	redelivered, lastChances           prometheus.Counter
	unrenewed                          prometheus.Counter
	oldest, down, highest              prometheus.Gauge
	mostOften                          int // What highest shows.
	putSeconds, putRecords             prometheus.Observer
	openRecords, openBytes             prometheus.Gauge
	running, degraded                  []prometheus.Gauge // One of each task.
}

var _ sharetask.Metrics = (*Task)(nil)

// Acquired counts records handed to the task.
func (t *Task) Acquired(n int) { t.acquired.Add(float64(n)) }

// Acknowledged counts decisions the broker confirmed.
func (t *Task) Acknowledged(v sharetask.Verdict, n int) {
	if c := t.verdicts[v]; c != nil {
		c.Add(float64(n))
	}
}

// Redelivered counts records that were delivered before, and those at their
// last chance, and keeps the highest delivery count. The task calls it from one
// goroutine.
func (t *Task) Redelivered(n, lastChance, highest int) {
	if highest > t.mostOften {
		t.mostOften = highest
		t.highest.Set(float64(highest))
	}
	t.redelivered.Add(float64(n))
	t.lastChances.Add(float64(lastChance))
}

// Lost counts records whose lock or session was lost.
func (t *Task) Lost(n int, renewal bool) {
	t.lost.Add(float64(n))
	if renewal {
		t.unrenewed.Add(float64(n))
	}
}

// Put observes one put.
func (t *Task) Put(records int, took time.Duration, failed bool) {
	t.putSeconds.Observe(took.Seconds())
	t.putRecords.Observe(float64(records))
	if failed {
		t.putErrors.Inc()
	}
}

// Retried counts records that will be put again.
func (t *Task) Retried(n int) { t.retried.Add(float64(n)) }

// DeadLettered counts dead letters by cause.
func (t *Task) DeadLettered(cause string, n int) {
	t.registry.letters.WithLabelValues(t.labels[0], t.labels[1], cause).Add(float64(n))
}

// Parked counts records confirmed in the retry topic.
func (t *Task) Parked(n int) { t.parked.Add(float64(n)) }

// DeadLetterFailed counts dead letters that are tried again.
func (t *Task) DeadLetterFailed(n int) { t.letterFailures.Add(float64(n)) }

// Dropped counts records given up on without a dead letter queue.
func (t *Task) Dropped(cause string, n int) {
	t.registry.dropped.WithLabelValues(t.labels[0], t.labels[1], cause).Add(float64(n))
}

// Down gives whether the target is taken to be down.
func (t *Task) Down(down bool) { t.down.Set(number(down)) }

// Open gives the records and bytes held now, and since when the oldest is.
func (t *Task) Open(records, bytes int, oldest time.Time) {
	seconds := 0.0
	if !oldest.IsZero() {
		seconds = float64(oldest.UnixMilli()) / 1000
	}
	t.oldest.Set(seconds)
	t.openRecords.Set(float64(records))
	t.openBytes.Set(float64(bytes))
}

// Restarted counts that the task is started again by itself.
func (t *Task) Restarted() { t.restarts.Inc() }

// State gives whether the tasks run, and make progress.
func (t *Task) State(running, degraded bool) {
	for i := range t.running {
		t.running[i].Set(number(running))
		t.degraded[i].Set(number(degraded))
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
