package kafkatest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// archiveFile is the JVM's archive of the classes a broker loads, for the jars in libs. A broker that is given it starts in half the
// time, with a third of the work. The JVM ignores one that does not fit.
func archiveFile(libs string) string { return filepath.Join(filepath.Dir(libs), "broker.jsa") }

// WriteClassArchive runs a broker of the jars in the folder libs once and writes its class archive beside the folder. It replaces
// one that is there.
func WriteClassArchive(ctx context.Context, libs string) error {
	libs, err := filepath.Abs(libs)
	if err != nil {
		return err
	}
	partial := archiveFile(libs) + ".partial"
	version := filepath.Base(filepath.Dir(libs)) // .../VERSION/libs
	c, err := start(ctx, libs, Options{Version: version, JVMFlags: []string{"-Xshare:auto", "-XX:ArchiveClassesAtExit=" + partial}, training: true})
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.exercise(ctx); err != nil {
		return err
	}
	// The archive is written by an orderly exit.
	if err := c.brokers[0].end(syscall.SIGTERM); err != nil {
		return err
	}
	if err := os.Rename(partial, archiveFile(libs)); err != nil {
		return fmt.Errorf("%w; the end of the broker's log:\n%s", err, c.brokers[0].tail(10))
	}
	return nil
}

// exercise makes the broker load the classes of everyday requests.
func (c *Cluster) exercise(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	if err := client.PollFetches(ctx).Err(); err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
