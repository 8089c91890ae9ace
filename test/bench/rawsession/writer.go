package main

import (
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicehq/sluice/test/bench/subject"
)

// batch is what one put gets.
type batch struct {
	partition int32
	records   []*kgo.Record
}

// decode makes batches of at most size records of the responses.
func decode(topic string, size int, responses <-chan acquired, batches chan<- batch) {
	for r := range responses {
		part := kmsg.NewFetchResponseTopicPartition()
		part.Partition, part.RecordBatches = r.partition, r.records
		part.HighWatermark, part.LastStableOffset, part.LogStartOffset = -1, -1, -1
		fetched, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: topic, Partition: r.partition}, &part, kgo.DefaultDecompressor(), nil)
		if fetched.Err != nil {
			fmt.Fprintln(os.Stderr, "decode:", fetched.Err)
		}
		records := fetched.Records
		for _, s := range r.spans {
			for len(records) > 0 && records[0].Offset < s.from {
				records = records[1:]
			}
			n := 0
			for n < len(records) && records[n].Offset < s.to {
				n++
			}
			if int64(n) != s.to-s.from { // The benchmark's topics have no gaps.
				fmt.Fprintf(os.Stderr, "decode: %d records in the offsets %d to %d\n", n, s.from, s.to)
			}
			for i := 0; i < n; i += size {
				batches <- batch{r.partition, records[i:min(i+size, n)]}
			}
			records = records[n:]
		}
	}
}

// writer puts batches, one after the other.
type writer struct {
	delay     time.Duration // Of a put.
	slowEvery int64         // One record of so many takes slowFor; 0 means none.
	slowFor   time.Duration
	ages      bool
	meter     *subject.Meter
	decisions chan<- decided
}

func (w *writer) run(batches <-chan batch) {
	for b := range batches {
		w.put(b)
	}
}

func (w *writer) put(b batch) {
	w.meter.Begin()
	var ages []time.Duration
	if w.ages {
		now := time.Now()
		for _, r := range b.records {
			ages = append(ages, now.Sub(r.Timestamp))
		}
	}
	if w.delay > 0 {
		time.Sleep(w.delay)
	}
	from, fast := b.records[0].Offset, len(b.records)
	for _, r := range b.records {
		if w.slowEvery == 0 || r.Offset%w.slowEvery != w.slowEvery/2 {
			continue
		}
		if from < r.Offset {
			w.decisions <- decided{b.partition, span{from, r.Offset}}
		}
		from, fast = r.Offset+1, fast-1
		late := decided{b.partition, span{r.Offset, r.Offset + 1}}
		time.AfterFunc(w.slowFor, func() {
			w.decisions <- late
			w.meter.Add(1)
		})
	}
	if to := b.records[len(b.records)-1].Offset + 1; from < to {
		w.decisions <- decided{b.partition, span{from, to}}
	}
	w.meter.Add(fast, ages...)
}
