package chaos

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/kafkatest"
)

// readLetter reads a dead letter, of the connector or of the broker's own net. begin is the start of the run.
func readLetter(rec *kgo.Record, begin time.Time) (Event, error) {
	id, err := kafkatest.ID(rec.Value)
	if err != nil {
		return Event{}, err
	}
	l := &Letter{Headers: map[string]string{}}
	for _, h := range rec.Headers {
		l.Headers[h.Key] = string(h.Value)
	}
	e := Event{ID: id, At: rec.Timestamp.Sub(begin), Letter: l}
	first := func(names ...string) (int64, error) {
		for _, name := range names {
			if text, ok := l.Headers[name]; ok {
				return strconv.ParseInt(text, 10, 64)
			}
		}
		return 0, fmt.Errorf("no header %s", names[0])
	}
	partition, err := first("__connect.errors.partition", "__dlq.errors.partition")
	if err != nil {
		return Event{}, fmt.Errorf("read partition: %w", err)
	}
	e.Place.Partition = int32(partition)
	if e.Place.Offset, err = first("__connect.errors.offset", "__dlq.errors.offset"); err != nil {
		return Event{}, fmt.Errorf("read offset: %w", err)
	}
	deliveries, err := first("__sluice.errors.delivery.count", "__dlq.errors.delivery.count")
	if err != nil {
		return Event{}, fmt.Errorf("read delivery count: %w", err)
	}
	l.Deliveries = int(deliveries)
	return e, nil
}

// writeEvents writes all arrivals to a file beside the workers' logs, for whoever looks for the cause of a finding.
func writeEvents(file string, events []Event) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write arrivals: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("write arrivals: %w", cerr)
		}
	}()
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "id,partition,offset,at_seconds,by")
	for i := range events {
		e := &events[i]
		fmt.Fprintf(w, "%d,%d,%d,%.3f,%s\n", e.ID, e.Place.Partition, e.Place.Offset, e.At.Seconds(), e.by())
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write arrivals: %w", err)
	}
	return nil
}
