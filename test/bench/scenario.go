package bench

import (
	"fmt"
	"time"
)

// variant is one row of a table.
type variant struct {
	name string
	run  subject
	job  job
}

// series are variants that are measured in turns and make one table.
type series struct {
	title    string
	note     string // What to know about the figures.
	variants []variant
	base     string // The variant that the others' speed is divided by.
	warm     int    // The variant that the broker is warmed up with.
	latency  bool   // The table shows ages, not speed.
	idle     int    // The number of connectors that have nothing to do; then there are no jobs.
}

// size is how much is measured.
type size struct {
	records int64
	writers int
}

// scenarioNames are what the flag may name.
var scenarioNames = []string{"bulk", "sink5", "sink50", "slow", "refused", "copies", "tasks", "workers", "latency", "idle"}

// scenario returns the series of one scenario, nil if there is none of the name.
func scenario(name string, z size) []series {
	switch name {
	case "bulk":
		return []series{bulk(z, 1), bulk(z, 6)}
	case "sink5":
		return []series{slowSink(z, 5*time.Millisecond)}
	case "sink50":
		return []series{slowSink(z, 50*time.Millisecond)}
	case "slow":
		return []series{slowRecords()}
	case "refused":
		return []series{refused(z, "process"), refused(z, "wasm")}
	case "copies":
		return []series{copies(z, 2000), copies(z, 1000), copies(z, 500)}
	case "tasks":
		return []series{tasks(z, 1), tasks(z, 6)}
	case "workers":
		return []series{workersOf(z, 1), workersOf(z, 6)}
	case "latency":
		return []series{latency()}
	case "idle":
		return []series{{title: "1,000 idle connectors", idle: 1000, note: "Each connector has a share group of its own on one empty topic. " +
			"CPU is measured over 60 s, beginning 60 s after all run."}}
	default:
		return nil
	}
}

func topic(partitions int) string { return fmt.Sprintf("p%d", partitions) }

// in adds the words for a number of partitions.
func in(partitions int) string {
	if partitions == 1 {
		return "one partition"
	}
	return fmt.Sprintf("%d partitions", partitions)
}

func bulk(z size, partitions int) series {
	j := job{topic: topic(partitions), partitions: partitions, records: z.records, limit: 3 * time.Minute, writers: z.writers, tasks: 1}
	return series{
		title: "Bulk, " + in(partitions), base: "raw share session",
		note: fmt.Sprintf("A sink that does nothing; %d writers, but for franz-go's consumer and Java's tool, which have none. "+
			"Kafka Connect has a task for each writer, but not more than partitions.", z.writers),
		variants: []variant{
			{"raw share session", rawSession, j},
			{"franz-go consumer group", rawConsumer, j},
			{"Sluice share, builtin", sluice("builtin", "share"), j},
			{"Sluice share, process", sluice("process", "share"), j},
			{"Sluice share, WASM (C)", sluice("wasm-c", "share"), j},
			{"Sluice share, WASM (Go)", sluice("wasm-go", "share"), j},
			{"Sluice consumer, builtin", sluice("builtin", "consumer"), j},
			{"Kafka Connect", connect(false), j},
			{"Kafka Connect, tuned", connect(true), j},
			{"Java share tool", shareTool, j},
		},
	}
}

func slowSink(z size, delay time.Duration) series {
	s := series{
		title: fmt.Sprintf("A put takes %s, 6 partitions", delay), base: "raw share session, 16 writers",
		note: "Of 500 records each. No WASM: its sandbox has no clock to sleep by. Each run takes eight seconds at most at the ideal speed of " +
			"writers x 500 / delay.",
	}
	for _, writers := range []int{1, 4, 16} {
		ideal := float64(writers) * 500 / delay.Seconds()
		j := job{
			topic: topic(6), partitions: 6, records: min(z.records, int64(8*ideal)), limit: 3 * time.Minute, writers: writers, tasks: 1, delay: delay,
		}
		for _, v := range []variant{
			{"raw share session", rawSession, j},
			{"Sluice share, builtin", sluice("builtin", "share"), j},
			{"Sluice share, process", sluice("process", "share"), j},
		} {
			v.name += fmt.Sprintf(", %d writers", writers)
			s.variants = append(s.variants, v)
		}
	}
	return s
}

