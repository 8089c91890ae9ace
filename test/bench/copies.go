package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// brokersOf is how many brokers a scenario needs.
func brokersOf(scenario string) int {
	if scenario == "copies" {
		return 3
	}
	return 1
}

// copies compares at-least-once, exactly-once, and a loop of Java's clients, each with as many records in a put or transaction.
func copies(z size, batch int) series {
	j := job{topic: topic(6), partitions: 6, records: z.records, limit: 5 * time.Minute, writers: z.writers, tasks: 1, batch: batch}
	atLeast, exactly := j, j
	atLeast.copies, exactly.copies = "at-least-once", "exactly-once"
	return series{
		title: fmt.Sprintf("Copies to a topic, 6 partitions, three brokers, %d records in a put", batch), base: "Sluice, at-least-once", warm: 1,
		note: fmt.Sprintf("%d writers. The output has six partitions too: a batch, or with exactly-once a transaction, goes to one; all topics have three replicas, of which two must confirm. "+
			"Java's loop consumes, produces and commits its offsets in transactions, in %d threads.", z.writers, z.writers),
		variants: []variant{
			{"Sluice, at-least-once", withOutput(sluice("builtin", "share")), atLeast},
			{"Sluice, exactly-once", withOutput(sluice("builtin", "share")), exactly},
			{"Java transactional loop", withOutput(transactionalLoop), j},
		},
	}
}

// copiesTo returns the topic that a group copies to.
func copiesTo(group string) string { return "out." + group }

// newOutput makes it.
func (l *lab) newOutput(ctx context.Context, group string, partitions int) error {
	client, err := l.newTopic(ctx, copiesTo(group), partitions)
	if err != nil {
		return err
	}
	client.Close()
	return nil
}

// dropOutput deletes it: with three replicas the outputs of a series fill a disk.
func (l *lab) dropOutput(ctx context.Context, group string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminTimeout)
	defer cancel()
	_, err = kadm.NewClient(client).DeleteTopic(ctx, copiesTo(group))
	return err
}

// withOutput gives each run a topic of its own to copy to.
func withOutput(run subject) subject {
	return func(ctx context.Context, l *lab, j job, group string, m *marks) (s sample, err error) {
		if err := l.newOutput(ctx, group, j.partitions); err != nil {
			return newSample(), err
		}
		defer func() {
			if failed := l.dropOutput(ctx, group); err == nil {
				err = failed
			}
		}()
		return run(ctx, l, j, group, m)
	}
}

// transactionalLoop is the loop of Kafka's documentation, in Java.
func transactionalLoop(ctx context.Context, l *lab, j job, group string, m *marks) (sample, error) {
	classes := filepath.Join(l.dir, "loop")
	if _, err := os.Stat(classes); err != nil {
		cmd := exec.CommandContext(ctx, "javac", "-d", classes, "-cp", filepath.Join(l.libs, "*"), filepath.Join(l.root, "test/bench/connectsink/TransactionalCopy.java"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return newSample(), fmt.Errorf("compile the loop: %w\n%s", err, out)
		}
	}
	return l.java(ctx, m, j, m.line, "-Xmx1G", "-cp", filepath.Join(l.libs, "*")+":"+classes, "TransactionalCopy", l.bootstrap, j.topic, copiesTo(group), group,
		strconv.FormatInt(j.records, 10), strconv.Itoa(j.batch), strconv.Itoa(j.writers))
}
