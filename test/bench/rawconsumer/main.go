// Command rawconsumer reads a topic by franz-go's plain consumer group and drops the records: what the client alone can do.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicehq/sluice/test/bench/subject"
)

func main() {
	broker := flag.String("broker", "127.0.0.1:9092", "address of a broker")
	topic := flag.String("topic", "", "topic to read")
	group := flag.String("group", "", "consumer group, a new one")
	records := flag.Int64("records", 1, "records to read")
	limit := flag.Duration("limit", time.Minute, "gives up after")
	flag.Parse()

	client, err := kgo.NewClient(kgo.SeedBrokers(*broker), kgo.ConsumeTopics(*topic), kgo.ConsumerGroup(*group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	meter := subject.NewMeter(*records)
	go func() {
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			for _, e := range fetches.Errors() {
				fmt.Fprintln(os.Stderr, e.Err)
			}
			if n := fetches.NumRecords(); n > 0 {
				meter.Add(n)
			}
		}
	}()
	meter.Finish(*limit)
	client.Close()
}
