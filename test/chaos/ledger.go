package chaos

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// claim is a record of the ledger that a connector keeps to write once, and what became of its transaction.
type claim struct {
	Writer    string     `json:"writer"`
	Partition int32      `json:"partition"`
	Ranges    [][2]int64 `json:"offsets"`

	producer string
	at       time.Duration
	end      string
}

// covers reports whether it is about the record.
func (c *claim) covers(p Place) bool {
	if c.Partition != p.Partition {
		return false
	}
	for _, r := range c.Ranges {
		if r[0] <= p.Offset && p.Offset <= r[1] {
			return true
		}
	}
	return false
}

// ledger writes down what the ledger has, and keeps the claims on some records.
type ledger struct {
	begin time.Time
	about []Place
	found [][]*claim          // By about.
	open  map[string][]*claim // Claims of found by ledger partition and producer.
	err   error               // The first that was not understood.
}

// add takes the next record and writes it to w.
func (l *ledger) add(w io.Writer, rec *kgo.Record) {
	at := rec.Timestamp.Sub(l.begin)
	fmt.Fprintf(w, `{"ledger":%d,"offset":%d,"at_seconds":%.3f,"producer":"%d/%d",`, rec.Partition, rec.Offset, at.Seconds(), rec.ProducerID, rec.ProducerEpoch)
	key := fmt.Sprintf("%d/%d", rec.Partition, rec.ProducerID) // A marker may have a later epoch.
	if rec.Attrs.IsControl() {
		end := markerOf(rec.Key)
		fmt.Fprintf(w, `"end":%q}`+"\n", end)
		for _, c := range l.open[key] {
			c.end = fmt.Sprintf("%s at %.3f s", end, at.Seconds())
		}
		delete(l.open, key)
		return
	}
	fmt.Fprintf(w, `"claim":%s}`+"\n", rec.Value)
	c := &claim{producer: fmt.Sprintf("%d/%d", rec.ProducerID, rec.ProducerEpoch), at: at, end: "no end"}
	if err := json.Unmarshal(rec.Value, c); err != nil && l.err == nil {
		l.err = fmt.Errorf("ledger %d, offset %d: %w", rec.Partition, rec.Offset, err)
	}
	for i, p := range l.about {
		if c.covers(p) {
			l.found[i] = append(l.found[i], c)
			l.open[key] = append(l.open[key], c)
		}
	}
}

// story says what the claims on a record were.
func (l *ledger) story(i int) string {
	parts := []string{fmt.Sprintf("claims on partition %d, offset %d:", l.about[i].Partition, l.about[i].Offset)}
	for _, c := range l.found[i] {
		parts = append(parts, fmt.Sprintf("%s (producer %s) at %.3f s, %s;", c.Writer, c.producer, c.at.Seconds(), c.end))
	}
	return strings.Join(parts, " ")
}

// writeLedger writes the ledger to a file beside the workers' logs, and returns what it says of some records.
func (r *run) writeLedger(file string, about []Place) (stories []string, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("write ledger: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("write ledger: %w", cerr)
		}
	}()
	l := &ledger{begin: r.begin, about: about, found: make([][]*claim, len(about)), open: map[string][]*claim{}}
	w := bufio.NewWriter(f)
	if err := r.scan(r.group+".ledger", kgo.ReadUncommitted(), func(rec *kgo.Record) { l.add(w, rec) }); err != nil {
		return nil, fmt.Errorf("write ledger: %w", err)
	}
	if err := w.Flush(); err != nil {
		return nil, fmt.Errorf("write ledger: %w", err)
	}
	for i := range about {
		stories = append(stories, l.story(i))
	}
	return stories, l.err
}

// markerOf says which end of a transaction a marker is: its key is a version and a type, of two bytes each.
func markerOf(key []byte) string {
	if len(key) < 4 {
		return "unknown"
	}
	switch binary.BigEndian.Uint16(key[2:]) {
	case 0:
		return "abort"
	case 1:
		return "commit"
	default:
		return "unknown"
	}
}
