package metrics

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Partition is a partition of a topic.
type Partition struct {
	Topic  string
	Number int32
}

// Lag shows how far a connector's group is behind, by partition. It is safe for
// concurrent use.
type Lag struct {
	connector string
	gauge     *prometheus.GaugeVec

	mu    sync.Mutex
	shown map[Partition]int64 // Guarded by mu.
}

// Lag returns the lag of a connector; nothing is shown before the first Set.
func (r *Registry) Lag(connector string) *Lag { return &Lag{connector: connector, gauge: r.lag} }

// Set shows the number of records each partition is behind, and no other
// partitions any more.
func (l *Lag) Set(lags map[Partition]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, n := range lags {
		l.gauge.WithLabelValues(l.connector, p.Topic, strconv.Itoa(int(p.Number))).Set(float64(n))
	}
	for p := range l.shown {
		if _, still := lags[p]; !still {
			l.gauge.DeleteLabelValues(l.connector, p.Topic, strconv.Itoa(int(p.Number)))
		}
	}
	l.shown = lags
}
