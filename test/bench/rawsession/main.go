// Command rawsession reads a topic by a share session of its own over raw requests: one member, one session, one request in
// flight, any number of puts at the same time, and acknowledgements that ride on the next fetch. It is the bar for Sluice: there is
// no recovery, no renewal, no other broker, and a sink that is a counter.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/bench/subject"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	address := flag.String("broker", "127.0.0.1:9092", "address of the broker that leads the topic")
	topic := flag.String("topic", "", "topic to read")
	group := flag.String("group", "", "share group, a new one that begins at the earliest record")
	records := flag.Int64("records", 1, "records to read")
	limit := flag.Duration("limit", time.Minute, "gives up after")
	writers := flag.Int("writers", 4, "puts at the same time")
	size := flag.Int("batch", 500, "records of a put")
	gogc := flag.Int("gogc", 100, "the garbage collector's target, as GOGC")
	var l limits
	flag.Int64Var(&l.open, "open", 0, "records acquired and not put, at most; 0 means twice what the writers hold, at least 4000")
	flag.Int64Var(&l.locks, "locks", 2000, "record locks of a partition, as the group is configured")
	flag.DurationVar(&l.wait, "wait", 50*time.Millisecond, "time a fetch waits at the broker while records are open")
	flag.DurationVar(&l.ackWait, "ackwait", 3*time.Millisecond, "time to wait for room before acknowledgements go alone")
	var w writer
	flag.DurationVar(&w.delay, "delay", 0, "time of a put")
	flag.Int64Var(&w.slowEvery, "slow-every", 0, "one record of so many is slow; 0 means none")
	flag.DurationVar(&w.slowFor, "slow-for", 2*time.Second, "time a slow record takes")
	flag.BoolVar(&w.ages, "ages", false, "report how old records are when they are put")
	flag.Parse()
	debug.SetGCPercent(*gogc)
	if l.open == 0 {
		l.open = max(2*int64(*writers**size), 4000)
	}

	client, err := kgo.NewClient(kgo.SeedBrokers(*address), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	topics, err := kadm.NewClient(client).ListTopics(ctx, *topic)
	if err != nil {
		return err
	}
	detail := topics[*topic]
	if detail.Err != nil {
		return detail.Err
	}
	m, partitions, err := join(ctx, client, *group, *topic)
	if err != nil {
		return err
	}
	go m.stay(ctx)
	s := newSession(l, client.Broker(int(detail.Partitions[0].Leader)), m, detail.ID, partitions, *size)

	// The meter is full before the goroutines end: they end with the process.
	w.meter, w.decisions = subject.NewMeter(*records), s.decisions
	batches := make(chan batch, 1024)
	go decode(*topic, *size, s.responses, batches)
	for range *writers {
		go w.run(batches)
	}
	go func() {
		if err := s.run(ctx); ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	w.meter.Finish(*limit)
	return nil
}
