package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Bootstrap returns the addresses of all brokers' plaintext listeners.
func (c *Cluster) Bootstrap() []string { return c.BootstrapOf(plaintext) }

// BootstrapOf returns the addresses of all brokers' listeners of that name, one of [Options.Listeners] or PLAINTEXT.
func (c *Cluster) BootstrapOf(listener string) []string {
	var addresses []string
	for _, of := range c.ports {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", of[listener]))
	}
	return addresses
}

// Certificates returns the files of the cluster's TLS listeners, nil if it has none.
func (c *Cluster) Certificates() *Certificates { return c.certs }

// Brokers is the number of brokers, running or not.
func (c *Cluster) Brokers() int { return len(c.brokers) }

// Stop shuts broker i down in an orderly way and waits until its process is gone.
func (c *Cluster) Stop(t testing.TB, i int) {
	t.Helper()
	c.must(t, c.brokers[i].end(syscall.SIGTERM))
}

// Kill ends broker i as a crash would (SIGKILL) and waits until its process is gone.
func (c *Cluster) Kill(t testing.TB, i int) {
	t.Helper()
	c.must(t, c.brokers[i].end(syscall.SIGKILL))
}

// Pause freezes broker i (SIGSTOP): its connections stay open and nothing answers.
func (c *Cluster) Pause(t testing.TB, i int) {
	t.Helper()
	_, err := c.brokers[i].signal(syscall.SIGSTOP)
	c.must(t, err)
}

// Continue lets a paused broker i run again.
func (c *Cluster) Continue(t testing.TB, i int) {
	t.Helper()
	_, err := c.brokers[i].signal(syscall.SIGCONT)
	c.must(t, err)
}

// Start starts broker i again, after [Cluster.Stop] or [Cluster.Kill], with the same ports and data, and waits until it answers and
// lists itself among the living. It needs a majority of the brokers to run.
func (c *Cluster) Start(t testing.TB, i int) {
	t.Helper()
	c.must(t, c.brokers[i].start())
	c.must(t, c.awaitReady(t.Context(), c.brokers[i], 1))
}

// StartNoWait starts broker i again and returns at once, for tests that start several.
func (c *Cluster) StartNoWait(t testing.TB, i int) {
	t.Helper()
	c.must(t, c.brokers[i].start())
}

// BrokerLog returns the last lines of broker i's log, at most lines of them.
func (c *Cluster) BrokerLog(i, lines int) string { return c.brokers[i].tail(lines) }

// PropertiesFile is the server.properties of broker i; Kafka's tools can be given it.
func (c *Cluster) PropertiesFile(i int) string {
	return filepath.Join(c.brokers[i].dir, "server.properties")
}

func (c *Cluster) must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// awaitReady polls broker b with metadata requests until it answers with at least alive brokers, itself one of them. An open port is
// not enough: a broker opens it before it knows the cluster.
func (c *Cluster) awaitReady(ctx context.Context, b *broker, alive int) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	exited := b.done()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("not asked yet")
	for {
		select {
		case <-exited:
			return fmt.Errorf("broker %d ended while it started; last lines of its log:\n%s", b.index, b.tail(30))
		case <-ctx.Done():
			return fmt.Errorf("broker %d is not ready: %w (last answer: %w); last lines of its log:\n%s", b.index, ctx.Err(), last, b.tail(30))
		case <-tick.C:
		}
		if last = c.ask(ctx, b, alive); last == nil {
			return nil
		}
	}
}

// ask makes one metadata request on a connection of its own.
func (c *Cluster) ask(ctx context.Context, b *broker, alive int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()[b.index]), kgo.RequestRetries(0), kgo.DialTimeout(time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	metadata, err := kadm.NewClient(client).BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	self := false
	for _, node := range metadata.Brokers {
		self = self || int(node.NodeID) == b.index+1
	}
	if !self || len(metadata.Brokers) < alive || metadata.Controller < 0 {
		return fmt.Errorf("metadata names %d of %d brokers, controller %d", len(metadata.Brokers), alive, metadata.Controller)
	}
	return nil
}