func slowRecords() series {
	const locks, producerBatch, slowFor = 2000, 1000, 2
	j := job{
		topic: topic(6), partitions: 6, records: 1 << 40, limit: 20 * time.Second, writers: 1, tasks: 1, slowEvery: 1000, slowFor: slowFor * time.Second,
	}
	return series{
		title: "One record in 1,000 takes 2 s, 6 partitions", base: "raw share session",
		note: fmt.Sprintf("Runs of 20 s. The window of record locks allows about 6 x (%d locks + %d records of a producer's batch) / %d s = %d records/s. "+
			"In Sluice the sink answers \"retry in 2 s\" for such a record and accepts it then.", locks, producerBatch, slowFor, 6*(locks+producerBatch)/slowFor),
		variants: []variant{
			{"raw share session", rawSession, j},
			{"Sluice share, builtin", sluice("builtin", "share"), j},
			{"Sluice share, process", sluice("process", "share"), j},
		},
	}
}

// refused compares runs of one sink that refuses some records with ones in which it refuses none.
func refused(z size, form string) series {
	const every = 1000
	j := job{topic: topic(6), partitions: 6, records: z.records, limit: 3 * time.Minute, writers: z.writers, tasks: 1, sink: "refuse"}
	s := series{
		warm:  1,
		title: fmt.Sprintf("One record in %d is refused, 6 partitions, %s", every, form), base: fmt.Sprintf("Sluice share, %s, none refused", form),
		note: fmt.Sprintf("A sink that does nothing else; %d writers. What it refuses goes to the dead letter queue, on the same broker, and is confirmed there "+
			"before it is acknowledged. Both variants have the queue.", z.writers),
	}
	s.variants = append(s.variants, variant{s.base, sluice(form+"-refuse", "share"), j})
	j.refuseEvery = every
	s.variants = append(s.variants, variant{fmt.Sprintf("Sluice share, %s, 1 in %d refused", form, every), sluice(form+"-refuse", "share"), j})
	return s
}

func tasks(z size, partitions int) series {
	s := series{title: "Tasks of one connector, " + in(partitions), base: "Sluice share, builtin, 1 task", note: "One writer a task, a sink that does nothing."}
	j := job{topic: topic(partitions), partitions: partitions, records: z.records, limit: 5 * time.Minute, writers: 1, tasks: 1}
	raw := j
	raw.writers = z.writers
	s.variants = append(s.variants, variant{fmt.Sprintf("raw share session, %d writers", z.writers), rawSession, raw})
	for _, n := range []int{1, 4, 16, 64} {
		j.tasks = n
		name := fmt.Sprintf("Sluice share, builtin, %d tasks", n)
		if n == 1 {
			name = s.base
		}
		s.variants = append(s.variants, variant{name, sluice("builtin", "share"), j})
	}
	return s
}

func workersOf(z size, partitions int) series {
	s := series{
		title: "Workers with one connector, " + in(partitions), base: "Sluice share, builtin, 1 worker",
		note: "Processes of one share group, each with one task and one writer, on the cores of one machine: what they cost each other, not what " +
			"they add. Speed is from the first record of any to the last.",
	}
	for _, n := range []int{1, 4, 16} {
		name := fmt.Sprintf("Sluice share, builtin, %d workers", n)
		if n == 1 {
			name = s.base
		}
		j := job{topic: topic(partitions), partitions: partitions, records: z.records, limit: 5 * time.Minute, writers: 1, tasks: 1, workers: n}
		s.variants = append(s.variants, variant{name, sluice("builtin", "share"), j})
	}
	return s
}

func latency() series {
	j := job{partitions: 6, records: 1 << 40, limit: 15 * time.Second, writers: 1, tasks: 1, rate: 10_000, maxWait: "1ms"}
	return series{
		title: "Latency at 10,000 records/s, 6 partitions", base: "raw share session", latency: true,
		note: "From the producer's timestamp, which has whole milliseconds and so adds half a one, to the put; batch.max_wait = \"1ms\". " +
			"Producer, broker and subject share the machine. Runs of 15 s.",
		variants: []variant{
			{"raw share session", rawSession, j},
			{"Sluice share, builtin", sluice("builtin", "share"), j},
			{"Sluice share, process", sluice("process", "share"), j},
			{"Sluice share, WASM (Go)", sluice("wasm-go", "share"), j},
			{"Sluice consumer, builtin", sluice("builtin", "consumer"), j},
		},
	}
}
