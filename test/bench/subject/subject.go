// Package subject is what the measured programs of the benchmarks have in common: how they report to the program that measures
// them. They print one line per event:
//
//	first NANOSECONDS           the wall clock at the first record
//	half RECORDS                about half of the records are done
//	last NANOSECONDS RECORDS    the wall clock at the last record, and how many there were
//	ages P50 P99 MAX            durations such as 1.5ms, if ages were asked for
//
// and then wait until standard input ends, so that their memory and CPU can be read.
package subject

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// Meter counts the records a program is done with. It is safe for concurrent use.
type Meter struct {
	want  int64
	ended chan struct{}

	mu     sync.Mutex
	done   int64
	began  bool
	halved bool
	last   time.Time
	ages   []time.Duration // Of each record, if asked for.
}

// NewMeter returns a meter that is full at want records.
func NewMeter(want int64) *Meter { return &Meter{want: want, ended: make(chan struct{})} }

// Begin notes that the first record is there. Later calls do nothing.
func (m *Meter) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin()
}

func (m *Meter) begin() {
	if !m.began {
		m.began = true
		fmt.Println("first", time.Now().UnixNano())
	}
}

// Add notes n records done, and the ages of some of them.
func (m *Meter) Add(n int, ages ...time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin()
	m.done += int64(n)
	m.ages = append(m.ages, ages...)
	if m.done >= m.want/2 && !m.halved {
		m.halved = true
		fmt.Println("half", m.done)
	}
	if m.done >= m.want && m.last.IsZero() {
		m.last = time.Now()
		close(m.ended)
	}
}

// Finish waits until the meter is full or the time is over, reports, and waits for the end of standard input, which ends the wait
// for records too.
func (m *Meter) Finish(limit time.Duration) {
	told := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(told)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-m.ended:
	case <-timer.C:
	case <-told:
	}
	m.mu.Lock()
	if m.last.IsZero() {
		m.last = time.Now()
	}
	fmt.Println("last", m.last.UnixNano(), m.done)
	if n := len(m.ages); n > 0 {
		slices.Sort(m.ages)
		fmt.Println("ages", m.ages[n/2], m.ages[n*99/100], m.ages[n-1])
	}
	m.mu.Unlock()
	<-told
}
